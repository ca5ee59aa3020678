"""ebpm: seconds for 100,000 Poisson means.

Exposures vary, one thread; mixtures to a bound of 5e-9 nats per observation over all means and weights.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.harness.line import Goal, Line, Sample, Settings

_SIZE = 100_000
_GOALS = {
    "gamma": 1.0,
    "point-gamma": 1.0,
    "two-gamma": 1.0,
    "exponential-mixture": 1.0,
    "gamma-mixture": 1.0,
    "nonparametric": 2.0,
}


def measure(settings: Settings) -> Iterator[Line]:
    """Every family by name."""
    from partwise import ebpm

    rng = np.random.default_rng(0)
    exposure = rng.gamma(5.0, 0.2, size=_SIZE)
    counts = rng.poisson(exposure * rng.gamma(0.4, 12.0, size=_SIZE)).astype(np.float64)
    for kind, seconds in _GOALS.items():
        ebpm(counts[:1000], exposure[:1000], kind)
        times, gap = [], np.nan
        for _ in range(settings.repeats):
            began = time.perf_counter()
            gap = ebpm(counts, exposure, kind).gap / _SIZE
            times.append(time.perf_counter() - began)
        note = "" if np.isnan(gap) else f"gap of {gap:.1e} nats per observation"
        goal = Goal(seconds, "below")
        yield Line(f"ebpm, {kind}", f"{_SIZE} counts, gamma rates", Sample.of(times, "s"), goal=goal, note=note)
