"""The posterior under one gamma distribution against its NumPy lines, and against the mixture that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma, gammaln, polygamma

from partwise.priors.base import Fixed
from partwise.priors.families import resolve_family
from partwise.priors.kernels.posterior import gamma_posterior
from partwise.priors.mixture import GammaMixture


@pytest.mark.parametrize("shape", [1e-3, 0.07, 1.0, 30.0, 999.0])
@pytest.mark.parametrize("one", [True, False])
def test_kernel_is_its_numpy_lines(shape: float, one: bool, rng: np.random.Generator) -> None:
    x = np.concatenate(([0.0], 10 ** rng.uniform(-9.0, 3.0, 300), shape * np.array([0.99e-4, 1.01e-4])))
    s = np.array([1.7]) if one else rng.gamma(2.0, 1.0, x.size)
    mean, geometric = np.empty((2, x.size))
    series = polygamma(np.arange(4), shape)
    found = gamma_posterior((x, s), (shape, 2.3), (float(gammaln(shape)), series), mean, geometric)
    r = shape / 2.3 + s
    np.testing.assert_allclose(mean, (shape + x) / r, rtol=1e-13)
    np.testing.assert_allclose(geometric, np.exp(digamma(shape + x)) / r, rtol=2e-12)
    logs = x * digamma(shape + x) - gammaln(shape + x) + gammaln(shape)
    expected = np.sum(logs + shape * np.log(r * 2.3 / shape) - s * mean)
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("shape", [0.07, 30.0, 1e7, np.inf])
def test_summary_of_one_gamma_is_that_of_two_halves(shape: float, rng: np.random.Generator) -> None:
    x, s = rng.gamma(0.3, 10.0, 100), np.array([0.7])
    one = GammaMixture([1.0], [shape], [2.0]).summary(x, s)
    halves = GammaMixture([0.5, 0.5], [shape, shape], [2.0, 2.0]).summary(x, s)
    np.testing.assert_allclose(one[0], halves[0], rtol=1e-12)
    np.testing.assert_allclose(one[1], halves[1], rtol=1e-11)
    assert one[2] == pytest.approx(halves[2], rel=1e-9, abs=1e-6)


def test_divergence_is_evidence_less_expected_log_likelihood() -> None:
    prior = GammaMixture([0.3, 0.5, 0.2], [0.5, np.inf, 4.0], [1.0, 2.0, 6.0])
    x, s = np.array([0.0, 0.4, 3.0, 50.0]), np.array([0.5, 2.0, 1.0, 4.0])
    mean, geometric, divergence = prior.summary(x, s)
    posterior = prior.posterior(x, s)
    expected = np.sum(x * (posterior.mean_log + np.log(s)) - s * posterior.mean - gammaln(x + 1.0))
    assert divergence == pytest.approx(expected - posterior.log_evidence, rel=1e-10)
    np.testing.assert_array_equal(mean, posterior.mean)
    np.testing.assert_allclose(geometric, np.exp(posterior.mean_log), rtol=1e-14)


def test_a_prior_as_an_array_is_the_prior() -> None:
    prior = GammaMixture([0.3, 0.7], [0.5, np.inf], [1.0, 2.0])
    family = resolve_family(np.asarray(prior))
    assert isinstance(family, Fixed)
    again = family.prior
    assert isinstance(again, GammaMixture)
    np.testing.assert_array_equal(again.pack(), prior.pack())


def test_draws_from_the_prior() -> None:
    prior = GammaMixture([0.25, 0.75], [2.0, np.inf], [4.0, 1.0])
    drawn = prior.draw(20_000, np.random.default_rng(0))
    # 5 standard errors of the mean, and of the share of the point
    assert abs(drawn.mean() - prior.mean) < 5 * drawn.std() / np.sqrt(drawn.size)
    assert abs(np.mean(drawn == 1.0) - 0.75) < 5 * np.sqrt(0.1875 / drawn.size)
