"""One thread, two threads, Dask with 1, 2 and 4 workers: the same bits, for every algorithm that has an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusters import cluster
from partwise import (
    AllocationNMF,
    BetaGammaPFA,
    BinaryNMF,
    EmpiricalBayesPoissonNMF,
    GammaPoissonNMF,
    NegativeBinomialNMF,
    PoissonNMF,
    on_disk,
)
from partwise.engines.blocks import row_blocks

SMALL_BLOCKS = (
    "passes.side",
    "poisson.inference.passes",
    "likelihood.completion",
    "gamma_poisson.inference.sweeps",
    "allocation.inference.gibbs",
    "allocation.inference.partial",
    "allocation.inference.proposals",
    "binary.inference.cells",
    "binary.inference.activations",
    "negative_binomial.inference.majorisation",
)
RNG = np.random.default_rng(0)
X = RNG.poisson(RNG.gamma(0.5, 20.0, size=(60, 3)) @ RNG.dirichlet(np.full(24, 0.5), size=3)).astype(float)
WITH_MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
BITS = (X > 1).astype(float)


def fit(kind: Any, data: Any, **parameters: Any) -> Callable[[Any, int | None], Any]:
    def fitted(engine: Any, n_jobs: int | None) -> Any:
        return kind(3, random_state=1, engine=engine, n_jobs=n_jobs, **parameters).fit(data)

    return fitted


def partial_fit(kind: Any, **parameters: Any) -> Callable[[Any, int | None], Any]:
    def fitted(engine: Any, n_jobs: int | None) -> Any:
        model = kind(3, random_state=1, engine=engine, n_jobs=n_jobs, **parameters)
        return model.partial_fit(X[:30]).partial_fit(X[30:])

    return fitted


SHORT: dict[str, Any] = {"max_iter": 3, "tol": 0.0}
FEW: dict[str, Any] = {"draws_per_iter": 2, "burn_in_per_iter": 2, "max_iter": 2, "tol": 0.0}
ESTIMATED: dict[str, Any] = {"shape": "estimate"}
CASES: dict[str, tuple[Callable[[Any, int | None], Any], Any]] = {
    "poisson-coordinate": (fit(PoissonNMF, WITH_MISSING, max_iter=13, tol=0.0), WITH_MISSING),
    "poisson-multiplicative": (fit(PoissonNMF, X, inference="multiplicative", max_iter=11, tol=0.0), X),
    "poisson-online": (partial_fit(PoissonNMF), X),
    "gamma-poisson-mcem": (fit(GammaPoissonNMF, WITH_MISSING, inference="mcem-c", **FEW), X),
    "gamma-poisson-collapsed": (fit(GammaPoissonNMF, X, inference="mcem-c", e_step="collapsed", **FEW), X),
    "gamma-poisson-saem": (fit(GammaPoissonNMF, X, inference="saem", **FEW), X),
    "gamma-poisson-vem": (fit(GammaPoissonNMF, X, inference="vem", **SHORT), X),
    "gamma-poisson-mcem-h": (fit(GammaPoissonNMF, WITH_MISSING, inference="mcem-h", **FEW), X),
    "gamma-poisson-mcem-ch": (fit(GammaPoissonNMF, X, inference="mcem-ch", **ESTIMATED, **FEW), X),
    "gamma-poisson-wide": (fit(GammaPoissonNMF, X.T.copy(), inference="mcem-c", **FEW), X.T.copy()),
    "gamma-poisson-saem-missing": (fit(GammaPoissonNMF, WITH_MISSING, inference="saem", **ESTIMATED, **FEW), X),
    "gamma-poisson-vem-missing": (
        fit(GammaPoissonNMF, WITH_MISSING, inference="vem", max_iter=11, tol=0.0, **ESTIMATED),
        X,
    ),
    "gamma-poisson-joint": (fit(GammaPoissonNMF, WITH_MISSING, inference="joint", max_iter=11, tol=0.0), X),
    "gamma-poisson-online": (fit(GammaPoissonNMF, X, inference="online", batch_size=30, **SHORT), X),
    "gamma-poisson-auto": (fit(GammaPoissonNMF, X, n_starts=1, **SHORT), X),
    "beta-gamma": (fit(BetaGammaPFA, X, n_draws=2, burn_in=1), X),
    "beta-gamma-missing": (fit(BetaGammaPFA, WITH_MISSING, n_draws=2, burn_in=1), X),
    "allocation-vb": (fit(AllocationNMF, X, inference="vb", **SHORT), X),
    "allocation-online": (partial_fit(AllocationNMF, inference="vb"), X),
    "allocation-partial": (fit(AllocationNMF, X, inference="gibbs-partial", n_draws=2, burn_in=1), X),
    "allocation-distributed": (fit(AllocationNMF, X, inference="gibbs-distributed", n_draws=2, burn_in=1), X),
    "allocation-missing": (
        fit(AllocationNMF, WITH_MISSING, inference="gibbs-partial", missing="impute", n_draws=2, burn_in=1),
        X,
    ),
    "allocation-alias": (fit(AllocationNMF, X, inference="gibbs-alias", n_draws=2, burn_in=1), X),
    "allocation-chains": (fit(AllocationNMF, X, inference="gibbs-partial", n_draws=2, burn_in=1, n_chains=2), X),
    "empirical-bayes": (fit(EmpiricalBayesPoissonNMF, X, **SHORT), X),
    "empirical-bayes-scales": (
        fit(EmpiricalBayesPoissonNMF, WITH_MISSING, size_factors=True, background=True, **SHORT),
        X,
    ),
    "empirical-bayes-greedy": (fit(EmpiricalBayesPoissonNMF, X, init="greedy", **SHORT), X),
    "empirical-bayes-component": (fit(EmpiricalBayesPoissonNMF, X, inference="component", **SHORT), X),
    "negative-binomial": (fit(NegativeBinomialNMF, WITH_MISSING, **SHORT), X),
    "negative-binomial-feature": (fit(NegativeBinomialNMF, X, dispersion="feature", **SHORT), X),
    "negative-binomial-sample": (fit(NegativeBinomialNMF, X, dispersion="sample", **SHORT), X),
    "binary-partial": (fit(BinaryNMF, BITS, inference="gibbs-partial", n_draws=2, burn_in=1), BITS),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of rows, also of these small data."""
    for start in ("gamma_poisson.inference.thorough", "negative_binomial.inference.majorisation"):
        monkeypatch.setattr(f"partwise.{start}._START_ITERATIONS", 3)
    for place in SMALL_BLOCKS:
        monkeypatch.setattr(f"partwise.{place}.row_blocks", lambda indptr, *_, **__: row_blocks(indptr, 200, 8))


@pytest.fixture(scope="module")
def client(request: Any) -> Iterator[Any]:
    with cluster(request.param) as running:
        yield running


_expected: dict[str, dict[str, np.ndarray]] = {}


def results(case: str, engine: Any, n_jobs: int | None) -> dict[str, np.ndarray]:
    """Everything that a fit leaves in arrays, with activations and scores of its data."""
    make, data = CASES[case]
    model = make(engine, n_jobs)
    found = {name: value for name, value in vars(model).items() if isinstance(value, np.ndarray)}
    found["objective"] = model.trace_["objective"] if "objective" in model.trace_ else np.zeros(0)
    if hasattr(model, "transform"):
        found["transform"] = model.transform(data)
    found["score"] = np.array(model.score(data))
    return found


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def expected(case: str) -> dict[str, np.ndarray]:
    if case not in _expected:
        _expected[case] = results(case, None, 1)
    return _expected[case]


@pytest.mark.parametrize("case", CASES)
def test_two_threads(case: str) -> None:
    assert_same(results(case, None, 2), expected(case))


WORKERS = [1, 2, 4]
# Hundreds of small passes, for which Dask takes seconds: with two workers in the ordinary run, the rest in the slow.
MANY_PASSES = {
    "negative-binomial",
    "poisson-online",
    "gamma-poisson-online",
    "gamma-poisson-auto",
    "allocation-online",
    "empirical-bayes",
}
# Other paths through the algorithms of other cases.
VARIANTS = {
    "negative-binomial-feature",
    "negative-binomial-sample",
    "gamma-poisson-mcem-h",
    "gamma-poisson-mcem-ch",
    "gamma-poisson-wide",
    "gamma-poisson-saem-missing",
    "gamma-poisson-vem-missing",
    "gamma-poisson-joint",
    "beta-gamma-missing",
    "allocation-missing",
    "allocation-chains",
    "empirical-bayes-scales",
    "empirical-bayes-greedy",
    "empirical-bayes-component",
}


# Samplers, which take seconds: with one worker they do what two do, without the messages between them.
SAMPLERS = {
    "binary-partial",
    "allocation-distributed",
    "allocation-partial",
    "gamma-poisson-saem",
    "gamma-poisson-mcem",
}


def slow_on_workers(case: str, n_workers: int) -> bool:
    if case in VARIANTS or (case in MANY_PASSES and n_workers != 2):
        return True
    return case in SAMPLERS and n_workers == 1


def slow_if(condition: bool) -> list[Any]:
    return [pytest.mark.slow] if condition else []


@pytest.mark.parametrize(
    ("client", "case"),
    [
        pytest.param(n_workers, case, marks=slow_if(slow_on_workers(case, n_workers)))
        for n_workers in WORKERS
        for case in CASES
    ],
    indirect=["client"],
)
def test_dask(client: Any, case: str) -> None:
    assert_same(results(case, client, None), expected(case))


@pytest.mark.parametrize(
    ("client", "inference"),
    [
        pytest.param(n_workers, inference, marks=slow_if(inference == "online" and n_workers != 2))
        for n_workers in WORKERS
        for inference in ("coordinate", "multiplicative", "online")
    ],
    indirect=["client"],
)
def test_data_on_disk(client: Any, inference: str, tmp_path: Path) -> None:
    mapped = on_disk(X if inference == "online" else WITH_MISSING, tmp_path / "counts")
    kind = GammaPoissonNMF if inference == "online" else PoissonNMF
    batches: dict[str, Any] = {"batch_size": 30} if inference == "online" else {}
    models = [
        kind(3, inference=inference, random_state=1, engine=engine, n_jobs=n_jobs, **SHORT, **batches).fit(mapped)
        for engine, n_jobs in ((None, 1), (None, 2), (client, None))
    ]
    activations = [model.transform(mapped) for model in models]
    for model, own in zip(models[1:], activations[1:], strict=True):
        np.testing.assert_array_equal(model.components_, models[0].components_)
        np.testing.assert_array_equal(own, activations[0])
