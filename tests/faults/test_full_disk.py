"""A disk that is full: one sentence, the old file stays, nothing is left over, and a running fit goes on."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from faults_tools import leftovers, run

import partwise
from partwise import Checkpoint, PoissonNMF
from partwise.core.checkpoint import read_checkpoint
from partwise.errors import CheckpointWarning, EngineError
from partwise.io import write_matrix
from partwise.io.arrays import save_arrays

X = np.random.default_rng(0).poisson(30.0, size=(1500, 800))
FULL = r"the disk is full; free some space or choose another directory"


@pytest.mark.parametrize(
    "name", ["a.csv", "a.csv.gz", "a.tsv", "a.npz", "a.npy", "a.mtx", "a.mtx.gz", "a.parquet", "a.h5ad"]
)
def test_formats(small_disk: Path, fill: Callable[..., Path], name: str) -> None:
    target = small_disk / name
    target.write_bytes(b"old")
    fill(small_disk, left=2**18)
    with pytest.raises(OSError, match=FULL):
        write_matrix(target, partwise.as_table(X))
    gc.collect()  # what a library left open is closed here
    assert target.read_bytes() == b"old"
    assert leftovers(small_disk) == []


def test_rows_on_disk(small_disk: Path) -> None:
    with pytest.raises(OSError, match=FULL):
        partwise.on_disk(X, small_disk / "counts.rows")
    assert os.listdir(small_disk) == []  # noqa: PTH208


def test_arrays(small_disk: Path) -> None:
    """Safetensors raises an error of its own, which is no OSError."""
    save_arrays(small_disk / "a", {"x": np.zeros(10)})
    before = (small_disk / "a").read_bytes()
    with pytest.raises(OSError, match=FULL):
        save_arrays(small_disk / "a", {"x": np.zeros(2**20)})
    assert (small_disk / "a").read_bytes() == before
    assert leftovers(small_disk) == []


def test_model_report_and_picture(small_disk: Path, fill: Callable[..., Path]) -> None:
    model = PoissonNMF(2, max_iter=3, tol=0, random_state=0).fit(X[:40, :30])
    model.save(small_disk / "m.partwise")
    before = (small_disk / "m.partwise").read_bytes()
    fill(small_disk)
    with pytest.raises(OSError, match=FULL):
        model.save(small_disk / "m.partwise")
    with pytest.raises(OSError, match=FULL):
        partwise.report(model, X[:40, :30], output=small_disk / "r.html")
    with pytest.raises(OSError, match=FULL):
        partwise.plotting.save_figure(
            partwise.plotting.plot_parts_images(model.components_, (5, 6)), small_disk / "p.png"
        )
    assert (small_disk / "m.partwise").read_bytes() == before
    assert sorted(os.listdir(small_disk)) == ["filler", "m.partwise"]  # noqa: PTH208
    assert partwise.load(small_disk / "m.partwise").n_iter_ == 3


def test_a_running_fit_goes_on(small_disk: Path, fill: Callable[..., Path]) -> None:
    path = small_disk / "fit.checkpoint"

    def fill_at_four(iteration: int, state: object, trace: object) -> None:
        if iteration == 4:
            fill(small_disk)

    settings = {"tol": 0, "random_state": 0, "max_iter": 8}
    fit = PoissonNMF(2, checkpoint=Checkpoint(path, iterations=1), callbacks=[fill_at_four], **settings)
    with pytest.warns(CheckpointWarning, match=FULL) as warned:
        fit.fit(X[:40, :30])
    assert all("the fit continues" in str(warning.message) for warning in warned)
    assert fit.n_iter_ == 8
    assert len(read_checkpoint(path).trace) == 3
    (small_disk / "filler").unlink()
    resumed = PoissonNMF(2, checkpoint=path, resume=True, **settings).fit(X[:40, :30])
    np.testing.assert_array_equal(resumed.components_, fit.components_)


def test_the_command_names_the_checkpoint(small_disk: Path, fill: Callable[..., Path], counts: Path) -> None:
    """The model does not fit on the disk; the checkpoint, on another, holds the fit."""
    fill(small_disk, left=8192)
    kept, words = counts.with_name("kept.checkpoint"), ["fit", counts, "-o", small_disk / "m.partwise", "-k", 40]
    done = run(*words, "--max-iter", 4, "--checkpoint", kept)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert "the disk is full" in last
    assert f"{kept} holds the fit" in last
    (small_disk / "filler").unlink()
    assert run(*words, "--max-iter", 4, "--checkpoint", kept, "--resume").returncode == 0
    assert partwise.load(small_disk / "m.partwise").n_iter_ == 4


def test_a_comparison(small_disk: Path, fill: Callable[..., Path], counts: Path) -> None:
    fill(small_disk, left=16_384)
    words = ["compare", counts, "--models", "poisson", "--ranks", "1-5", "--restarts", 1, "-o", small_disk / "found"]
    done = run(*words)
    assert done.returncode == 1
    assert "the disk is full" in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr
    (small_disk / "filler").unlink()
    assert run(*words).returncode == 0


def test_data_for_workers(small_disk: Path) -> None:
    from clusters import cluster
    from partwise.engines.dask import DaskEngine

    with cluster(1) as client:
        engine = DaskEngine(client, folder=small_disk)
        with pytest.raises(EngineError, match=r"could not be written for (?:the )?workers"):
            PoissonNMF(2, engine=engine).fit(X)
        engine.close()
        assert os.listdir(small_disk) == []  # noqa: PTH208


def test_state_of_workers(small_disk: Path, fill: Callable[..., Path], tmp_path: Path) -> None:
    from clusters import cluster
    from partwise.engines.dask import DaskEngine

    small, checkpoint = X[:40, :30], Checkpoint(tmp_path / "fit.checkpoint", iterations=1)
    settings = {"inference": "multiplicative", "tol": 0, "random_state": 0, "max_iter": 12}

    def fill_at_four(iteration: int, state: object, trace: object) -> None:
        if iteration == 4:
            fill(small_disk)

    with cluster(1) as client:
        engine = DaskEngine(client, folder=small_disk, stored_every=3)
        fit = PoissonNMF(2, engine=engine, checkpoint=checkpoint, callbacks=[fill_at_four], **settings)
        with pytest.raises(EngineError, match="the disk is full"):
            fit.fit(small)
        engine.close()
    assert len(read_checkpoint(tmp_path / "fit.checkpoint").trace) >= 3
    resumed = PoissonNMF(2, checkpoint=checkpoint, resume=True, **settings).fit(small)
    np.testing.assert_array_equal(resumed.components_, PoissonNMF(2, **settings).fit(small).components_)


def test_kernels_cannot_be_kept(small_disk: Path, fill: Callable[..., Path], counts: Path, tmp_path: Path) -> None:
    """Kernels that cannot be kept where they should be are kept elsewhere, and the work is done."""
    fill(small_disk)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(small_disk), "TMPDIR": str(tmp_path)}
    done = run("fit", counts, "-o", tmp_path / "m.partwise", "-k", 2, "--max-iter", 2, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Compiled kernels are kept in" in done.stderr
