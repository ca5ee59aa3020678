"""What no engine can survive ends in one sentence, and the last checkpoint is whole."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters import cluster, distributed

from partwise import Checkpoint, PoissonNMF
from partwise.core.checkpoint import read_checkpoint
from partwise.core.data import CountMatrix
from partwise.engines.dask import DaskEngine
from partwise.engines.rows import Block
from partwise.errors import EngineError

X = np.random.default_rng(0).poisson(3.0, size=(40, 12))


@contextmanager
def no_space(path: Any) -> Iterator[Path]:
    raise OSError(errno.ENOSPC, f"cannot write {path}: the disk is full")
    yield Path(path)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"inference": "multiplicative", "tol": 0.0, "random_state": 0}
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", iterations=1)
    with cluster(1) as client:
        engine = DaskEngine(client, stored_every=6)
        monkeypatch.setattr("partwise.engines.tasks.atomic_path", no_space)
        with pytest.raises(EngineError, match="the disk is full"):
            PoissonNMF(2, max_iter=20, engine=engine, checkpoint=checkpoint, **settings).fit(X)
        assert len(read_checkpoint(tmp_path / "fit.checkpoint").trace) == 5
    resumed = PoissonNMF(2, max_iter=8, checkpoint=checkpoint, resume=True, **settings).fit(X)
    np.testing.assert_array_equal(resumed.components_, PoissonNMF(2, max_iter=8, **settings).fit(X).components_)


def test_a_full_disk_for_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    with cluster(1) as client:
        monkeypatch.setattr("partwise.engines.dask.write_data", full)
        with pytest.raises(EngineError, match="could not be written for the workers"):
            PoissonNMF(2, engine=DaskEngine(client)).fit(X)


def test_a_folder_that_a_worker_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partwise.engines.tasks.os.access", lambda *_: False)
    with cluster(1) as client, pytest.raises(EngineError, match="does not see the folder"):
        DaskEngine(client)


def greedy(block: Block) -> float:
    """Far more than the worker may take, touched so that it is really taken."""
    return float(np.ones(2**28).sum())


@pytest.mark.slow
def test_a_worker_out_of_memory() -> None:
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.worker.memory.terminate": 0.9}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="700MB", dashboard_address=":0"
        ) as started,
        distributed.Client(started, set_as_default=False) as client,
        pytest.raises(EngineError, match="ran out of memory"),
    ):
        DaskEngine(client).map_rows(greedy, CountMatrix.build(X), [(0, 40)])
