"""``partwise fit --engine dask`` against a scheduler that runs already; `test_faults` has workers that it starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import partwise
from clusters import distributed
from partwise.cli.app import build

FIT = ["-k", "2", "--max-iter", "6", "--tol", "0", "--seed", "3"]


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    np.save(tmp_path / "counts.npy", np.random.default_rng(0).poisson(2.0, size=(50, 9)))
    return tmp_path / "counts.npy"


def test_a_scheduler_address(counts: Path, tmp_path: Path) -> None:
    models = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=":0"
    ) as cluster:
        for where in ([], ["--engine", "dask", "--scheduler", cluster.scheduler_address]):
            output = str(tmp_path / f"{len(models)}.partwise")
            done = CliRunner().invoke(build(), ["fit", str(counts), "-o", output, *FIT, *where])
            assert done.exit_code == 0, done.output
            models.append(partwise.load(output))
        for client in distributed.Client._instances:
            client.close()
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    assert models[1].get_params()["engine"] is None, "a model file says nothing of where it was fitted"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--engine", "spark"], "is not one of local, dask"),
        (["--scheduler", "tcp://here:1"], "it needs --engine dask"),
        (["--engine", "dask", "--scheduler", "here"], "is not an address such as tcp://HOST:8786"),
    ],
)
def test_wrong_usage(counts: Path, tmp_path: Path, options: list[str], sentence: str) -> None:
    done = CliRunner().invoke(build(), ["fit", str(counts), "-o", str(tmp_path / "model.partwise"), *options])
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())
