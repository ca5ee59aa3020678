"""PoissonNMF: one iteration of multiplicative updates.

The same update of both factors in float64, from the same start. Differences of two lengths of run leave out what is
done once. Ours evaluates the likelihood every tenth iteration, scikit-learn's with ``tol=0`` never does.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.data import Dataset, cases
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.measuring import compile_kernels, random_start, seconds_per_iteration
from benchmarks.harness.peers import NMF_NAME, sklearn_nmf

_SHORT, _LONG = 10, 30
_GOALS = {10: Goal(5, "at least"), 100: Goal(10, "at least")}


def measure(settings: Settings) -> Iterator[Line]:
    """``inference="multiplicative"`` against scikit-learn's ``solver="mu"``."""
    compiling = compile_kernels()
    for dataset, n_components in cases(synthetic=tuple(_GOALS), nips=tuple(_GOALS)):
        yield _line(settings, dataset, n_components, compiling)


def _line(settings: Settings, dataset: Dataset, n_components: int, compiling: float) -> Line:
    what = f"one iteration, K = {n_components}"
    goal = _GOALS[n_components]
    if dataset.missing:
        return skipped(what, dataset.name, dataset.missing, goal)
    counts = dataset.load()
    ours, peer = [], []
    for seed in range(settings.repeats):
        start = random_start(counts, n_components, seed)
        long, short = (sklearn_nmf(counts, start, length)[0] for length in (_LONG, _SHORT))
        peer.append(1e3 * (long - short) / (_LONG - _SHORT))
        seconds = seconds_per_iteration(
            counts, n_components, first=_SHORT, last=_LONG, inference="multiplicative", init=start
        )
        ours.append(1e3 * seconds)
    return Line(
        what,
        dataset.name,
        Sample.of(ours, "ms"),
        Sample.of(peer, "ms"),
        NMF_NAME,
        goal=goal,
        note=f"compiling took {compiling:.1f} s",
    )
