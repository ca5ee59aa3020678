"""EmpiricalBayesPoissonNMF: one sweep, in iterations of PoissonNMF, and on two threads.

Iterations are those of EM (``inference="multiplicative"``): a pass over the rows and one over the columns. Sweeps and
iterations are timed in blocks, one after the other.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.harness.data import Dataset, real
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.measuring import random_start, seconds_per_iteration

_COMPONENTS = 20
_GOALS = {"gamma": 3.0, "exponential-mixture": 10.0}
_THREADS = Goal(1.6, "at least")
# The first sweep makes the start and the first priors.
_FIRST, _LAST = 5, 15


def measure(settings: Settings) -> Iterator[Line]:
    """Sweeps with both families beside EM, then two threads beside one, then the two schedules."""
    dataset = real("nips_uci7605")
    for kind, bound in _GOALS.items():
        yield _beside_em(settings, dataset, kind, Goal(bound, "below"))
    for kind in _GOALS:
        yield _threads(settings, dataset, kind)
    for kind in _GOALS:
        yield _schedules(settings, dataset, kind)


def _fit(counts: Any, kind: str, start: Any, **parameters: Any) -> Any:
    from partwise import EmpiricalBayesPoissonNMF

    chosen: dict[str, Any] = {
        "init": start,
        "max_iter": _LAST,
        "tol": 0.0,
        "progress": False,
        "prune": False,
        **parameters,
    }
    return EmpiricalBayesPoissonNMF(_COMPONENTS, activation_prior=kind, dictionary_prior=kind, **chosen).fit(counts)


def _seconds(counts: Any, kind: str, start: Any, n_jobs: int = 1) -> float:
    elapsed = _fit(counts, kind, start, n_jobs=n_jobs).trace_["elapsed"]
    return statistics.median(float(elapsed[i] - elapsed[i - 1]) for i in range(_FIRST, _LAST))


def _start(counts: Any, seed: int) -> tuple[Any, Any]:
    """After some iterations of EM: where sweeps usually start."""
    from partwise import PoissonNMF

    model = PoissonNMF(_COMPONENTS, init=random_start(counts, _COMPONENTS, seed), max_iter=20, tol=0.0, progress=False)
    return model.fit_transform(counts), model.components_


def _beside_em(settings: Settings, dataset: Dataset, kind: str, goal: Goal) -> Line:
    what = f"one sweep, {kind}, K = {_COMPONENTS}"
    if dataset.missing:
        return skipped(what, dataset.name, dataset.missing, goal)
    counts = dataset.load()
    ours, peer = [], []
    start = _start(counts, 0)
    _seconds(counts, kind, start)
    for _ in range(settings.repeats):
        ours.append(1e3 * _seconds(counts, kind, start))
        seconds = seconds_per_iteration(
            counts, _COMPONENTS, first=10, last=60, inference="multiplicative", init=start, n_jobs=1
        )
        peer.append(1e3 * seconds)
    return Line(
        what,
        dataset.name,
        Sample.of(ours, "ms"),
        Sample.of(peer, "ms"),
        "PoissonNMF, one iteration of EM",
        peer_over_ours=False,
        goal=goal,
    )


def _threads(settings: Settings, dataset: Dataset, kind: str) -> Line:
    what = f"one sweep, {kind}, K = {_COMPONENTS}"
    missing = dataset.missing or ("" if len(os.sched_getaffinity(0)) > 1 else "this machine has one core")
    if missing:
        return skipped(what, dataset.name, missing, _THREADS)
    counts = dataset.load()
    start = _start(counts, 0)
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(settings.repeats):
        for n_threads, measured in times.items():
            measured.append(1e3 * _seconds(counts, kind, start, n_threads))
    peer = Sample.of(times[1], "ms")
    return Line(what, dataset.name, Sample.of(times[2], "ms"), peer, "partwise, one thread", goal=_THREADS, threads="2")


def _schedules(settings: Settings, dataset: Dataset, kind: str) -> Line:
    """Seconds to the bound that 40 sweeps reach, allocations refreshed once a sweep or after each component."""
    what = f"seconds to the bound of 40 sweeps, {kind}, K = {_COMPONENTS}"
    if dataset.missing:
        return skipped(what, dataset.name, dataset.missing)
    counts = dataset.load()
    start = _start(counts, 0)
    whole = _fit(counts, kind, start, max_iter=40).trace_
    other = _fit(counts, kind, start, max_iter=60, inference="component").trace_
    reached = [
        float(seconds)
        for seconds, bound in zip(other["elapsed"], other["objective"], strict=True)
        if bound >= whole["objective"][-1]
    ]
    return Line(
        what,
        dataset.name,
        Sample.of([float(whole["elapsed"][-1])], "s"),
        Sample.of([reached[0] if reached else None], "s"),
        'inference="component", 60 sweeps at most',
        note="q(Z) once a sweep is the default",
    )
