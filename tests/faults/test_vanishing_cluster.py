"""Workers and schedulers that vanish: an error after a stated time, a whole checkpoint, and no scratch files."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise import Checkpoint, PoissonNMF
from partwise.core.checkpoint import read_checkpoint
from partwise.engines.dask import DaskEngine
from partwise.errors import EngineError

distributed = pytest.importorskip("distributed", reason="needs the extra partwise[dask]")

X = np.random.default_rng(0).poisson(3.0, size=(60, 20))
SETTINGS: dict[str, Any] = {"inference": "multiplicative", "tol": 0.0, "random_state": 0}
PATIENCE = 4.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Any, subprocess.Popen, subprocess.Popen]]:
    """A client, and the processes of its scheduler and its only worker."""
    file = tmp_path / "scheduler.json"
    of_dask = [sys.executable, "-m", "distributed.cli.dask_"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [*of_dask[:2], f"{of_dask[2]}scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)],
        **quiet,
    )
    worker = subprocess.Popen(
        [*of_dask[:2], f"{of_dask[2]}worker", "--no-nanny", "--nthreads", "1", "--no-dashboard",
         "--scheduler-file", str(file), "--local-directory", str(tmp_path)],
        **quiet,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    client = distributed.Client(scheduler_file=str(file), set_as_default=False, timeout=60)
    client.wait_for_workers(1, timeout=60)
    yield client, scheduler, worker
    for process in (worker, scheduler):
        process.kill()
        process.wait()
    client.close(timeout=1)


@pytest.mark.parametrize("victim", ["worker", "scheduler"])
def test_whoever_vanishes(victim: str, cluster: Any, tmp_path: Path) -> None:
    client, scheduler, worker = cluster
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", iterations=1)
    scratch = tmp_path / "scratch"

    def kill_at_four(iteration: int, state: object, trace: object) -> None:
        if iteration == 4:
            (worker if victim == "worker" else scheduler).kill()

    engine = DaskEngine(client, folder=scratch, patience=PATIENCE)
    fit = PoissonNMF(2, max_iter=10, engine=engine, checkpoint=checkpoint, callbacks=[kill_at_four], **SETTINGS)
    start = time.monotonic()
    words = "has had no worker for 4 seconds" if victim == "worker" else "scheduler|no worker for 4 seconds"
    with pytest.raises(EngineError, match=words) as raised:
        fit.fit(X)
    # Dask itself gives up a lost scheduler after 30 seconds.
    assert time.monotonic() - start < 60
    assert "resume from the last checkpoint" in str(raised.value)
    assert list(scratch.iterdir()) == []
    assert len(read_checkpoint(checkpoint.path).trace) >= 3
    resumed = PoissonNMF(2, max_iter=6, checkpoint=checkpoint, resume=True, **SETTINGS).fit(X)
    np.testing.assert_array_equal(resumed.components_, PoissonNMF(2, max_iter=6, **SETTINGS).fit(X).components_)


def test_a_worker_that_comes_back_in_time(cluster: Any, tmp_path: Path) -> None:
    client, _, worker = cluster
    started: list[subprocess.Popen] = []

    def replace_at_four(iteration: int, state: object, trace: object) -> None:
        if iteration == 4:
            worker.kill()
            words = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path)]
            program = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address]
            started.append(subprocess.Popen([*program, *words], stderr=subprocess.DEVNULL))

    engine = DaskEngine(client, folder=tmp_path / "scratch", patience=60)
    try:
        fit = PoissonNMF(2, max_iter=8, engine=engine, callbacks=[replace_at_four], **SETTINGS).fit(X)
    finally:
        for process in started:
            process.kill()
            process.wait()
    np.testing.assert_array_equal(fit.components_, PoissonNMF(2, max_iter=8, **SETTINGS).fit(X).components_)
    engine.close()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_scratch_files_of_a_killed_process_are_swept(tmp_path: Path) -> None:
    """A process that is killed cannot clean up; the next one does."""
    program = (
        "import sys, os, distributed\n"
        "from partwise.engines.dask import DaskEngine\n"
        "if __name__ == '__main__':\n"
        "    c = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=':0')\n"
        "    engine = DaskEngine(distributed.Client(c), folder=sys.argv[1])\n"
        "    print(os.listdir(sys.argv[1]), flush=True)\n"
        "    os.kill(os.getpid(), 9) if sys.argv[2] == 'kill' else None\n"
    )
    for way in ("kill", "end"):
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), way],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout.count("partwise-") == 1, done.stderr
    assert list(tmp_path.iterdir()) == []
