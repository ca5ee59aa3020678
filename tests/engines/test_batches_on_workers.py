"""Batch factors and consensus with Dask: the same bits as with the threads of one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partwise
from clusters import cluster
from partwise import EmpiricalBayesPoissonNMF, GammaPoissonNMF, PoissonNMF, on_disk
from partwise.datasets import simulate_batches
from partwise.engines.blocks import row_blocks

DATA = simulate_batches(120, 40, n_groups=3, n_shared=1, n_batches=3, mean_total=200.0, random_state=0)
BATCH = DATA.table.metadata["batch"]
X = DATA.table.matrix.toarray().astype(float)
WITH_MISSING = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
CASES: dict[str, tuple[type[Any], Any, dict[str, Any]]] = {
    "coordinate": (PoissonNMF, WITH_MISSING, {"max_iter": 8, "tol": 0.0}),
    "multiplicative": (PoissonNMF, X, {"inference": "multiplicative", "max_iter": 8, "tol": 0.0}),
    "empirical-bayes": (EmpiricalBayesPoissonNMF, WITH_MISSING, {"max_iter": 3, "tol": 0.0}),
    "vem": (GammaPoissonNMF, WITH_MISSING, {"inference": "vem", "max_iter": 5, "tol": 0.0}),
    "online": (GammaPoissonNMF, X, {"inference": "online", "max_iter": 3, "batch_size": 40}),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of rows, also of these small data."""
    for place in ("passes.side", "poisson.inference.passes", "likelihood.completion"):
        monkeypatch.setattr(f"partwise.{place}.row_blocks", lambda indptr, *_, **__: row_blocks(indptr, 400, 8))


@pytest.fixture(scope="module")
def client(request: Any) -> Iterator[Any]:
    with cluster(request.param) as running:
        yield running


def results(case: str, engine: Any) -> dict[str, Any]:
    kind, data, settings = CASES[case]
    model = kind(4, random_state=1, engine=engine, **settings).fit(data, batch=BATCH)
    found = {name: value for name, value in vars(model).items() if isinstance(value, np.ndarray)}
    assert found["batch_factors_"].shape == (3, 40)
    new = np.where(BATCH == "batch0", "new", BATCH)
    changes = model.differential(X, batch=BATCH)
    return {
        **found,
        "strength": model.batch_strength_,
        "objective": model.objective,
        "transform": model.transform(data, batch=new),
        "score": model.score(X, batch=BATCH),
        "mean": changes.mean,
        "lfsr": changes.lfsr,
    }


@pytest.mark.parametrize(
    ("client", "case"),
    [
        pytest.param(n, case, marks=[] if n == 2 and case in ("coordinate", "vem") else [pytest.mark.slow])
        for n in (1, 2, 4)
        for case in CASES
    ],
    indirect=["client"],
)
def test_batches(client: Any, case: str) -> None:
    found, expected = results(case, client), results(case, None)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


@pytest.mark.parametrize("max_samples", [None, 90])
@pytest.mark.parametrize(
    "client", [2, pytest.param(1, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)], indirect=True
)
def test_consensus_of_rows_on_disk(client: Any, max_samples: int | None, tmp_path: Path) -> None:
    mapped = on_disk(X, tmp_path / "counts")
    estimator = PoissonNMF(4, random_state=1, max_iter=300, tol=1e-2)
    options: dict[str, Any] = {"n_restarts": 3, "batch": BATCH, "density_threshold": 2.0}
    options["max_samples"] = max_samples
    here = partwise.consensus(estimator, mapped, n_jobs=2, **options)
    there = partwise.consensus(estimator.set_params(engine=client), mapped, **options)
    for name in ("shares", "lower", "upper", "activations", "stability"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name), err_msg=name)
