"""AllocationNMF: processor time to the held-out perplexity of tomotopy's LDA after 200 iterations, its defaults.

One chain with default settings on one thread, start included; both are looked at after some numbers of sweeps. Of 300
held-out documents, half of each one's tokens are given: activations by the same 50 iterations of EM for both, under the
concentrations that each has learned, predict the other half.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.data import real, small_counts
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped

Floats = NDArray[np.float64]

_GOALS = {20: 1.2, 100: 3.0, 1000: 10.0}
_CASES = tuple((name, k, bound) for name in ("nips_uci7605", "newsgroups20") for k, bound in _GOALS.items())
_ITERATIONS, _HELD_OUT, _FOLD_IN = 200, 300, 50
_SWEEPS = (5, 10, 20, 40, 70, 110, 160)
_PEER = f"tomotopy LDA, defaults, {_ITERATIONS} iterations"


def measure(settings: Settings) -> Iterator[Line]:
    """Processor seconds, the peer's over ours."""
    for name, n_components, bound in _CASES:
        dataset, goal = real(name), Goal(bound, "at least")
        what = f"processor time to the same held-out perplexity, K = {n_components}"
        if dataset.missing:
            yield skipped(what, dataset.name, dataset.missing, goal)
            continue
        counts = _usual_words(dataset.load())
        ours: list[float | None] = []
        peer, reached = [], []
        for seed in range(settings.repeats):
            train, given, hidden = _split(counts, seed)
            seconds, perplexity = _tomotopy(train, n_components, seed, given, hidden)
            peer.append(seconds)
            reached.append(perplexity)
            ours.append(_ours(train, n_components, seed, given, hidden, perplexity))
        note = f"perplexity {np.median(reached):.0f}"
        yield Line(
            what, dataset.name, Sample.of(ours, "s"), Sample.of(peer, "s"), _PEER, goal=goal, threads="1", note=note
        )


def _usual_words(counts: Any) -> Any:
    """Words of at least ten documents, and documents of at least twenty words."""
    counts = counts[:, np.bincount(counts.indices, minlength=counts.shape[1]) >= 10]
    return counts[np.asarray(counts.sum(axis=1)).ravel() >= 20]


def _split(counts: Any, seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(counts.shape[0])
    held_out, given = counts[order[:_HELD_OUT]], counts[order[:_HELD_OUT]]
    given.data = rng.binomial(held_out.data, 0.5).astype(held_out.data.dtype)
    return counts[np.sort(order[_HELD_OUT:])], given, held_out - given


def perplexity_of(dictionary: Floats, concentration: Floats, given: Any, hidden: Any) -> float:
    """Of the hidden tokens."""
    total = 0.0
    for n in range(given.shape[0]):
        features, values = given[[n]].indices, given[[n]].data.astype(np.float64)
        seen, shares = dictionary[features], np.ones(concentration.size)
        for _ in range(_FOLD_IN):
            shares = concentration + shares * (seen.T @ (values / np.maximum(seen @ shares, 1e-300)))
        row = hidden[[n]]
        total += float(row.data @ np.log(dictionary[row.indices] @ (shares / shares.sum()) + 1e-12))
    return float(np.exp(-total / hidden.sum()))


class _ReachedError(Exception):
    pass


def _ours(train: Any, n_components: int, seed: int, given: Any, hidden: Any, target: float) -> float | None:
    """Processor seconds to the target, between two looks along a straight line; None if it is not reached."""
    from partwise import AllocationNMF

    looks: list[tuple[float, float]] = []
    looking = 0.0

    def look(iteration: int, state: Any, trace: Any) -> None:
        nonlocal looking
        if iteration not in _SWEEPS:
            return
        paused = time.process_time()
        alpha, beta = state.concentrations(0)
        weights = alpha[:, None] + state.feature_counts[0][:, :n_components]
        now = perplexity_of(weights / weights.sum(axis=0), beta, given, hidden)
        looks.append((paused - began - looking, now))
        if now <= target:
            raise _ReachedError
        looking += time.process_time() - paused

    def fit(counts: Any, sweeps: int, **more: Any) -> None:
        settings: dict[str, Any] = {"burn_in": sweeps, "n_draws": 1, "n_chains": 1, "progress": False, **more}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one draw cannot tell whether a chain has converged
            AllocationNMF(n_components, random_state=seed, **settings).fit(counts)

    fit(small_counts(), 4)
    began = time.process_time()
    try:
        fit(train, max(_SWEEPS), callbacks=[look])
    except _ReachedError:
        (seconds, now), *before = reversed(looks)
        return float(np.interp(target, (now, before[0][1]), (seconds, before[0][0]))) if before else seconds
    return None


def _tomotopy(train: Any, n_components: int, seed: int, given: Any, hidden: Any) -> tuple[float, float]:
    import tomotopy

    began = time.process_time()
    model: Any = tomotopy.LDAModel(k=n_components, seed=seed + 1, rm_top=0, min_cf=0)
    for n in range(train.shape[0]):
        part = slice(train.indptr[n], train.indptr[n + 1])
        model.add_doc([str(f) for f in np.repeat(train.indices[part], train.data[part].astype(np.int64))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model.train(_ITERATIONS, workers=1)
    seconds = time.process_time() - began
    found = np.full((train.shape[1], n_components), float(model.eta))
    words = np.array([int(word) for word in model.used_vocabs])
    found[words] = np.array([model.get_topic_word_dist(k, normalize=False) for k in range(n_components)]).T
    return seconds, perplexity_of(found / found.sum(axis=0), np.array(model.alpha, np.float64), given, hidden)
