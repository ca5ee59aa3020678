"""Dask on two workers of one thread each, beside one local thread and beside two."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.rows import on_disk_rows, seconds_an_iteration

_PER_ROW, _ROWS, _N_COMPONENTS = 200, 500_000, 40
_BESIDE_ONE, _BESIDE_TWO = Goal(1.6, "at least"), Goal(1 / 1.15, "at least")


def measure(settings: Settings) -> Iterator[Line]:
    """Seconds an iteration of PoissonNMF on rows on disk; all three give the same bits."""
    n_rows = int(os.environ.get("PARTWISE_SCALE_ROWS", _ROWS))
    what, data_name = (
        f"one iteration, K = {_N_COMPONENTS}",
        f"simulated rows, {n_rows} x 10000, {n_rows * _PER_ROW:.2g} nonzeros",
    )
    if len(os.sched_getaffinity(0)) < 2:
        yield skipped(what, data_name, "this machine has one core", _BESIDE_ONE)
        return
    distributed: Any = import_module("distributed")

    times: dict[str, list[float]] = {"one": [], "two": [], "dask": []}
    with (
        on_disk_rows(n_rows, _PER_ROW) as data,
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        for _ in range(settings.repeats):
            for name, engine, n_jobs in (("dask", client, None), ("two", None, 2), ("one", None, 1)):
                times[name].append(seconds_an_iteration(_model(engine, n_jobs), data))
    dask = Sample.of(times["dask"], "s")
    one, two = Sample.of(times["one"], "s"), Sample.of(times["two"], "s")
    yield Line(what, data_name, dask, one, "partwise, one local thread", goal=_BESIDE_ONE, threads="2 workers")
    yield Line(what, data_name, dask, two, "partwise, two local threads", goal=_BESIDE_TWO, threads="2 workers")


def _model(engine: Any, n_jobs: int | None) -> Any:
    from partwise import PoissonNMF

    settings: dict[str, Any] = {"random_state": 0, "tol": 0.0, "progress": False, "max_iter": 3}
    return PoissonNMF(_N_COMPONENTS, inference="multiplicative", engine=engine, n_jobs=n_jobs, **settings)
