"""Likelihoods that workers find are those of threads, to the bit: rows have streams of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from clusters import cluster
from partwise import GammaPoissonNMF, PoissonNMF
from partwise.engines.dask import DaskEngine
from partwise.errors import ImpossibleRowsWarning
from partwise.likelihood import auto

RNG = np.random.default_rng(0)
DICTIONARY = np.vstack([RNG.dirichlet(np.full(9, 0.5), size=3).T, np.zeros(3)])
X = RNG.poisson(RNG.gamma(0.5, 30.0, size=(40, 3)) @ DICTIONARY.T).astype(float)
# A count of a feature that no component holds.
X[7, 9] = 1.0
WITH_MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)


@pytest.fixture(scope="module")
def engine() -> Iterator[DaskEngine]:
    with cluster(2) as client:
        yield DaskEngine(client)


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partwise.likelihood.problem._TOKENS_OF_A_TASK", 200)


@pytest.fixture
def functions(engine: DaskEngine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that went to the workers."""
    seen: list[str] = []
    run = engine.map_rows

    def watched(function: Any, *args: Any, **options: Any) -> Any:
        seen.append(function.__name__)
        return run(function, *args, **options)

    monkeypatch.setattr(engine, "map_rows", watched)
    return seen


@pytest.mark.parametrize("max_cost", [0.0, 1e4, 1e7], ids=["estimated", "some of each", "exact"])
@pytest.mark.parametrize("data", [X, WITH_MISSING], ids=["whole", "missing"])
def test_likelihoods_of_rows(engine: DaskEngine, functions: list[str], data: np.ndarray, max_cost: float) -> None:
    settings: dict[str, Any] = {"rng": 3, "max_cost": max_cost, "max_draws": 2**12, "std_error": 0.5}
    with pytest.warns(ImpossibleRowsWarning, match="^Row 7 of X has a count of feature 9"):
        here = auto(data, DICTIONARY, 0.7, 0.5, **settings)
    with pytest.warns(ImpossibleRowsWarning, match="^Row 7 of X has a count of feature 9"):
        there = auto(data, DICTIONARY, 0.7, 0.5, engine=engine, **settings)
    assert functions == ["_estimate_rows"]
    for name in ("values", "std_errors", "ess"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name), err_msg=name)
    assert there.values[7] == -np.inf


def test_streams_by_the_position_in_a_task_would_be_seen() -> None:
    """Rows that are numbered anew in every task have other estimates: the test above can fail."""
    settings: dict[str, Any] = {"rng": 3, "max_cost": 0.0, "max_draws": 2**12, "std_error": 0.5}
    with pytest.warns(ImpossibleRowsWarning):
        whole = auto(X, DICTIONARY, 0.7, 0.5, **settings)
    part = auto(X[20:], DICTIONARY, 0.7, 0.5, **settings)
    assert np.mean(whole.values[20:] != part.values) > 0.5


def test_scores_use_the_engine_of_the_estimator(engine: DaskEngine, functions: list[str]) -> None:
    model = GammaPoissonNMF(2, inference="vem", max_iter=3, tol=0.0, random_state=0).fit(X)
    expected = model.score_samples(X)
    assert not functions
    np.testing.assert_array_equal(model.set_params(engine=engine).score_samples(X), expected)
    assert functions == ["_estimate_rows"]


def test_document_completion_uses_the_engine_of_the_estimator(
    engine: DaskEngine, functions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partwise.likelihood.completion._NONZEROS_AT_ONCE", 20)
    model = PoissonNMF(2, max_iter=3, tol=0.0, random_state=0).fit(WITH_MISSING)
    expected = model.completion(WITH_MISSING)
    assert not functions
    found = model.set_params(engine=engine).completion(WITH_MISSING)
    assert functions == ["_complete"]
    np.testing.assert_array_equal(found.means, expected.means)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
