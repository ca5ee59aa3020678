"""Variational Bayes and EM: bounds that hold, objectives that never fall, fixed points of single rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from binary_samples import cells_of, planted
from enumeration import enumerate_posterior
from scipy import stats
from scipy.optimize import minimize
from scipy.special import gammaln

from partwise.binary.inference.activations import activations_of
from partwise.binary.inference.batches import StochasticVariational, batch_counts
from partwise.binary.inference.cells import Cells
from partwise.binary.inference.em import ExpectationMaximisation
from partwise.binary.inference.variational import (
    BinaryVariationalBayes,
    BinaryVariationalState,
    divergence,
    expected_under,
)
from partwise.binary.model import KINDS, BinaryModel
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.engines import resolve_engine

ENGINE = resolve_engine()
SMALL = np.array([[1.0, 0.0, 1.0], [0.0, np.nan, 1.0], [0.0, 0.0, 1.0]])


def log_likelihood(kind: str, X: np.ndarray, activations: np.ndarray, dictionary: np.ndarray) -> float:
    ones = activations @ dictionary.T
    zeros = activations @ (1 - dictionary).T if kind == "dir-beta" else (1 - activations) @ dictionary.T
    return float(np.log(np.where(X == 1, ones, zeros))[~np.isnan(X)].sum())


def model_of(kind: Any, n_components: int = 3, least: float = 0.4) -> BinaryModel:
    own = np.linspace(1.0, 1.5, n_components)  # every component has priors of its own
    return BinaryModel(kind, n_components, 1.3 * own, least + 0.2, least * own, (least + 0.3) * own)


@pytest.mark.parametrize("kind", KINDS)
def test_bound_rises_and_stays_below_the_evidence(kind: str) -> None:
    model = model_of(kind)
    algorithm = BinaryVariationalBayes(model, ENGINE)
    bounds = run(algorithm, cells_of(SMALL, kind), key=Key(0), max_iter=200, progress=False).trace["objective"]
    assert np.all(np.diff(bounds) >= -1e-12 * np.abs(bounds[1:]))
    evidence = enumerate_posterior(model, SMALL).log_evidence
    assert evidence - 6 < bounds[-1] <= evidence


@pytest.mark.parametrize("kind", ["beta-dir", "dir-beta"])
def test_bound_is_the_evidence_of_one_component(kind: str) -> None:
    model = model_of(kind, 1)
    algorithm = BinaryVariationalBayes(model, ENGINE)
    bounds = run(algorithm, cells_of(SMALL, kind), key=Key(0), max_iter=3, progress=False).trace["objective"]
    assert np.isclose(bounds[-1], enumerate_posterior(model, SMALL).log_evidence, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_divergence_is_that_of_draws(kind: str) -> None:
    model = model_of(kind)
    rng = np.random.default_rng(0)
    n_draws = 20_000
    columns = rng.gamma(1.0, size=(2, 3))
    rows = rng.gamma(1.0, size=(2, 3) if kind == "dir-dir" else (2, 3, 2))
    priors = model.priors
    state = BinaryVariationalState(rows, columns, np.array(priors))
    total = np.zeros(n_draws)
    for row in columns:
        total += _log_ratio(rng, stats.dirichlet, n_draws, [priors.concentration + row], [priors.concentration])
    for row in rows:
        if kind == "dir-dir":
            own = priors.activation_concentration
            total += _log_ratio(rng, stats.dirichlet, n_draws, [own + row], [own])
        else:
            for (zeros, ones), alpha, beta in zip(row, priors.alpha, priors.beta, strict=True):
                total += _log_ratio(rng, stats.beta, n_draws, [alpha + ones, beta + zeros], [alpha, beta])
    # 4.5 standard errors: a false alarm in 150,000 seeds
    assert abs(total.mean() - divergence(model, state)) < 4.5 * total.std() / np.sqrt(n_draws)


def _log_ratio(
    rng: np.random.Generator, family: Any, n_draws: int, posterior: list[Any], prior: list[Any]
) -> np.ndarray:
    draws = family(*posterior).rvs(size=n_draws, random_state=rng)
    if draws.ndim == 2:
        draws = draws.T
    return family(*posterior).logpdf(draws) - family(*prior).logpdf(draws)


@pytest.mark.parametrize("kind", KINDS)
def test_bound_never_falls_on_real_sizes(kind: str) -> None:
    cells = cells_of(planted(1, 60, 30), kind)
    bounds = run(
        BinaryVariationalBayes(model_of(kind, 6), ENGINE), cells, key=Key(1), max_iter=150, progress=False
    ).trace["objective"]
    assert np.all(np.diff(bounds) >= -1e-11 * np.abs(bounds[1:]))
    assert bounds[-1] > bounds[0] + 50


def test_bound_is_finite_where_rows_are_long() -> None:
    # scaled weights of a column sum to more than 1, so that their product over a row of 2,000 cells overflows
    cells = cells_of(planted(5, 2000, 6), "dir-beta")
    trace = run(
        BinaryVariationalBayes(model_of("dir-beta", 12), ENGINE), cells, key=Key(0), max_iter=5, progress=False
    ).trace
    assert np.all(np.isfinite(trace["objective"]))
    assert np.all(np.diff(trace["objective"]) >= 0)


def test_tiny_concentrations_give_no_nan() -> None:
    model = BinaryModel("beta-dir", 50, 1e-4, 1e-4, 1e-6, 1e-6)
    for kind in KINDS:
        few = BinaryModel(kind, 50, model.alpha, model.beta, model.concentration, model.activation_concentration)
        result = run(
            BinaryVariationalBayes(few, ENGINE), cells_of(planted(), kind), key=Key(0), max_iter=30, progress=False
        )
        assert np.all(np.isfinite(result.trace["objective"]))
        assert np.all(np.isfinite(result.state.column_counts))


@pytest.mark.parametrize("use_priors", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_em_never_falls_and_says_the_truth(kind: str, use_priors: bool) -> None:
    X = planted(2)
    model = model_of(kind, 4, least=1.2)
    cells = cells_of(X, kind)
    result = run(ExpectationMaximisation(model, use_priors, ENGINE), cells, key=Key(0), max_iter=80, progress=False)
    _, objective = result.trace.evaluated("objective")
    assert np.all(np.diff(objective) >= -1e-11 * np.abs(objective[1:]))
    # a plain step tells the objective of the factors that the run ended with
    result.state.stride = 0.0
    _, info = ExpectationMaximisation(model, use_priors, ENGINE).step(Key(0), cells, result.state)
    rows, columns = result.state.rows, result.state.columns
    factors = (columns, rows) if kind == "dir-beta" else (rows, columns)
    truth = log_likelihood(kind, X, *factors) + (model.log_prior(*factors) if use_priors else 0.0)
    assert np.isclose(info["objective"], truth, rtol=1e-10)


def test_em_goes_beyond_and_gains_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, cells = ExpectationMaximisation(model_of("beta-dir", 6), False, ENGINE), cells_of(planted(4, 120, 60))
    fast = run(algorithm, cells, key=Key(0), max_iter=60, progress=False).trace["objective"]
    assert np.isnan(fast).any()  # some points are rejected
    monkeypatch.setattr("partwise.binary.inference.em._FIRST_STRIDE", 0.0)
    slow = run(algorithm, cells, key=Key(0), max_iter=60, progress=False).trace["objective"]
    assert np.nanmax(fast[:40]) > slow[59]


def test_empty_rows_and_columns_keep_em_finite() -> None:
    X = np.ones((5, 4))
    X[2], X[:, 1] = np.nan, np.nan
    for kind in KINDS:
        state = run(
            ExpectationMaximisation(model_of(kind, 2), False, ENGINE),
            cells_of(X, kind),
            key=Key(0),
            max_iter=20,
            progress=False,
        ).state
        assert np.all(np.isfinite(state.rows))
        assert np.all(np.isfinite(state.columns))


def exact_activations(model: BinaryModel, row: np.ndarray, dictionary: np.ndarray) -> np.ndarray:
    """E[h | row, dictionary] by listing all labels of one row; for Dir-Dir the second labels."""
    seen = np.flatnonzero(~np.isnan(row))
    n_components = model.n_components
    logs, means = [], []
    for labels in itertools.product(range(n_components), repeat=seen.size):
        counts = np.zeros((n_components, 2))
        weight = 0.0
        for f, k in zip(seen, labels, strict=True):
            counts[k, int(row[f])] += 1
            w = dictionary[f, k]
            weight += np.log(w if row[f] or model.kind == "beta-dir" else 1 - w)
        if model.kind == "beta-dir":
            ones, zeros = model.priors.alpha + counts[:, 1], model.priors.beta + counts[:, 0]
            weight += (gammaln(ones) + gammaln(zeros) - gammaln(ones + zeros)).sum()
            means.append(ones / (ones + zeros))
        else:
            priors = model.priors
            own = priors.concentration if model.kind == "dir-beta" else priors.activation_concentration
            parameters = own + counts.sum(axis=1)
            weight += gammaln(parameters).sum()
            means.append(parameters / parameters.sum())
        logs.append(weight)
    shares = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
    return shares @ np.array(means)


@pytest.mark.parametrize("kind", KINDS)
def test_activations_of_a_row_given_the_dictionary(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    model = model_of(kind, 3)
    dictionary = rng.random((6, 3)) if kind == "dir-beta" else rng.dirichlet(np.ones(3), size=6)
    row = np.array([[1.0, 0.0, np.nan, 1.0, 1.0, 0.0]])
    exact = exact_activations(model, row[0], dictionary)
    monkeypatch.setattr("partwise.binary.inference.activations.N_DRAWS", 40_000)
    data = BinaryMatrix.build(row)
    found = activations_of(data, model, dictionary, "sample", ENGINE)[0]
    # autocorrelation makes 40,000 draws worth some 10,000, of means with standard deviations below 0.2
    np.testing.assert_allclose(found, exact, atol=0.01)
    variational = activations_of(data, model, dictionary, "variational", ENGINE)[0]
    np.testing.assert_allclose(variational, exact, atol=0.12)


@pytest.mark.parametrize("kind", KINDS)
def test_maximum_likelihood_activations_are_an_optimum(kind: str) -> None:
    rng = np.random.default_rng(1)
    model = BinaryModel(kind, 3, 0.0, 0.0, 0.0, 0.0)  # type: ignore[arg-type]  # no prior
    dictionary = rng.random((12, 3)) if kind == "dir-beta" else rng.dirichlet(np.ones(3), size=12)
    row = (rng.random((1, 12)) < 0.5).astype(float)
    row[0, 3] = np.nan
    data = BinaryMatrix.build(row)
    found = activations_of(data, model, dictionary, "mode", ENGINE)
    reached = log_likelihood(kind, row, found, dictionary)

    def loss(free: np.ndarray) -> float:
        h = 1 / (1 + np.exp(-free)) if kind == "beta-dir" else np.exp(free) / np.exp(free).sum()
        return -log_likelihood(kind, row, h[None, :], dictionary)

    best = min(
        minimize(loss, rng.normal(size=3), method="Nelder-Mead", options={"maxiter": 2000}).fun for _ in range(3)
    )
    assert reached >= -best - 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_batches_reach_about_the_same_bound(kind: str) -> None:
    X = planted(3, 120, 20)
    model = model_of(kind, 3)
    data = BinaryMatrix.build(X)
    whole = run(BinaryVariationalBayes(model, ENGINE), Cells.of(data, kind), key=Key(0), max_iter=200, progress=False)
    state = run(StochasticVariational(model, 30, ENGINE), data, key=Key(0), max_iter=30, progress=False).state
    # the dictionary of the batches, and the activations that it gives all samples, in the bound of the whole
    counts, _ = batch_counts(model, state.averages * 120, data, ENGINE)
    whole_state = whole.state
    name = "row_counts" if kind == "dir-beta" else "column_counts"
    setattr(whole_state, name, counts)
    other = "column_counts" if kind == "dir-beta" else "row_counts"
    for _ in range(50):
        found, scale = expected_under(model, Cells.of(data, kind), whole_state, ENGINE)
        bound = found.log_normaliser + scale - divergence(model, whole_state)
        setattr(whole_state, other, found.columns if kind == "dir-beta" else found.rows)
    assert bound > whole.trace["objective"][-1] - 0.02 * abs(whole.trace["objective"][-1])
