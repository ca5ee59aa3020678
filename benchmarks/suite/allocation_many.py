"""AllocationNMF with 1,000 parts: time to tomotopy's held-out perplexity, growth of a sweep with K, and memory.

The race is that of allocation_race. A sweep's cost is processor time of sweeps 26 to 30, learning of concentrations and
draws of the dictionary included (of gibbs-partial sweeps 2 to 4); the slope is that of its logarithm in log K. Memory
is the rise of the peak during a fit whose factors are read as arrays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.data import real
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.processes import run_module
from benchmarks.harness.race import corpus, fit_ours, race, split

_NAME = "newsgroups20"
_SLOPE, _MEMORY = Goal(0.3, "below"), Goal(1.5, "below")


def measure(settings: Settings) -> Iterator[Line]:
    """Slopes and memory first: they take little time."""
    missing = settings.skip or real(_NAME).missing
    for inference, first, last in (("gibbs", 25, 30), ("gibbs-partial", 1, 4)):
        what = f"slope of a sweep's cost, K = 100 to 1,000, {inference}"
        if not settings.wants(what, _NAME):
            continue
        if missing:
            yield skipped(what, _NAME, missing, _SLOPE)
            continue
        slopes = [_slope(split(corpus(_NAME), seed)[0], inference, first, last) for seed in range(settings.repeats)]
        note = " and ".join(f"{np.median([seconds[i] for _, seconds in slopes]):.2f} s" for i in range(2))
        yield Line(what, _NAME, Sample.of([slope for slope, _ in slopes], ""), goal=_SLOPE, note=f"{note} a sweep")
    for n_components in (100, 1000):
        what = f"peak memory of a fit, K = {n_components}"
        if not settings.wants(what, _NAME):
            continue
        if missing:
            yield skipped(what, _NAME, missing, _MEMORY)
            continue
        ours, peer = ([_memory(which, n_components) for _ in range(settings.repeats)] for which in ("ours", "peer"))
        peer_name = "tomotopy LDA, factors read"
        yield Line(
            what,
            _NAME,
            ours=Sample.of(ours, "MB"),
            peer=Sample.of(peer, "MB"),
            peer_name=peer_name,
            peer_over_ours=False,
            goal=_MEMORY,
            threads="",
        )
    yield from race(settings, (1000,))


def _slope(counts: Any, inference: str, first: int, last: int) -> tuple[float, list[float]]:
    seconds = []
    for n_components in (100, 1000):
        times: list[float] = []
        fit_ours(
            counts,
            n_components,
            last,
            inference=inference,
            callbacks=[lambda *_, times=times: times.append(time.process_time())],
        )
        seconds.append((times[last - 1] - times[first - 1]) / (last - first))
    return float(np.log10(seconds[1] / seconds[0])), seconds


def _memory(which: str, n_components: int) -> float:
    return float(run_module("benchmarks.harness.race", which, _NAME, str(n_components))["rise"]) / 1e6
