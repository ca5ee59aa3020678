"""Growth of processor time with the number of parts and with the rows, whole calls.

Ten iterations or sweeps of each algorithm, and likelihoods of ten rows, on counts from a seed (1,500 features, 5%
nonzeros). Linear is a slope of 1 of log time over log size, by least squares; checks and starts, which do not grow,
make it less. At each size the least of the repeats counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from benchmarks.harness.algorithms import N_COMPONENTS, N_ROWS, Work, algorithms
from benchmarks.harness.documents import cpu_seconds
from benchmarks.harness.line import Goal, Line, Sample, Settings

_PARTS, _ROWS = (10, 20, 40, 80), (500, 1000, 2000, 4000)
_LINEAR = Goal(1.1, "below")
# Its cost grows with the tokens of a row to the power of its parts: not for many parts.
_FEW_PARTS = "likelihood, exact"


def measure(settings: Settings) -> Iterator[Line]:
    """Two lines a fit; a likelihood is one of each row, so that it has one line."""
    warnings.simplefilter("ignore")  # ten iterations never converge
    by_parts = {n_parts: algorithms(n_components=n_parts) for n_parts in _PARTS}
    by_rows = {n_rows: algorithms(n_rows=n_rows) for n_rows in _ROWS}
    for name in by_rows[N_ROWS]:
        fixed = name.endswith(" parts")  # one number of parts, whatever else has how many
        if name != _FEW_PARTS and not fixed:
            data = f"{N_ROWS} rows, {min(_PARTS)} to {max(_PARTS)} parts"
            yield _line(name, "parts", data, {size: works[name] for size, works in by_parts.items()}, settings)
        if not name.startswith("likelihood"):
            data = f"{min(_ROWS)} to {max(_ROWS)} rows" + ("" if fixed else f", {N_COMPONENTS} parts")
            yield _line(name, "rows", data, {size: works[name] for size, works in by_rows.items()}, settings)


def _line(name: str, grows: str, data: str, works: dict[int, Work], settings: Settings) -> Line:
    seconds = []
    for work in works.values():
        work()
        seconds.append(min(cpu_seconds(work)[0] for _ in range(settings.repeats)))
    slope = float(np.polyfit(np.log(list(works)), np.log(seconds), 1)[0])
    note = f"ms: {', '.join(f'{1e3 * time:.3g}' for time in seconds)}"
    return Line(f"{name}: slope over {grows}", data, Sample.of([slope], ""), goal=_LINEAR, note=note)
