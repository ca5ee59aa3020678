"""The negative multinomial distribution against its definition and its special cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from partwise.errors import InvalidInputError
from partwise.gamma_poisson import NegativeMultinomial


def test_one_kind_is_the_negative_binomial() -> None:
    ours, theirs = NegativeMultinomial(1.7, [0.4]), stats.nbinom(1.7, 0.6)
    counts = np.arange(30)
    np.testing.assert_allclose(ours.logpmf(counts[:, None]), theirs.logpmf(counts), rtol=1e-12)
    np.testing.assert_allclose(ours.mean(), theirs.mean())
    np.testing.assert_allclose(ours.cov(), [[theirs.var()]])


@pytest.mark.parametrize("x", [(0, 0), (3, 0), (2, 5)])
def test_is_a_gamma_mixture_of_poissons(x: tuple[int, int]) -> None:
    shape, weights, rate = 0.7, np.array([2.0, 0.5]), 1.3

    def integrand(level: float) -> float:
        return float(stats.poisson.pmf(x, weights * level).prod() * stats.gamma.pdf(level, shape, scale=1 / rate))

    expected, _ = quad(integrand, 0, np.inf, epsabs=1e-13)
    assert NegativeMultinomial.of_rates(shape, weights, rate).pmf(x) == pytest.approx(expected, rel=1e-7)


def test_sums_to_one_with_the_stated_moments() -> None:
    distribution = NegativeMultinomial(2.5, [0.2, 0.1, 0.15])
    grid = np.array(list(itertools.product(range(40), repeat=3)))
    weights = distribution.pmf(grid)
    assert weights.sum() == pytest.approx(1.0, abs=1e-9)
    mean = weights @ grid
    np.testing.assert_allclose(distribution.mean(), mean, rtol=1e-7)
    np.testing.assert_allclose(distribution.cov(), (grid.T * weights) @ grid - np.outer(mean, mean), rtol=1e-6)


def test_draws_follow_the_probabilities() -> None:
    distribution = NegativeMultinomial(0.8, [0.3, 0.25])
    draws = distribution.rvs(20_000, random_state=0)
    assert distribution.rvs(random_state=0).shape == (2,)
    assert distribution.rvs((3, 4), random_state=0).shape == (3, 4, 2)
    np.testing.assert_array_equal(draws, distribution.rvs(20_000, random_state=0))
    cells = list(itertools.product(range(4), repeat=2))
    expected = np.array([distribution.pmf(cell) for cell in cells])
    seen = np.array([np.all(draws == cell, axis=1).sum() for cell in cells])
    # False alarm: one in a million.
    test = stats.chisquare([*seen, 20_000 - seen.sum()], 20_000 * np.append(expected, 1 - expected.sum()))
    assert test.pvalue > 1e-6


def test_outside_the_support() -> None:
    distribution = NegativeMultinomial(1.0, [0.5, 0.0])
    assert distribution.logpmf([-1, 0]) == -np.inf
    assert distribution.logpmf([0.5, 0]) == -np.inf
    assert distribution.logpmf([0, 1]) == -np.inf
    assert distribution.logpmf([np.inf, 0]) == -np.inf
    np.testing.assert_allclose(distribution.pmf([[0, 0], [1, 0]]), [0.5, 0.25])


def test_large_weights_keep_their_digits() -> None:
    distribution = NegativeMultinomial.of_rates(1.0, [1e18, 1e18], 1.0)
    assert distribution.logpmf([0, 0]) == pytest.approx(-np.log(2e18), rel=1e-14)
    np.testing.assert_allclose(distribution.mean(), [1e18, 1e18])


@pytest.mark.parametrize(
    ("shape", "probabilities"), [(0.0, [0.5]), (np.nan, [0.5]), (1.0, [0.5, 0.5]), (1.0, [-0.1]), (1.0, []), (1.0, 0.3)]
)
def test_bad_parameters(shape: float, probabilities: object) -> None:
    with pytest.raises(InvalidInputError):
        NegativeMultinomial(shape, probabilities)


def test_wrong_number_of_counts() -> None:
    with pytest.raises(InvalidInputError, match="2 counts along its last axis"):
        NegativeMultinomial(1.0, [0.2, 0.2]).logpmf([1, 2, 3])
