"""Data on disk: memory of fits to 4 GB, and throughput beside the same data in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import scipy.sparse as sp

from benchmarks.harness.line import Goal, Line, Sample, Settings
from benchmarks.harness.rows import AnonymousMemory, forget_pages, made_rows, on_disk_rows, seconds_an_iteration

_PER_ROW = 1000
# 4 GB at 6 bytes per nonzero.
_LARGE, _MEDIUM = 670_000, 40_000
_BATCH = 4096
_MEMORY, _THROUGHPUT = Goal(600, "below"), Goal(0.6, "at least")


def measure(settings: Settings) -> Iterator[Line]:
    """Megabytes of anonymous memory, and seconds per iteration; the large fits are run once."""
    n_rows = int(os.environ.get("PARTWISE_SCALE_ROWS", _LARGE))
    with on_disk_rows(1000, _PER_ROW) as data:
        for _, model in _large_fits():
            model.fit(data)
    with on_disk_rows(n_rows, _PER_ROW) as data:
        name = f"simulated rows, {n_rows} x 10000, {data.nnz:.2g} nonzeros, {6 * data.nnz / 1e9:.1f} GB on disk"
        for what, model in _large_fits():
            with AnonymousMemory() as memory:
                model.fit(data)
            yield Line(f"rise in memory, {what}", name, Sample.of([memory.rise / 1e6], "MB"), goal=_MEMORY, threads="2")
    yield from _throughput(settings, min(n_rows, _MEDIUM))


def _large_fits() -> Iterator[tuple[str, Any]]:
    from partwise import GammaPoissonNMF, PoissonNMF

    common: dict[str, Any] = {"random_state": 0, "n_jobs": 2, "tol": 0.0, "progress": False}
    poisson = PoissonNMF(20, inference="multiplicative", max_iter=2, **common)
    yield "PoissonNMF, K = 20, two passes over all rows", poisson
    online = GammaPoissonNMF(20, inference="online", batch_size=_BATCH, max_iter=10, **common)
    yield "GammaPoissonNMF online, K = 20, ten batches of 4096 rows", online


def _throughput(settings: Settings, n_rows: int) -> Iterator[Line]:
    in_memory = sp.csr_array(sp.vstack(list(made_rows(n_rows, _PER_ROW)), format="csr"))
    peer = "partwise, the same data in memory"
    with on_disk_rows(n_rows, _PER_ROW) as data:
        name = f"simulated rows, {n_rows} x 10000, {data.nnz:.2g} nonzeros"
        for step, make in _steps().items():
            for pages in ("in memory", "dropped before each"):
                times: dict[str, list[float]] = {"disk": [], "memory": []}
                for _ in range(settings.repeats):
                    drop = () if pages == "in memory" else (lambda *_: forget_pages(data),)
                    times["disk"].append(seconds_an_iteration(make(), data, callbacks=drop))
                    times["memory"].append(seconds_an_iteration(make(), in_memory))
                ours, theirs = Sample.of(times["disk"], "s"), Sample.of(times["memory"], "s")
                yield Line(f"{step} from disk, pages {pages}", name, ours, theirs, peer, goal=_THROUGHPUT)


def _steps() -> dict[str, Callable[[], Any]]:
    from partwise import GammaPoissonNMF, PoissonNMF

    common: dict[str, Any] = {"random_state": 0, "tol": 0.0, "progress": False, "max_iter": 3}
    return {
        "iteration of PoissonNMF, K = 20,": lambda: PoissonNMF(20, inference="multiplicative", **common),
        "batch of 4096 rows of GammaPoissonNMF online, K = 20,": lambda: GammaPoissonNMF(
            20, inference="online", batch_size=_BATCH, **common
        ),
    }
