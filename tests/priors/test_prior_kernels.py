"""Compiled pieces of the families against the NumPy lines of their docstrings."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import gammaln, xlogy
from scipy.stats import nbinom, poisson

from partwise.priors.kernels.columns import all_whole, evidence_columns, likelihood_from_logs, rate_extremes
from partwise.priors.kernels.near import ROWS
from partwise.priors.kernels.newton import eigen, newton_step
from partwise.priors.kernels.posterior import mixture_divergence, prior_total
from partwise.priors.kernels.quadratic import nonnegative_minimum, pivoted_minimum, solve
from partwise.priors.kernels.weights import (
    best_weights,
    block_maxima,
    gram,
    line_search,
    log_mean,
    make_feasible,
    mixed_columns,
    working_set,
)

Floats = NDArray[np.float64]


def likelihoods(rng: np.random.Generator, n_rows: int = 2 * ROWS + 70, n_columns: int = 9) -> Floats:
    """Rows ordered by where they are highest, so that some columns are nothing in some blocks."""
    places = np.linspace(0.0, 8.0, n_rows)[:, None]
    return np.asfortranarray(np.exp(-((places - np.arange(n_columns)) ** 2) * rng.uniform(1.0, 9.0, n_columns)))


@pytest.mark.parametrize("one", [True, False], ids=["one exposure", "many"])
def test_evidence_columns(one: bool, rng: np.random.Generator) -> None:
    counts = np.concatenate(([0.0, 0.0, 1.0], rng.poisson(5.0, 40)))
    exposure = np.array([1.7]) if one else np.concatenate(([0.0], rng.gamma(2.0, 1.0, 42)))
    shapes, means = np.array([0.1, 1.0, 1.0, 500.0, np.inf]), np.array([2.0, 1e-6, 3.0, 40.0, 7.0])
    out = np.empty((43, 5), order="F")
    evidence_columns(counts, exposure, shapes, means, out)
    saturated = xlogy(counts, counts) - counts - gammaln(counts + 1.0)
    rates = np.broadcast_to(exposure, counts.shape)
    for j in range(5):
        expected = rates * means[j]
        plain = (
            poisson.logpmf(counts, expected)
            if shapes[j] == np.inf
            else nbinom.logpmf(counts, shapes[j], shapes[j] / (shapes[j] + expected))
        )
        np.testing.assert_allclose(out[:, j], plain - saturated, rtol=1e-10, atol=1e-10)


def test_likelihood_from_logs(rng: np.random.Generator) -> None:
    logs = np.asfortranarray(-rng.gamma(0.3, 300.0, (500, 7)))
    plain = np.exp(logs - logs.max(axis=1)[:, None])
    found = logs.copy(order="F")
    largest = np.empty(500)
    likelihood_from_logs(found, largest)
    np.testing.assert_array_equal(largest, logs.max(axis=1))
    # Below exp(-708) it is 0, as subnormal numbers are no use.
    np.testing.assert_allclose(found, np.where(plain > 3.4e-308, plain, 0.0), rtol=5e-16)
    assert (found.max(axis=1) == 1.0).all()
    assert (plain == 0).any()


def test_rates_and_whole_numbers() -> None:
    counts, exposure = np.array([0.0, 6.0, 1.0, 0.0]), np.array([1.0, 2.0, 4.0, 0.0])
    assert rate_extremes(counts, exposure) == (0.25, 3.0, True)
    assert rate_extremes(counts, np.array([2.0])) == (0.5, 3.0, True)
    assert rate_extremes(np.zeros(3), np.ones(1)) == (np.inf, 0.0, True)
    assert all_whole(np.array([0.0, 3.0, 1e300]))
    assert not all_whole(np.array([0.0, 3.0, 0.5]))


def test_divergence_and_total(rng: np.random.Generator) -> None:
    counts = np.append(rng.gamma(1.0, 3.0, 20), 0.0)
    mean, mean_log, relative = rng.gamma(1.0, 1.0, (3, 21))
    mean_log[-1] = -np.inf
    for exposure in (np.array([2.0]), rng.gamma(2.0, 1.0, 21)):
        out = np.empty(21)
        found = mixture_divergence(counts, exposure, mean, mean_log, relative, out)
        logs = counts[:-1] * (mean_log[:-1] + np.log(np.broadcast_to(exposure, 21)[:-1]) - np.log(counts[:-1]) + 1.0)
        assert found == pytest.approx(logs.sum() - np.sum(exposure * mean + relative), rel=1e-12)
        np.testing.assert_allclose(out, np.exp(mean_log), rtol=1e-15)
    assert prior_total(np.array([0.5, 1.0]), np.array([1.0, np.inf]), np.array([0.0, 3.0])) == 1.5
    for wrong in (([-1.0], [1.0], [1.0]), ([1.0], [0.0], [1.0]), ([1.0], [1.0], [np.inf]), ([1.0], [np.nan], [1.0])):
        assert np.isnan(prior_total(*(np.array(part) for part in wrong)))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_eigenvectors_and_newton_steps(size: int, rng: np.random.Generator) -> None:
    for scale in (1.0, 1e-8, 1e12):
        root = rng.normal(size=(size, size)) * scale ** rng.uniform(size=size)
        matrix = root + root.T
        diagonal, vectors = matrix.copy(), np.empty((size, size))
        eigen(diagonal, vectors)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(size), atol=1e-13)
        np.testing.assert_allclose(
            np.sort(np.diag(diagonal)), np.linalg.eigvalsh(matrix), atol=1e-13 * abs(matrix).max()
        )
        np.testing.assert_allclose((vectors * np.diag(diagonal)) @ vectors.T, matrix, atol=1e-13 * abs(matrix).max())
    hessian, gradient, step = matrix / scale, rng.normal(size=size), np.empty(size)
    newton_step(gradient, hessian, step)
    values, vectors = np.linalg.eigh(hessian)
    plain = vectors @ np.clip((vectors.T @ gradient) / np.abs(values), -3.0, 3.0)
    np.testing.assert_allclose(step, plain, rtol=1e-6, atol=1e-6)
    assert gradient @ step > 0


def test_sums_over_columns(rng: np.random.Generator) -> None:
    columns = likelihoods(rng)
    n_rows, n_columns = columns.shape
    weights, share = rng.dirichlet(np.ones(n_columns)), rng.dirichlet(np.ones(n_rows))
    weights[3] = 0.0
    mixed = np.empty(n_rows)
    maxima = np.empty((3, n_columns))
    block_maxima(columns, maxima)
    mixed_columns(columns, maxima, weights, mixed)
    np.testing.assert_allclose(mixed, columns @ weights, rtol=1e-12)
    assert log_mean(share, mixed) == pytest.approx(share @ np.log(mixed), rel=1e-12)
    edges = [0, ROWS, 2 * ROWS, n_rows]
    np.testing.assert_array_equal(maxima, [columns[a:b].max(axis=0) for a, b in pairwise(edges)])
    assert (maxima < 1e-14).any()
    working, out = np.array([0, 2, 5, 8]), np.empty((4, 4))
    gram(columns, maxima, working, share, out)
    scaled = share[:, None] * columns[:, working]
    np.testing.assert_allclose(out, scaled.T @ scaled, rtol=1e-12, atol=1e-14 * np.max(scaled.T @ scaled))


def test_nonnegative_minimum_is_that_of_least_squares(rng: np.random.Generator) -> None:
    ends = 0
    for trial in range(40):
        size = 1 + trial % 9
        root, target = rng.normal(size=(2 * size, size)), rng.normal(size=2 * size)
        matrix, vector, out = root.T @ root, root.T @ target, np.empty(size)
        nonnegative_minimum(matrix, vector, rng.uniform(size=size) < 0.5, out)
        plain = nnls(root, target)[0]
        np.testing.assert_allclose(out, plain, atol=1e-9)
        ends += int((plain == 0).sum())
        lower, solution = np.empty((size, size)), np.empty(size)
        inside = np.arange(0, size, 2)
        solve(matrix, 0.1, vector, inside, lower, solution)
        regular = (matrix + 0.1 * np.diag(np.diag(matrix)))[np.ix_(inside, inside)]
        np.testing.assert_allclose(solution[: inside.size], np.linalg.solve(regular, vector[inside]), rtol=1e-9)
    assert ends > 40


@pytest.mark.parametrize(("size", "ends"), [(40, True), (120, False)])
def test_exchanging_whole_active_sets(size: int, ends: bool, rng: np.random.Generator) -> None:
    # Neighbours overlap, as components of a grid do. On a fine one the exchange goes in circles, and one at a time must
    # do. The minimum is the same from either side.
    root = np.exp(-2.0 * (np.linspace(-2.0, 32.0, 400)[:, None] - np.linspace(0.0, 30.0, size)) ** 2)
    matrix, vector = root.T @ root + 1e-6 * np.eye(size), root.T @ rng.gamma(0.3, 1.0, 400)
    out, lower, free = np.empty(size), np.empty((size, size)), rng.random(size) < 0.5
    assert pivoted_minimum(matrix, vector, 0.0, 1e-12, free.copy(), lower, out) == ends
    nonnegative_minimum(matrix, vector, free, out)
    assert 5 < free.sum() < 0.9 * size
    assert out.min() >= 0
    slopes = vector - matrix @ out
    np.testing.assert_allclose(slopes[free], 0.0, atol=1e-6)
    assert slopes[~free].max() <= 1e-6


def test_rare_components_do_not_slow_the_others() -> None:
    # 60 frequent rows that share wide components, and 40 rare ones with a component each.
    rows, places = np.linspace(0.0, 6.0, 60), np.linspace(0.0, 6.0, 25)
    columns = np.zeros((100, 65), order="F")
    columns[:60, :25] = np.exp(-0.5 * (rows[:, None] - places) ** 2)
    columns[60:, 25:] = np.eye(40)
    share, weights, out = np.append(np.full(60, 1.0), np.full(40, 1e-6)), np.full(65, 1.0 / 65), np.empty(3)
    best_weights(columns, share / share.sum(), 1e-10, weights, out)
    assert out[1] <= 1e-10
    assert out[2] < 30
    np.testing.assert_allclose(weights[25:], 1e-6 / share.sum(), rtol=1e-3)


def test_equal_columns_do_no_harm() -> None:
    matrix, out = np.ones((3, 3)), np.empty(3)
    nonnegative_minimum(matrix, np.ones(3), np.ones(3, dtype=np.bool_), out)
    assert out.sum() == pytest.approx(1.0, rel=1e-6)
    assert (out >= 0).all()


def test_working_set() -> None:
    weights = np.array([0.0, 0.5, 0.0, 0.0, 0.5, 0.0])
    gradient = np.array([1.2, 1.0, 0.9, 1.3, 1.0, 0.99])
    out = np.empty(6, dtype=np.int64)
    assert out[: working_set(weights, gradient, out)].tolist() == [0, 1, 3, 4]
    # Of many peaks, the thirty highest.
    peaks = np.tile([1.0, 0.5], 60) + np.linspace(0.1, 0.2, 120)
    out = np.empty(120, dtype=np.int64)
    assert out[: working_set(np.zeros(120), peaks, out)].tolist() == list(range(60, 120, 2))


def test_line_search_goes_up_or_stays(rng: np.random.Generator) -> None:
    columns = likelihoods(rng)
    share = np.full(columns.shape[0], 1.0 / columns.shape[0])
    weights = np.full(9, 1.0 / 9.0)
    mixed = columns @ weights
    value = log_mean(share, mixed)
    better = weights * (columns.T @ (share / mixed))
    after, mixed_after, trial = weights.copy(), mixed.copy(), np.empty(mixed.size)
    found = line_search(share, value, better, columns @ better, after, mixed_after, trial)
    assert found > value
    assert after.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(mixed_after, columns @ after, rtol=1e-9)
    worse = np.eye(9)[0]
    stayed, mixed_stayed = after.copy(), mixed_after.copy()
    again = line_search(share, found, worse, columns @ worse, stayed, mixed_stayed, trial)
    assert again > found or (again == -np.inf and np.array_equal(stayed, after))


def test_rows_without_likelihood_get_some(rng: np.random.Generator) -> None:
    columns = likelihoods(rng)
    weights, mixed = np.eye(9)[0], np.empty(columns.shape[0])
    share, maxima = np.full(mixed.size, 1.0 / mixed.size), np.empty((3, 9))
    block_maxima(columns, maxima)
    assert (columns @ weights).min() < 1e-12
    make_feasible(columns, maxima, share, weights, mixed)
    # No row has less than about what the best weights give it, and those that had more keep nearly all of it.
    assert mixed.min() > 0.2 * share[0]
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(mixed, columns @ weights, rtol=1e-12)
