"""Activations of samples under a fixed dictionary settle, also where plain sweeps take hundreds of steps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from partwise import EmpiricalBayesPoissonNMF
from partwise.core.data import CountMatrix
from partwise.empirical_bayes.inference.activations import expected_counts, settled
from partwise.engines.local import LocalEngine

Floats = NDArray[np.float64]
ENGINE = LocalEngine()


def plain_sweeps(X: Floats, model: EmpiricalBayesPoissonNMF, number: int) -> Floats:
    """Expected counts after so many sweeps from equal shares, in plain NumPy."""
    geometric, exposure = model.geometric_components_.T, model.components_.sum(axis=1)
    counts = np.repeat(X.sum(axis=1)[:, None] / exposure.size, exposure.size, axis=1)
    for _ in range(number):
        columns = [
            prior.posterior(counts[:, k], exposure[k : k + 1]).mean_log
            for k, prior in enumerate(model.activation_priors_)
        ]
        activations = np.exp(np.stack(columns, axis=1))
        counts = activations * ((X / (activations @ geometric.T)) @ geometric)
    return counts


@pytest.fixture(scope="module", params=["gamma", "two-gamma"])
def fitted(request: pytest.FixtureRequest) -> tuple[Floats, EmpiricalBayesPoissonNMF]:
    """Twice as many parts as there are, after a few sweeps: many parts share what is one."""
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.3, 10.0, (30, 6)) @ rng.gamma(0.5, 1.0, (6, 50))).astype(np.float64)
    X = X[X.sum(axis=1) > 0]
    priors = {"activation_prior": request.param, "dictionary_prior": request.param}
    model = EmpiricalBayesPoissonNMF(12, **priors, random_state=0, max_iter=20, tol=0.0, prune=False, progress=False)
    return X, model.fit(X)


def found(X: Floats, model: EmpiricalBayesPoissonNMF, **limits: int) -> Floats:
    geometric, exposure = np.ascontiguousarray(model.geometric_components_.T), model.components_.sum(axis=1)[None]
    return expected_counts(CountMatrix.build(X), geometric, exposure, model.activation_priors_, ENGINE, **limits)


def test_rows_settle_where_plain_sweeps_lead(fitted: tuple[Floats, EmpiricalBayesPoissonNMF]) -> None:
    X, model = fitted
    totals = X.sum(axis=1)[:, None]
    limit = plain_sweeps(X, model, 4000)
    np.testing.assert_array_less(np.abs(found(X, model) - limit) / totals, 2e-6)
    # A few hundred plain sweeps are not enough: stopping there would be seen.
    assert np.max(np.abs(plain_sweeps(X, model, 300) - limit) / totals) > 2e-6


def test_too_few_sweeps_are_not_silent(fitted: tuple[Floats, EmpiricalBayesPoissonNMF]) -> None:
    X, model = fitted
    with pytest.warns(
        ConvergenceWarning, match=r"after 30 sweeps the activations of \d+ of \d+ samples have not"
    ) as seen:
        found(X, model, max_sweeps=30)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(X)


def test_a_row_does_not_depend_on_the_others(fitted: tuple[Floats, EmpiricalBayesPoissonNMF]) -> None:
    X, model = fitted
    together = model.transform(X)
    np.testing.assert_array_equal(together[10:17], model.transform(X[10:17]))


class Contracting:
    """Rows whose sweeps shrink every distance from a target by the same ratio."""

    def __init__(self, data: CountMatrix, target: Floats, ratio: float) -> None:
        self.data, self.geometric, self._target, self._ratio = data, np.ones((data.shape[1], 2)), target, ratio

    def moved(self, counts: Floats, active: NDArray[np.intp]) -> Floats:
        return self._target[active] + self._ratio * (counts - self._target[active])


@pytest.mark.parametrize("ratio", [0.3, 0.8])
def test_what_is_left_is_a_geometric_series(ratio: float) -> None:
    """Σ of the steps that follow the second, which is ratio / (1 - ratio) of it, and the step itself at least."""
    data = CountMatrix.build([[60, 40], [500, 500]])
    target = np.array([[80.0, 20.0], [100.0, 900.0]])
    rows: Any = Contracting(data, target, ratio)
    _, left = settled(rows, 0.0, 3)
    second = ratio * (1.0 - ratio) * np.array([30.0, 400.0])
    np.testing.assert_allclose(left, second / data.row_sums * max(1.0, ratio / (1.0 - ratio)), rtol=1e-12)
