"""What no engine can survive ends in one sentence, and the last checkpoint is intact; full disks: tests/faults."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusters import cluster, distributed
from partwise import Checkpoint, PoissonNMF, on_disk
from partwise.core.checkpoint import read_checkpoint
from partwise.engines.blocks import Block
from partwise.engines.dask import DaskEngine
from partwise.errors import EngineError

X = np.random.default_rng(0).poisson(3.0, size=(40, 12))


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs a path that means another folder elsewhere")
def test_a_folder_that_a_worker_does_not_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same path is another folder for the worker, as on another machine."""
    monkeypatch.chdir(tmp_path)
    with cluster(1, processes=True) as client:
        client.run(os.chdir, "/")
        with pytest.raises(EngineError, match="does not see the folder /proc/self/cwd/"):
            DaskEngine(client, folder="/proc/self/cwd")
    assert list(tmp_path.iterdir()) == []


def greedy(block: Block, *_: Any) -> float:
    """Far more than the worker may take, touched so that it is really taken."""
    return float(np.ones(2**28).sum())


class Hungry(DaskEngine):
    """After some passes, those that follow need more memory than there is."""

    passes = 8

    def map_rows(self, function: Any, *arguments: Any, **options: Any) -> Any:
        self.passes -= 1
        return super().map_rows(function if self.passes >= 0 else greedy, *arguments, **options)


@pytest.mark.slow
def test_a_worker_out_of_memory(tmp_path: Path) -> None:
    """One sentence, and a whole checkpoint: a fit that goes on from it has the bits of an undisturbed one."""
    import dask

    settings: dict[str, Any] = {"inference": "multiplicative", "max_iter": 12, "tol": 0.0, "random_state": 0}
    mapped = on_disk(X, tmp_path / "counts")
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", iterations=1)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.worker.memory.terminate": 0.9}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="700MB", dashboard_address=":0"
        ) as started,
        distributed.Client(started, set_as_default=False) as client,
        pytest.raises(EngineError, match=r"ran out of memory.*the last checkpoint is intact") as raised,
    ):
        PoissonNMF(2, engine=Hungry(client), checkpoint=checkpoint, **settings).fit(mapped)
    assert "\n" not in str(raised.value)
    assert 0 < len(read_checkpoint(tmp_path / "fit.checkpoint").trace) < 12
    resumed = PoissonNMF(2, checkpoint=checkpoint, resume=True, **settings).fit(mapped)
    np.testing.assert_array_equal(resumed.components_, PoissonNMF(2, **settings).fit(mapped).components_)
