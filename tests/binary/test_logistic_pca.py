"""Logistic PCA against direct optimisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from binary_samples import planted
from scipy.optimize import minimize

import partwise
from partwise import LogisticPCA


def objective(X: np.ndarray, activations: np.ndarray, dictionary: np.ndarray, mu: np.ndarray, penalty: float) -> float:
    logits = activations @ dictionary.T + mu
    seen = ~np.isnan(X)
    signs = 2 * np.nan_to_num(X) - 1
    fit = -np.logaddexp(0, -signs * logits)[seen].sum()
    return float(fit - 0.5 * penalty * (np.sum(activations**2) + np.sum(dictionary**2)))


def optimum(X: np.ndarray, n_components: int, penalty: float, intercept: bool, seed: int) -> float:
    """The best that L-BFGS finds from a random start."""
    n_samples, n_features = X.shape
    sizes = [n_samples * n_components, n_features * n_components, n_features]
    seen, signs = ~np.isnan(X), 2 * np.nan_to_num(X) - 1

    def loss(free: np.ndarray) -> tuple[float, np.ndarray]:
        a, d, mu = np.split(free, np.cumsum(sizes)[:-1])
        a, d = a.reshape(n_samples, -1), d.reshape(n_features, -1)
        mu = mu * intercept
        slope = seen * signs / (1 + np.exp(signs * (a @ d.T + mu)))
        gradient = [
            (slope @ d - penalty * a).ravel(),
            (slope.T @ a - penalty * d).ravel(),
            slope.sum(axis=0) * intercept,
        ]
        return -objective(X, a, d, mu, penalty), -np.concatenate(gradient)

    start = np.random.default_rng(seed).normal(size=sum(sizes))
    options = {"maxiter": 5000, "maxfun": 10**6, "gtol": 1e-9, "ftol": 1e-15}
    return -float(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).fun)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_components", [1, 3])
def test_objective_is_that_of_direct_optimisation(n_components: int, intercept: bool) -> None:
    X = planted(40)
    model = LogisticPCA(n_components, penalty=0.5, intercept=intercept, max_iter=5000, tol=1e-12, random_state=0).fit(X)
    reached = objective(X, model.activations_, model.components_.T, model.intercept_, 0.5)
    best = max(optimum(X, n_components, 0.5, intercept, seed) for seed in range(3))
    assert reached >= best - 1e-4
    objectives = model.trace_["objective"]
    assert np.all(np.diff(objectives) >= -1e-9)
    # what is traced is the objective between the two halves of a step
    assert abs(objectives[-1] - reached) < 1e-4


def test_unpenalised_fit_gets_further_than_a_curvature_of_a_quarter() -> None:
    """The published algorithm: a majoriser of curvature 1/4, a truncated SVD each iteration."""
    X = planted(41, missing=0.0)
    n_iter = 100
    theta = np.zeros_like(X)
    for _ in range(n_iter):
        working = theta + 4 * (X - 1 / (1 + np.exp(-theta)))
        mu = working.mean(axis=0)
        u, s, v = np.linalg.svd(working - mu, full_matrices=False)
        theta = mu + u[:, :3] * s[:3] @ v[:3]
    published = -np.logaddexp(0, -(2 * X - 1) * theta).sum()
    ours = LogisticPCA(3, penalty=0.0, max_iter=n_iter, tol=0, random_state=0).fit(X)
    assert objective(X, ours.activations_, ours.components_.T, ours.intercept_, 0.0) > published


def test_activations_of_new_samples_are_an_optimum() -> None:
    X = planted(42)
    model = LogisticPCA(2, penalty=0.3, random_state=0).fit(X)
    row = planted(43)[:1]
    found = model.transform(row)

    def loss(h: np.ndarray) -> float:
        return -objective(row, h[None, :], model.components_.T, model.intercept_, 0.3)

    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(found[0], best, atol=1e-5)


def test_predicts_and_saves(tmp_path: Any) -> None:
    whole = planted(44, 60, 30, missing=0.0)
    train = whole.copy()
    train[np.random.default_rng(0).random(train.shape) < 0.2] = np.nan
    model = LogisticPCA(1, penalty=0.2, random_state=0).fit(train)
    assert model.log_loss(whole) < 0.45
    np.testing.assert_allclose(model.inverse_transform(model.activations_), model.probabilities_)
    gram = model.components_ @ model.components_.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)
    model.save(tmp_path / "logistic.partwise")
    loaded = partwise.load(tmp_path / "logistic.partwise")
    np.testing.assert_array_equal(loaded.transform(whole), model.transform(whole))
    assert -0.7 < model.score(whole) < -0.2


def test_more_components_than_the_data_have() -> None:
    model = LogisticPCA(6, penalty=0.1, max_iter=50, tol=0, random_state=0).fit(planted(45, 4, 3))
    assert model.components_.shape == (6, 3)
    assert np.all(np.isfinite(model.probabilities_))


def test_unpenalised_components_stay_finite() -> None:
    X = np.kron(np.eye(2), np.ones((4, 4)))
    model = LogisticPCA(2, penalty=0.0, max_iter=300, tol=0, random_state=0).fit(X)
    assert np.all(np.isfinite(model.components_))
    assert np.all(np.isfinite(model.transform(X)))
