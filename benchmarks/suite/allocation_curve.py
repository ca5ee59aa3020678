"""AllocationNMF: held-out perplexity against seconds of training, beside tomotopy's LDA.

K = 20 on ap, one thread each, the same priors; topics are those of the last sweep. A line sets the perplexity that ours
has after some sweeps beside the peer's after the same time, read off the peer's curve between its own points (before
the first of them, the first). Drawn to ``out/allocation_curve.png``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.curves import draw_curves
from benchmarks.harness.data import real, small_counts
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.topics import ALPHA, ETA, NAME, Topics
from benchmarks.suite.allocation_heldout import perplexity

Floats = NDArray[np.float64]

_N_COMPONENTS, _MOST_DOCUMENTS = 20, 40
_SWEEPS = (10, 30, 100)
_SAMPLERS = ("gibbs", "gibbs-partial")


def measure(settings: Settings) -> Iterator[Line]:
    """The ratio is ours over the peer's."""
    dataset, goal = real("ap"), Goal(1.005, "below")
    if dataset.missing:
        yield skipped("held-out perplexity at equal seconds", dataset.name, dataset.missing, goal)
        return
    counts = dataset.load()
    curves: dict[str, list[tuple[Floats, Floats]]] = {name: [] for name in (*_SAMPLERS, NAME)}
    for seed in range(settings.repeats):
        order = np.random.default_rng(seed).permutation(counts.shape[0])
        cut = 4 * counts.shape[0] // 5
        train, held_out = counts[order[:cut]], counts[order[cut:]][:_MOST_DOCUMENTS]
        for name in _SAMPLERS:
            curves[name].append(_ours(train, held_out, name, seed))
        curves[NAME].append(_peer(train, held_out, seed))
    for name in _SAMPLERS:
        for at, sweeps in enumerate(_SWEEPS):
            ours = [float(values[at]) for _, values in curves[name]]
            pairs = zip(curves[name], curves[NAME], strict=True)
            peer = [float(np.interp(seconds[at], *of_peer)) for (seconds, _), of_peer in pairs]
            spent = np.median([seconds[at] for seconds, _ in curves[name]])
            yield Line(
                f"{name}: held-out perplexity after {sweeps} sweeps",
                dataset.name,
                Sample.of(ours, ""),
                Sample.of(peer, ""),
                f"{NAME}, in the same time",
                peer_over_ours=False,
                goal=goal,
                note=f"{spent:.2g} s",
            )
    draw_curves(
        "allocation_curve.png",
        {dataset.name: {name: runs[0] for name, runs in curves.items() if name != "gibbs-partial"}},
        "seconds of training",
        "held-out perplexity",
    )


def _ours(train: Any, held_out: Any, inference: str, seed: int) -> tuple[Floats, Floats]:
    """Seconds and perplexities after each number of sweeps; whole fits, start and checks of the data included."""
    from partwise import AllocationNMF

    def sampler(sweeps: int) -> Any:
        return AllocationNMF(
            _N_COMPONENTS,
            dictionary_concentration=ETA,
            activation_concentration=ALPHA,
            inference=inference,
            burn_in=sweeps - 1,
            n_draws=1,
            n_chains=1,
            random_state=seed,
            progress=False,
        )

    # Compiles.
    sampler(2).fit(small_counts())
    seconds, reached = [], []
    for sweeps in _SWEEPS:
        began = time.perf_counter()
        model = sampler(sweeps).fit(train)
        seconds.append(time.perf_counter() - began)
        reached.append(perplexity(held_out, model.components_.T))
    return np.array(seconds), np.array(reached)


def _peer(train: Any, held_out: Any, seed: int) -> tuple[Floats, Floats]:
    topics = Topics(train, _N_COMPONENTS, seed + 1)
    seconds, reached, done, spent = [], [], 0, 0.0
    for sweeps in _SWEEPS:
        spent += topics.seconds(sweeps - done, 1)
        done = sweeps
        seconds.append(spent)
        reached.append(perplexity(held_out, topics.dictionary()))
    return np.array(seconds), np.array(reached)
