"""smc: processor time against the length of a document.

Simulated documents of 100 to 10,000 tokens, K = 50, 20,000 features, 512 particles. Linear is a slope of 1 of log time
over log length, by least squares; at each length the least of the repeats counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.harness.documents import cpu_seconds
from benchmarks.harness.line import Goal, Line, Sample, Settings

_LENGTHS = (100, 316, 1000, 3162, 10000)
_N_FEATURES, _N_COMPONENTS = 20000, 50
_AT_ONCE = 10000  # tokens in all at each length, so that short times are not lost in the clock


def measure(settings: Settings) -> Iterator[Line]:
    """One fit of the slope for the whole range and one from 1,000 tokens on."""
    from partwise.likelihood import smc

    rng = np.random.default_rng(0)
    dictionary = rng.dirichlet(np.full(_N_FEATURES, 0.02), size=_N_COMPONENTS).T
    shares = rng.dirichlet(np.full(_N_COMPONENTS, 0.1), size=_AT_ONCE // min(_LENGTHS))
    seconds = []
    for length in _LENGTHS:
        counts = np.stack([rng.multinomial(length, dictionary @ share) for share in shares[: _AT_ONCE // length]])
        model = dictionary, np.full(_N_COMPONENTS, 0.1), np.full(_N_COMPONENTS, 5.0 / length)
        smc(counts[:1], *model, rng=0)
        empty = cpu_seconds(smc, 0 * counts, *model, rng=0)[0]
        runs = [cpu_seconds(smc, counts, *model, rng=seed)[0] for seed in range(settings.repeats)]
        seconds.append((min(runs) - empty) / len(counts))
    each = ", ".join(f"{1e3 * time:.3g}" for time in seconds)
    for first, what in ((0, "slope over lengths 100 to 10,000"), (2, "slope over lengths 1,000 to 10,000")):
        slope = float(np.polyfit(np.log(_LENGTHS[first:]), np.log(seconds[first:]), 1)[0])
        note = f"ms a document: {each}" if first == 0 else "shorter documents are looked at less often"
        yield Line(what, "simulated, seed 0", Sample.of([slope], ""), goal=Goal(1.1, "below"), note=note)
