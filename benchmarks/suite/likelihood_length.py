"""smc: processor time against the length of a document.

Simulated documents of 100 to 10,000 tokens, K = 50, 20,000 features, 512 particles. Linear is a slope of 1 of log time
over log length, by least squares; at each length the least of the repeats counts. By default the number of moves grows
with the length, as that lowers variance x time: from hardly one at 100 tokens to at most fifteen. With four looks at
the weights there are at most three moves, and estimates vary more; with no moves, the slope is that of the rest.
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
_CASES: dict[str, tuple[dict[str, Any], Goal | None]] = {
    "slope over lengths 100 to 10,000": ({}, Goal(1.1, "below")),
    "slope over lengths 100 to 10,000, never moved": ({"resample_below": 0.0}, None),
    "slope over lengths 100 to 10,000, four looks": ({"n_stages": 4}, Goal(1.1, "below")),
}


def measure(settings: Settings) -> Iterator[Line]:
    """``smc`` with its defaults, and with fewer moves or none."""
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
    for what, (options, goal) in _CASES.items():
        seconds = []
        for length in _LENGTHS:
            model = dictionary, np.full(_N_COMPONENTS, 0.1), np.full(_N_COMPONENTS, 5.0 / length)
            smc(rows[length][:1], *model, rng=0, **options)
            checking = cpu_seconds(smc, 0 * rows[length], *model, rng=0, **options)[0]
            runs = [cpu_seconds(smc, rows[length], *model, rng=seed, **options)[0] for seed in range(settings.repeats)]
            seconds.append((min(runs) - checking) / len(rows[length]))
        slope = float(np.polyfit(np.log(_LENGTHS), np.log(seconds), 1)[0])
        note = f"ms per document: {', '.join(f'{1e3 * time:.3g}' for time in seconds)}"
        yield Line(what, "simulated, seed 0", Sample.of([slope], ""), goal=goal, note=note)
