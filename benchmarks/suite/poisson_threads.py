"""PoissonNMF: two threads beside one.

Seconds of the same iterations, which give the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from benchmarks.harness.data import Dataset, real
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.measuring import compile_kernels, random_start, seconds_per_iteration

_GOAL = Goal(1.7, "at least")
# Both algorithms begin with EM; these iterations of coordinate descent are its own.
_FIRST, _LAST = 12, 32


def measure(settings: Settings) -> Iterator[Line]:
    """``n_jobs=2`` against ``n_jobs=1``, for both algorithms."""
    compiling = compile_kernels(n_jobs=2)
    for inference in ("coordinate", "multiplicative"):
        for n_components in (10, 50, 100):
            yield _line(settings, real("nips_uci7605"), inference, n_components, compiling)


def _line(settings: Settings, dataset: Dataset, inference: str, n_components: int, compiling: float) -> Line:
    what = f"one iteration, {inference}, K = {n_components}"
    missing = dataset.missing or ("" if len(os.sched_getaffinity(0)) > 1 else "this machine has one core")
    if missing:
        return skipped(what, dataset.name, missing, _GOAL)
    counts = dataset.load()
    times: dict[int, list[float]] = {1: [], 2: []}
    for seed in range(settings.repeats):
        start = random_start(counts, n_components, seed)
        for n_threads, measured in times.items():
            seconds = seconds_per_iteration(
                counts, n_components, first=_FIRST, last=_LAST, inference=inference, init=start, n_jobs=n_threads
            )
            measured.append(1e3 * seconds)
    return Line(
        what,
        dataset.name,
        Sample.of(times[2], "ms"),
        Sample.of(times[1], "ms"),
        "partwise, one thread",
        goal=_GOAL,
        threads="2",
        note=f"compiling took {compiling:.1f} s",
    )
