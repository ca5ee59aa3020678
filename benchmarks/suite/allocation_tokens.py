"""AllocationNMF: seconds of a sweep beside tomotopy's LDA.

Collapsed Gibbs on one thread beside tomotopy on one; this and the partially collapsed sampler on two beside tomotopy's
best of one and two workers. Sweeps 11 to 20 of each, the same tokens and priors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.harness.data import real
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.topics import ALPHA, ETA, NAME, Topics

_WARM, _SWEEPS = 10, 10


def measure(settings: Settings) -> Iterator[Line]:
    """Milliseconds of a sweep, at 10 and 100 components."""
    dataset = real("nips_uci7605")
    for n_components in (10, 100):
        for inference, threads, bound in (("gibbs", 1, 1.0), ("gibbs", 2, 1.5), ("gibbs-partial", 2, 1.5)):
            several = ", two threads" if (inference, threads) == ("gibbs", 2) else ""
            what, goal = f"one sweep, {inference}{several}, K = {n_components}", Goal(bound, "at least")
            if dataset.missing:
                yield skipped(what, dataset.name, dataset.missing, goal)
                continue
            counts = dataset.load()
            ours, peer = [], []
            for seed in range(settings.repeats):
                ours.append(1e3 * _ours(counts, n_components, inference, threads, seed))
                topics = Topics(counts, n_components, seed + 1)
                topics.seconds(_WARM, threads)
                times = [topics.seconds(_SWEEPS, workers) / _SWEEPS for workers in range(1, threads + 1)]
                peer.append(1e3 * min(times))
            yield Line(
                what,
                dataset.name,
                Sample.of(ours, "ms"),
                Sample.of(peer, "ms"),
                NAME,
                goal=goal,
                threads=str(threads),
                note=f"{counts.sum() / 1e6:.2f} million tokens",
            )


def _ours(counts: Any, n_components: int, inference: str, threads: int, seed: int) -> float:
    from partwise import AllocationNMF

    times: list[float] = []
    AllocationNMF(
        n_components,
        dictionary_concentration=ETA,
        activation_concentration=ALPHA,
        inference=inference,
        burn_in=_WARM + _SWEEPS,
        n_draws=1,
        n_chains=1,
        random_state=seed,
        n_jobs=threads,
        progress=False,
        callbacks=[lambda iteration, state, trace: times.append(time.perf_counter())],
    ).fit(counts)
    return (times[_WARM + _SWEEPS - 1] - times[_WARM - 1]) / _SWEEPS
