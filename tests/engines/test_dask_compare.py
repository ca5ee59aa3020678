"""The fits of a comparison on workers: the same lines and bits as with threads, whatever dies on the way."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusters import cluster, distributed
from partwise import AllocationNMF, PoissonNMF
from partwise.engines import LocalEngine
from partwise.engines.dask import DaskEngine
from partwise.errors import EngineError
from partwise.selection import compare
from partwise.storage.csr_folder import MappedCounts

psutil = pytest.importorskip("psutil", reason="finds the workers of a command")

MODELS = ["poisson", "allocation"]
RANKS = range(1, 5)
TIMEOUT = 240.0


def counts(n_samples: int = 40) -> np.ndarray:
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(20, 0.1), size=3)
    return rng.poisson(rng.gamma(0.3, 60 / 0.9, size=(n_samples, 3)) @ parts)


def lines(folder: Path) -> list[dict[str, str]]:
    """All lines of all tables, without their times."""
    found = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            rows = [{**row, "table": path.name, "seconds": ""} for row in csv.DictReader(file)]
        found += sorted(rows, key=lambda row: (row["model"], int(row["rank"]), int(row["restart"])))
    return found


def arrays(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    return {path.name: dict(np.load(path)) for path in sorted((folder / "fits").glob("*.npz"))}


def assert_same_folders(found: Path, expected: Path) -> None:
    assert lines(found) == lines(expected)
    ours, theirs = arrays(found), arrays(expected)
    assert ours.keys() == theirs.keys()
    for name, known in theirs.items():
        for part, array in known.items():
            np.testing.assert_array_equal(ours[name][part], array, err_msg=f"{name} {part}")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("local")
    return folder, compare(counts(), MODELS, RANKS, random_state=0, n_restarts=2, output=folder).sentence


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(2) as running:
        yield running


def test_same_lines_and_bits_as_local(client: Any, local: tuple[Path, str], tmp_path: Path) -> None:
    engine = DaskEngine(client)
    found = compare(counts(), MODELS, RANKS, random_state=0, n_restarts=2, engine=engine, output=tmp_path)
    assert found.sentence == local[1]
    assert_same_folders(tmp_path, local[0])
    assert list(engine.folder.glob("compare-*")) == [], "data for the workers are removed"


def test_rows_on_disk_and_bits(client: Any, tmp_path: Path) -> None:
    from partwise import on_disk

    mapped = on_disk(counts(), tmp_path / "counts")
    assert isinstance(mapped, MappedCounts)
    bits = (counts() > 0).astype(float)
    bits[0, :4] = np.nan
    for data, models in ((mapped, ["poisson"]), (bits, ["beta-dir", "poisson"])):
        here, there = (
            compare(data, models, [1, 2], random_state=0, n_restarts=1, engine=engine)
            for engine in (LocalEngine(2), client)
        )
        assert [row.score for row in here.table()] == [row.score for row in there.table()]
    assert (tmp_path / "counts").exists()


def test_killed_run_goes_on_elsewhere(client: Any, local: tuple[Path, str], tmp_path: Path) -> None:
    compare(counts(), MODELS, RANKS, random_state=0, n_restarts=2, engine=client, output=tmp_path)
    fits = tmp_path / "fits.csv"
    kept = fits.read_text().splitlines(keepends=True)
    fits.write_text("".join(kept[:5]) + kept[5][:20])
    compare(counts(), MODELS, RANKS, random_state=0, n_restarts=2, output=tmp_path)
    assert_same_folders(tmp_path, local[0])


def test_model_that_cannot_be_fitted_is_left_out(client: Any) -> None:
    models = {"huge": AllocationNMF(inference="cvb0", max_memory=1.0), "ml": PoissonNMF()}
    found = compare(counts(), models, [2], random_state=0, n_restarts=1, engine=client)
    assert found.models == ["ml"]
    assert "memory" in found.left_out["huge"]


def test_a_scheduler_that_is_gone_ends_the_comparison(tmp_path: Path) -> None:
    with cluster(1) as own:
        engine = DaskEngine(own)
        late = threading.Timer(1.0, lambda: own.restart(wait_for_workers=False))
        late.start()
        slow = {"slow": PoissonNMF(tol=0.0, max_iter=10**8)}
        with pytest.raises(EngineError, match="has forgotten this comparison"):
            compare(counts(), slow, [2, 3], random_state=0, engine=engine, output=tmp_path)
        late.join()
    assert (tmp_path / "fits.csv").exists()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, in processes of xdist too, which ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C ends what waits at once, and fits that run see that their folder is gone."""
    with cluster(1) as own:
        engine = DaskEngine(own)
        timer = threading.Timer(2.0, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        slow = {"slow": PoissonNMF(tol=0.0, max_iter=10**8)}
        with pytest.raises(KeyboardInterrupt):
            compare(counts(), slow, [2, 3], random_state=0, engine=engine, output=tmp_path)
        timer.join()
        deadline = time.monotonic() + 60
        while any(own.processing().values()) or _busy(own):
            assert time.monotonic() < deadline, "a fit goes on that nobody waits for"
            time.sleep(0.2)


def _busy(client: Any) -> bool:
    return any(client.run(lambda dask_worker: bool(dask_worker.state.executing)).values())


def command(data: Path, output: Path, names: list[str], *options: str) -> list[str]:
    models = ["--models", ",".join(names), "--ranks", "1-4", "--restarts", "2"]
    return [sys.executable, "-m", "partwise", "compare", str(data), *models, "-o", str(output), *options]


def test_a_killed_worker_costs_only_its_fits(tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", counts())
    compare(counts(), ["poisson"], RANKS, random_state=0, n_restarts=2, output=tmp_path / "expected")
    words = command(tmp_path / "counts.npy", tmp_path / "found", ["poisson"], "--engine", "dask", "--threads", "2")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + TIMEOUT
        fits = tmp_path / "found" / "fits.csv"
        while not fits.exists() or len(fits.read_text().splitlines()) < 3:
            assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        workers = [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]
        os.kill(workers[0], signal.SIGKILL)
        assert process.wait(TIMEOUT) == 0, (tmp_path / "log").read_text()[-2000:]
    finally:
        process.kill()
    assert_same_folders(tmp_path / "found", tmp_path / "expected")


def test_a_scheduler_address(local: tuple[Path, str], tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from partwise.cli.app import build

    np.save(tmp_path / "counts.npy", counts())
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=":0"
    ) as started:
        where = ["--engine", "dask", "--scheduler", started.scheduler_address]
        words = command(tmp_path / "counts.npy", tmp_path / "found", MODELS, *where)[3:]
        done = CliRunner().invoke(build(), [*words, "--save", str(tmp_path / "best.partwise")])
        for client in list(distributed.Client._instances):
            if client.scheduler is not None and client.scheduler.address == started.scheduler_address:
                client.close()
    assert done.exit_code == 0, done.output
    assert local[1] in done.output
    assert (tmp_path / "best.partwise").exists()
    assert_same_folders(tmp_path / "found", local[0])
