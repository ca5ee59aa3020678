"""AllocationNMF on two threads: time to tomotopy's held-out perplexity on two, and the speed-up of a sweep.

The race is that of allocation_race and allocation_many, with default settings. The speed-up is that of a sweep. It is
divided by the speed-up of a kernel whose two halves share nothing, measured in turns with it: what is lost is lost to
the sampler, not to the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit

from benchmarks.harness.data import real
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.race import TARGETS, corpus, fit_ours, race, split

_SHARE = Goal(0.9, "at least")
_NAME = "newsgroups20"
_FIRST, _LAST = 2, 8


def measure(settings: Settings) -> Iterator[Line]:
    """Both with two cores only."""
    what = "speed-up of a sweep on two threads, as a share of a parallel kernel's, K = 100"
    alone = "" if len(os.sched_getaffinity(0)) > 1 else "this process may use one core only"
    missing = settings.skip or real(_NAME).missing or alone
    if missing:
        yield skipped(what, _NAME, missing, _SHARE)
    elif settings.wants(what, _NAME):
        train = split(corpus(_NAME), 0)[0]
        found = [(_speed_up(lambda n: _sweep(train, n)), _speed_up(_kernel)) for _ in range(settings.repeats)]
        shares = [ours / kernel for ours, kernel in found]
        note = f"{np.median([ours for ours, _ in found]):.2f} and {np.median([kernel for _, kernel in found]):.2f}"
        yield Line(what, _NAME, Sample.of(shares, ""), goal=_SHARE, threads="2", note=note)
    yield from race(replace(settings, skip=settings.skip or alone), (20, 100, 1000), TARGETS, threads=2)


def _speed_up(seconds: Callable[[int], float]) -> float:
    return seconds(1) / seconds(2)


def _sweep(train: Any, threads: int) -> float:
    times: list[float] = []
    look = [lambda *_: times.append(time.perf_counter())]
    fit_ours(train, 100, _LAST, n_jobs=threads, callbacks=look)
    return (times[_LAST - 1] - times[_FIRST - 1]) / (_LAST - _FIRST)


@njit(nogil=True)
def _work(weights: Any, n_rounds: int) -> float:
    total = 0.0
    for _ in range(n_rounds):
        for i in range(weights.size):
            total += weights[i] / (1.0 + total)
    return total


def _kernel(threads: int) -> float:
    """Seconds of two pieces of work."""
    pieces = [np.random.default_rng(i).random(4096) for i in range(2)]
    _work(pieces[0], 1)
    with ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        list(pool.map(lambda piece: _work(piece, 20_000), pieces))
        return time.perf_counter() - began
