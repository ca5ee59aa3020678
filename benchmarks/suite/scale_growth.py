"""Growth of time and memory with the nonzeros, rows growing and features fixed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.line import Goal, Line, Sample, Settings
from benchmarks.harness.rows import AnonymousMemory, on_disk_rows, seconds_an_iteration

_PER_ROW, _N_COMPONENTS = 200, 10
_NONZEROS = (1e6, 1e7, 1e8)
# More components at one size, for the cost model of docs/explanation/scaling.md.
_WIDER_AT, _WIDER = 1e7, 40
_BELOW, _ABOVE = Goal(1.05, "below"), Goal(0.95, "at least")


def measure(settings: Settings) -> Iterator[Line]:
    """Seconds of processor time an iteration at each size, and the slope between logarithms; the best repeats count."""
    largest = float(os.environ.get("PARTWISE_SCALE_NONZEROS", _NONZEROS[-1]))
    sizes = [size for size in _NONZEROS if size <= largest]
    seconds, rises = [], []
    with on_disk_rows(1000, _PER_ROW) as data:
        _seconds(data, _N_COMPONENTS, 2, 1)
    for size in sizes:
        n_rows = int(size / _PER_ROW)
        name = f"simulated rows, {n_rows} x 10000"
        with on_disk_rows(n_rows, _PER_ROW) as data:
            with AnonymousMemory() as memory:
                times = _seconds(data, _N_COMPONENTS, 12 if size < 1e7 else 4, settings.repeats)
            seconds.append(min(times))
            rises.append(memory.rise)
            yield Line(f"iteration, {size:.0e} nonzeros, K = {_N_COMPONENTS}", name, Sample.of(times, "s"))
            yield Line(f"rise in memory, {size:.0e} nonzeros", name, Sample.of([memory.rise / 1e6], "MB"))
            if size == _WIDER_AT:
                times = _seconds(data, _WIDER, 4, settings.repeats)
                yield Line(f"iteration, {size:.0e} nonzeros, K = {_WIDER}", name, Sample.of(times, "s"))
    slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    for goal in (_ABOVE, _BELOW):
        yield Line("slope of log seconds over log nonzeros", "the sizes above", Sample.of([slope], ""), goal=goal)
    rows = np.array(sizes) / _PER_ROW
    each = (rises[-1] - rises[0]) / (rows[-1] - rows[0])
    yield Line("memory for each further row", "the sizes above", Sample.of([each], "bytes"))


def _seconds(data: Any, n_components: int, n_iter: int, repeats: int) -> list[float]:
    """Seconds of processor time an iteration of some fits on one thread."""
    from partwise import PoissonNMF

    parameters: dict[str, Any] = {"random_state": 0, "tol": 0.0, "progress": False, "max_iter": n_iter}
    model = PoissonNMF(n_components, inference="multiplicative", **parameters)
    return [seconds_an_iteration(model, data, clock=time.process_time) for _ in range(repeats)]
