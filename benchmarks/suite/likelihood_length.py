"""smc: processor time against the length of a document.

Simulated documents of 100 to 10,000 tokens, K = 50, 20,000 features, 512 particles. Linear is a slope of 1 of log time
over log length, by least squares; at each length the least of the repeats counts. How often particles are moved grows
with the length, up to 40 times: with no moves, and with a move at each of the 40 looks, the slope is that of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.documents import cpu_seconds
from benchmarks.harness.line import Goal, Line, Sample, Settings

_LENGTHS = (100, 316, 1000, 3162, 10000)
_N_FEATURES, _N_COMPONENTS = 20000, 50
_AT_ONCE, _FEWEST = 10000, 3  # tokens in all at each length, and documents
_CASES: dict[str, tuple[int, dict[str, Any], Goal | None]] = {
    "slope over lengths 100 to 10,000": (0, {}, Goal(1.1, "below")),
    "slope over lengths 100 to 10,000, never moved": (0, {"resample_below": 0.0}, None),
    "slope over lengths 1,000 to 10,000, always moved": (2, {"resample_below": 1.0}, None),
}


def measure(settings: Settings) -> Iterator[Line]:
    """``smc`` with its defaults, and with fixed numbers of moves."""
    from partwise.likelihood import smc

    rng = np.random.default_rng(0)
    dictionary = rng.dirichlet(np.full(_N_FEATURES, 0.02), size=_N_COMPONENTS).T
    shares = rng.dirichlet(np.full(_N_COMPONENTS, 0.1), size=_AT_ONCE // min(_LENGTHS))
    rows = {
        length: np.stack(
            [rng.multinomial(length, dictionary @ share) for share in shares[: max(_FEWEST, _AT_ONCE // length)]]
        )
        for length in _LENGTHS
    }
    for what, (first, options, goal) in _CASES.items():
        seconds = []
        for length in _LENGTHS[first:]:
            model = dictionary, np.full(_N_COMPONENTS, 0.1), np.full(_N_COMPONENTS, 5.0 / length)
            smc(rows[length][:1], *model, rng=0, **options)
            checking = cpu_seconds(smc, 0 * rows[length], *model, rng=0, **options)[0]
            runs = [cpu_seconds(smc, rows[length], *model, rng=seed, **options)[0] for seed in range(settings.repeats)]
            seconds.append((min(runs) - checking) / len(rows[length]))
        slope = float(np.polyfit(np.log(_LENGTHS[first:]), np.log(seconds), 1)[0])
        note = f"ms a document: {', '.join(f'{1e3 * time:.3g}' for time in seconds)}"
        yield Line(what, "simulated, seed 0", Sample.of([slope], ""), goal=goal, note=note)
