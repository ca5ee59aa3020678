"""Made counts of any size, written to disk block by block, and what a fit to them takes."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

Clock = Callable[[], float]

N_FEATURES = 10_000
_ROWS_AT_ONCE = 4096


def made_rows(n_rows: int, per_row: int, seed: int = 0) -> Iterator[Any]:
    """Blocks of rows with equally many nonzeros, one in each stretch of features: sorted without sorting."""
    rng = np.random.default_rng(seed)
    width = N_FEATURES // per_row
    stretches = (np.arange(per_row) * width).astype(np.int32)
    for first in range(0, n_rows, _ROWS_AT_ONCE):
        size = min(_ROWS_AT_ONCE, n_rows - first)
        columns = rng.integers(0, width, size=(size, per_row), dtype=np.int32) + stretches
        counts = rng.integers(1, 5, size=size * per_row, dtype=np.int32)
        pointers = np.arange(size + 1) * per_row
        yield sp.csr_array((counts, columns.ravel(), pointers), shape=(size, N_FEATURES))


@contextmanager
def on_disk_rows(n_rows: int, per_row: int) -> Iterator[Any]:
    """Such rows in a folder; it is removed afterwards, or kept for the next time in the folder PARTWISE_SCRATCH."""
    from partwise import on_disk

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("PARTWISE_SCRATCH", temporary)) / f"rows-{n_rows}-{per_row}"
        if not folder.exists():
            on_disk(made_rows(n_rows, per_row), folder)
        yield on_disk(folder)


def seconds_an_iteration(
    model: Any, data: Any, *, callbacks: Sequence[Callable[..., object]] = (), clock: Clock = time.perf_counter
) -> float:
    """Mean seconds of the iterations after the first of a fit, what callbacks do included."""
    times: list[float] = []
    model.set_params(callbacks=(*callbacks, lambda *_: times.append(clock())))
    model.fit(data)
    return (times[-1] - times[0]) / (len(times) - 1)


def forget_pages(data: Any) -> None:
    """Let the system drop the pages of mapped data from memory, so that the next pass reads them from the disk."""
    for path in data.folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


class AnonymousMemory:
    """The most anonymous memory that this process held within the context, beyond what it held before, in bytes."""

    rise = 0

    def __enter__(self) -> AnonymousMemory:
        self._before = _anonymous()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.rise = max(self.rise, _anonymous() - self._before)


def _anonymous() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise LookupError("/proc/self/status does not say RssAnon")
