"""Seconds to a held-out perplexity: AllocationNMF and tomotopy's LDA, looked at on the way by one common fold-in.

Of 300 held-out documents, half of each one's tokens are given: activations by the same 50 iterations of EM for both,
under the concentrations that each has learned, predict the other half. The clock stands still while it is looked at.
Ours are the means over draws that a fit gives when it ends there: four of the second half of its sweeps, or two of the
sweeps from a half to three quarters of them. tomotopy gives its last draw.
Run as a module, it prints by how much the peak of memory rises during a short fit whose factors are read.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.harness.data import real, small_counts
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.memory import settle, status

Floats = NDArray[np.float64]

GOALS = {20: 1.2, 100: 3.0, 1000: 10.0}
SHORT = "60,000 documents of 15 words, from newsgroups20"
CORPORA = {"nips_uci7605": "nips_uci7605", SHORT: "newsgroups20", "newsgroups20": "newsgroups20"}
"""Names in the table, and the data sets behind them."""
TARGETS = (200, 1000)
_HELD_OUT, _FOLD_IN = 300, 50
# Rounds of four draws end after 8, 16, 32, 64, 128, 256 and 512 sweeps, each with the sweeps before it as its burn-in.
_ROUNDS: dict[str, Any] = {"burn_in": 4, "n_draws": 4, "max_iter": "auto"}
_LOOKS, _MOST_SWEEPS = (2, 4), 512
# The second target is left out where the first took tomotopy longer than this, in seconds, unless it is asked for.
_LONG = 20.0


def corpus(name: str) -> Any:
    """Words of at least ten documents, and documents of at least twenty words, or 60,000 documents of 15 words."""
    counts = usual_words(real(CORPORA[name]).load(), 20)
    return usual_words(_cut(counts, 15, 60_000), 1) if name == SHORT else counts


def usual_words(counts: Any, fewest: int = 20) -> Any:
    """Words of at least ten documents, and then documents of at least so many words."""
    counts = counts[:, np.bincount(counts.indices, minlength=counts.shape[1]) >= 10]
    return counts[np.asarray(counts.sum(axis=1)).ravel() >= fewest]


def _cut(counts: Any, length: int, n_documents: int) -> Any:
    """At most four documents of each row, of tokens in random order."""
    rng = np.random.default_rng(0)
    found: list[NDArray[np.int32]] = []
    for n in range(counts.shape[0]):
        part = slice(counts.indptr[n], counts.indptr[n + 1])
        tokens = rng.permutation(np.repeat(counts.indices[part], counts.data[part].astype(np.int64)))
        found.extend(tokens[i : i + length] for i in range(0, min(tokens.size, 4 * length) - length + 1, length))
    found = found[:n_documents]
    rows, words = np.repeat(np.arange(len(found)), length), np.concatenate(found)
    cut = sp.csr_matrix((np.ones(rows.size, counts.dtype), (rows, words)), shape=(len(found), counts.shape[1]))
    cut.sum_duplicates()
    return cut


def split(counts: Any, seed: int) -> tuple[Any, Any, Any]:
    """Documents to learn from, and the given and hidden tokens of the others."""
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


def race(
    settings: Settings,
    numbers: Sequence[int],
    targets: Sequence[int] = TARGETS,
    inference: str = "gibbs",
    threads: int = 1,
) -> Iterator[Line]:
    """A line for each number of parts, corpus and target: processor seconds on one thread, seconds on several."""
    for n_components in numbers:
        for name in CORPORA:
            goal, missing = Goal(GOALS[n_components], "at least"), settings.skip or real(CORPORA[name]).missing
            texts = {f"seconds to the perplexity of {n} iterations, K = {n_components}": n for n in targets}
            texts = {what: n for what, n in texts.items() if settings.wants(what, name)}
            if not texts:
                continue
            if missing:
                yield from (skipped(what, name, missing, goal, str(threads)) for what in texts)
                continue
            counts, ours, peer = corpus(name), [], []
            for seed in range(settings.repeats):
                parts = split(counts, seed)
                longest = np.inf if settings.only else _LONG
                peer.append(_tomotopy(parts, n_components, seed, list(texts.values()), threads, longest))
                ours.append(_ours(parts, n_components, seed, inference, threads, peer[-1]))
            for i, (what, target) in enumerate(texts.items()):
                if any(len(reached) <= i for reached in peer):
                    reason = f"{min(targets)} iterations took tomotopy {peer[0][0][0]:.0f} s, more than {_LONG:g} s"
                    yield skipped(what, name, reason, goal, str(threads))
                    continue
                yield Line(
                    what,
                    name,
                    Sample.of([reached[i] for reached in ours], "s"),
                    Sample.of([reached[i][0] for reached in peer], "s"),
                    f"tomotopy LDA, defaults, {target} iterations",
                    goal=goal,
                    threads=str(threads),
                    note=f"perplexity {np.median([reached[i][1] for reached in peer]):.0f}",
                )


class _ReachedError(Exception):
    pass


def clock_of(threads: int) -> Callable[[], float]:
    """Processor time, of which others take none; with several threads, time."""
    return time.process_time if threads == 1 else time.perf_counter


def fit_ours(counts: Any, n_components: int, sweeps: int, seed: int = 0, **more: Any) -> Any:
    """One chain with default settings."""
    from partwise import AllocationNMF

    settings: dict[str, Any] = {"burn_in": sweeps, "n_draws": 1, "n_chains": 1, "progress": False, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one draw cannot tell whether a chain has converged
        return AllocationNMF(n_components, random_state=seed, **settings).fit(counts)


def _ours(
    parts: tuple[Any, Any, Any],
    n_components: int,
    seed: int,
    inference: str,
    threads: int,
    targets: Sequence[tuple[float, float]],
) -> list[float | None]:
    """Seconds to each target, between two looks along a straight line.

    None where it is not reached in the time that the peer took for the last one.
    """
    train, given, hidden = parts
    clock, looks, looking = clock_of(threads), [(0.0, np.inf)], 0.0
    reached: list[float | None] = []
    seen: list[Any] = []

    def look(iteration: int, state: Any, trace: Any) -> None:
        nonlocal looking
        draws = state.draws
        if draws.n_kept not in _LOOKS or seen == [id(draws), draws.n_kept]:
            return
        paused = clock()
        seen[:] = id(draws), draws.n_kept
        means = draws.dictionary[0] / draws.n_kept, draws.activation_concentration[0] / draws.n_kept
        now = perplexity_of(*means, given, hidden)
        (before, worse), seconds = looks[-1], paused - began - looking
        looks.append((seconds, now))
        while len(reached) < len(targets) and now <= targets[len(reached)][1]:
            target = targets[len(reached)][1]
            between = np.interp(target, (now, worse), (seconds, before)) if np.isfinite(worse) else seconds
            reached.append(float(between))
        if len(reached) == len(targets) or seconds > targets[-1][0] or iteration >= _MOST_SWEEPS:
            raise _ReachedError
        looking += clock() - paused

    more: dict[str, Any] = {"inference": inference, "n_jobs": threads}
    fit_ours(
        small_counts(), n_components, 4, **more, n_draws=4
    )  # compiles, and imports what tells whether chains agree
    began = clock()
    with contextlib.suppress(_ReachedError):
        fit_ours(train, n_components, 0, seed, callbacks=[look], **more, **_ROUNDS)
    return [*reached, *([None] * (len(targets) - len(reached)))]


def _model(train: Any, n_components: int, seed: int) -> Any:
    import tomotopy

    model: Any = tomotopy.LDAModel(k=n_components, seed=seed + 1, rm_top=0, min_cf=0)
    for n in range(train.shape[0]):
        part = slice(train.indptr[n], train.indptr[n + 1])
        model.add_doc([str(f) for f in np.repeat(train.indices[part], train.data[part].astype(np.int64))])
    return model


def _tomotopy(
    parts: tuple[Any, Any, Any], n_components: int, seed: int, targets: Sequence[int], workers: int, longest: float
) -> list[tuple[float, float]]:
    """Seconds and perplexity at each target; of the first one alone where it takes long."""
    (train, given, hidden), clock = parts, clock_of(workers)
    began = clock()
    model = _model(train, n_components, seed)
    seconds, done = clock() - began, 0
    reached: list[tuple[float, float]] = []
    for target in targets:
        if reached and seconds > longest:
            break
        began = clock()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            model.train(target - done, workers=workers)
        seconds, done = seconds + clock() - began, target
        found = np.full((train.shape[1], n_components), float(model.eta))
        words = np.array([int(word) for word in model.used_vocabs])
        found[words] = np.array([model.get_topic_word_dist(k, normalize=False) for k in range(n_components)]).T
        concentration = np.array(model.alpha, np.float64)
        reached.append((seconds, perplexity_of(found / found.sum(axis=0), concentration, given, hidden)))
    return reached


def main(which: str, name: str, n_components: int) -> None:
    """Print the rise in peak memory over what is held before, in bytes."""
    train = split(corpus(name), 0)[0]
    if which == "ours":
        fit_ours(small_counts(), n_components, 3)
    settle()
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is held now
    if which == "ours":
        fitted = fit_ours(train, n_components, 3)
        factors = fitted.components_, fitted.activations_
    else:
        model = _model(train, n_components, 0)
        model.train(3, workers=1)
        dictionary = np.array([model.get_topic_word_dist(k) for k in range(n_components)])
        factors = dictionary, np.array([document.get_topic_dist() for document in model.docs])
    json.dump({"rise": status("VmHWM") - before, "shapes": [factor.shape for factor in factors]}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
