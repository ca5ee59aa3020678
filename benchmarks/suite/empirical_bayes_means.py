"""ebpm: processor seconds for 100,000 Poisson means, for every family and seven kinds of counts.

One thread; mixtures to a bound of 5e-9 nats per observation over all means and weights. Where points would be
thousands, "nonparametric" ends earlier, and the note has the bound that it states.
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

    for kind, seconds in _GOALS.items():
        for name, (counts, exposure) in _data().items():
            ebpm(counts[:1000], exposure[:1000], kind)
            times, gap = [], np.nan
            for _ in range(settings.repeats):
                began = time.process_time()
                gap = ebpm(counts, exposure, kind).gap / _SIZE
                times.append(time.process_time() - began)
            note = "" if np.isnan(gap) else f"gap of {gap:.1e} nats per observation"
            goal = Goal(seconds, "below")
            yield Line(f"ebpm, {kind}", f"{_SIZE} counts, {name}", Sample.of(times, "s"), goal=goal, note=note)


def _data() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Counts with exposures, by what the exposures are."""
    rng = np.random.default_rng(0)
    exposures = {
        "one exposure": np.ones(1),
        "gamma exposures": rng.gamma(5.0, 0.2, size=_SIZE),
        "uniform exposures": rng.uniform(0.5, 1.5, size=_SIZE),
        "log-normal exposures, sigma 1.5": np.exp(rng.normal(0.0, 1.5, size=_SIZE)),
    }
    rates = rng.gamma(0.4, 12.0, size=_SIZE)
    found = {name: (rng.poisson(s * rates).astype(np.float64), s) for name, s in exposures.items()}
    hard = {
        "exposures 1e-6 and 1e6": (rates, rng.choice([1e-6, 1e6], size=_SIZE)),
        "exposures over 12 decades": (rates, 10.0 ** rng.uniform(-6.0, 6.0, size=_SIZE)),
        "Pareto(0.7) rates, log-normal exposures": (rng.pareto(0.7, _SIZE), np.exp(rng.normal(0.0, 1.5, _SIZE))),
    }
    return found | {name: (rng.poisson(s * some).astype(np.float64), s) for name, (some, s) in hard.items()}
