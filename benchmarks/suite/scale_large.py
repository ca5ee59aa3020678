"""A large fit from disk: minutes to a stated held-out likelihood, and the memory that it takes.

Made cells x peaks like single-cell ATAC, from a known model (`benchmarks.harness.accessible`). The target is that
model's own held-out log-likelihood, by completion of 300 further cells, less 0.03 nats per token. The clock stands
still while a fit is looked at. PARTWISE_SCRATCH keeps the data for the next time; PARTWISE_SCALE_CELLS is the number of
cells.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness.accessible import N_PARTS, made_cells, true_parts
from benchmarks.harness.line import Goal, Line, Sample, Settings

_CELLS, _PEAKS, _PER_CELL, _HELD_OUT = 100_000, 200_000, 3000, 300
_SHORT_BY, _START_CELLS = 0.03, 4000
_MOST_MINUTES, _MOST_MEMORY = 9.0, Goal(6000, "below")


def measure(settings: Settings) -> Iterator[Line]:
    """One fit: minutes, and the most memory; the remarks have the curves."""
    from partwise import PoissonNMF, on_disk

    n_cells = int(os.environ.get("PARTWISE_SCALE_CELLS", _CELLS))
    parts = true_parts(_PEAKS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("PARTWISE_SCRATCH", temporary)) / f"cells-{n_cells}.rows"
        if not folder.exists():
            on_disk(made_cells(parts, n_cells, _PER_CELL), folder)
        data = on_disk(folder)
        held_out = sp.csr_array(sp.vstack(list(made_cells(parts, _HELD_OUT, _PER_CELL, stream=3))))
        n_bytes = sum(file.stat().st_size for file in folder.iterdir())
        name = f"simulated cells, {n_cells} x {_PEAKS}, {data.nnz:.3g} nonzeros, {n_bytes / 1e9:.2f} GB on disk"
        truth = PoissonNMF.from_components(parts, n_jobs=2).completion(held_out).per_token
        del parts
        look = _Look(held_out, truth - _SHORT_BY)
        with _Memory() as memory:
            _staged(data, look)
    what = f"PoissonNMF, K = {N_PARTS}, started from {_START_CELLS} cells"
    note = f"target {look.target:.3f}, the true model's {truth:.3f}; {look.note}; minutes and likelihood: {look.curve}"
    yield Line(f"minutes of {what}", name, Sample.of([look.reached], "min"), threads="2", note=note)
    most, note = Sample.of([memory.most / 1e6], "MB"), f"GB of anonymous memory by minute: {memory.curve}"
    yield Line(f"most memory of {what}, mapped data included", name, most, goal=_MOST_MEMORY, threads="2", note=note)


def _staged(data: Any, look: _Look) -> None:
    """A fit of some cells in memory, then passes of EM over all of them."""
    from partwise import PoissonNMF

    model = PoissonNMF(N_PARTS, max_iter=20, random_state=0, n_jobs=2, tol=0.0, progress=False)
    model.fit(data.rows(0, min(_START_CELLS, data.shape[0])))
    # What few cells do not show must be free to rise: a fifth of each part is what all cells have in common.
    model.components_ = 0.8 * model.components_ + 0.2 * data.column_sums / data.total
    look(0, model, None)
    model.set_params(inference="multiplicative", warm_start=True, max_iter=200, callbacks=[look]).fit(data)


class _Look:
    """A callback: held-out likelihood of the parts every minute or so, on a clock that leaves that out."""

    def __init__(self, held_out: Any, target: float) -> None:
        self.held_out, self.target = held_out, target
        self.reached: float | None = None
        self._looks: list[tuple[float, float]] = []
        self._looking, self._began, self._processor = 0.0, time.perf_counter(), time.process_time()
        self.note = ""

    def __call__(self, iteration: int, state: Any, trace: Any) -> bool:
        from partwise import PoissonNMF

        now = time.perf_counter()
        minutes = (now - self._began - self._looking) / 60
        if self._looks and minutes - self._looks[-1][0] < 0.4:
            return False
        parts = _parts(state)
        found = PoissonNMF.from_components(parts / parts.sum(axis=1, keepdims=True), n_jobs=2).completion(self.held_out)
        self._looks.append((minutes, found.per_token))
        self.note = f"{iteration} iterations, {(time.process_time() - self._processor) / 60:.1f} processor minutes"
        print(f"    {minutes:.2f} min, {found.per_token:.4f} of {self.target:.4f}, {self.note}", flush=True)
        self._looking += time.perf_counter() - now
        if found.per_token >= self.target:
            self.reached = minutes
        return self.reached is not None or minutes > _MOST_MINUTES

    @property
    def curve(self) -> str:
        return ", ".join(f"{minutes:.1f} {likelihood:.3f}" for minutes, likelihood in self._looks)


def _parts(state: Any) -> Any:
    """Parts x features of a fitted model, or of the state of a fit."""
    for name, turn in _PARTS_OF.items():
        if hasattr(state, name):
            return turn(np.asarray(getattr(state, name)))
    raise LookupError("nothing here has parts")


_PARTS_OF: dict[str, Callable[[Any], Any]] = {
    "components_": lambda parts: parts,
    "dictionary": lambda dictionary: dictionary.T,
}


class _Memory:
    """The most resident memory of this process, and its anonymous memory by minute, within the context."""

    def __enter__(self) -> _Memory:
        self.most, self._anonymous = 0, [0]
        self._began, self._done = time.perf_counter(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            resident, anonymous = (1024 * int(status[key].split()[0]) for key in ("VmRSS", "RssAnon"))
            self.most = max(self.most, resident)
            minute = int((time.perf_counter() - self._began) / 60)
            self._anonymous += [0] * (minute + 1 - len(self._anonymous))
            self._anonymous[minute] = max(self._anonymous[minute], anonymous)

    @property
    def curve(self) -> str:
        return ", ".join(f"{most / 1e9:.1f}" for most in self._anonymous)
