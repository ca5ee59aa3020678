"""Mixtures of gammas and points: their posterior against quadrature, their quantiles and draws against each other."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from rate_sets import rate_sets
from scipy.special import digamma, gammaln
from scipy.stats import gamma, kstest

from partwise import ebpm
from partwise.errors import InvalidInputError
from partwise.priors.components import PosteriorComponents
from partwise.priors.families import FAMILIES
from partwise.priors.gamma import GammaFamily
from partwise.priors.kernels.posterior import mixture_posterior, mixture_shares
from partwise.priors.mixture import GammaMixture, saturated

Floats = NDArray[np.float64]

PRIORS = {
    "gamma": GammaMixture.gamma(0.7, 0.3),
    "narrow": GammaMixture([1.0], [1e9], [4.0]),
    "small shape": GammaMixture([1.0], [0.05], [4.0]),
    "points": GammaMixture.points([0.0, 0.5, 3.0, 9.0], [0.4, 0.3, 0.2, 0.1]),
    "both": GammaMixture([0.2, 0.3, 0.1, 0.4], [np.inf, 2.0, np.inf, 0.3], [0.0, 1.0, 5.0, 30.0]),
    "one shape": GammaMixture(np.ones(6), np.ones(6), np.geomspace(0.01, 50.0, 6)),
}


def quadrature(prior: GammaMixture, x: float, s: float) -> tuple[float, float, float, float]:
    """Evidence, mean, second moment and mean log of the rate behind one count; Simpson's rule on log λ, and sums."""
    evidence = first = second = logs = 0.0
    for weight, shape, mean in zip(prior.weights, prior.shapes, prior.means, strict=True):
        if shape == np.inf or mean == 0:
            rates, masses = np.array([mean]), np.array([weight])
        else:
            top = np.log((shape + x + 12.0 * np.sqrt(shape + x) + 60.0) / (shape / mean + s))
            width = 80.0 / (shape + x) + 3.0
            if shape > 100:
                centre = np.log((shape + x) / (shape / mean + s))
                width = 24.0 / np.sqrt(shape + x)
                top = centre + 0.5 * width
            u, step = np.linspace(top - width, top, 200_001, retstep=True)
            simpson = np.full(u.size, 2.0)
            simpson[1::2], simpson[0], simpson[-1] = 4.0, 1.0, 1.0
            rates = np.exp(u)
            v = u - np.log(mean)
            masses = np.exp(shape * (v - np.expm1(v))) * simpson * step / 3.0
            # A narrow density by its own sum: its constant would cancel with many digits.
            constant = np.exp(shape * np.log(shape) - shape - gammaln(shape)) if shape <= 100 else 1.0 / masses.sum()
            masses *= weight * constant
        if mean == 0:
            evidence += weight * (x == 0)
            logs -= np.inf if x == 0 and weight > 0 else 0.0
            continue
        log_rates = u if shape < np.inf else np.log(rates)
        likelihood = np.exp(x * (np.log(s) + log_rates) - s * rates - gammaln(x + 1.0))
        evidence += float(masses @ likelihood)
        first += float(masses @ (likelihood * rates))
        second += float(masses @ (likelihood * rates**2))
        logs += float(masses @ (likelihood * log_rates))
    return evidence, first / evidence, second / evidence, logs / evidence


def check_quadrature(prior: GammaMixture, x: float, s: float) -> None:
    evidence, mean, second, mean_log = quadrature(prior, x, s)
    counts, exposure = np.array([x]), np.array([s])
    posterior = prior.posterior(counts, exposure)
    assert posterior.log_evidence == pytest.approx(np.log(evidence), rel=1e-8, abs=1e-8)
    assert posterior.mean[0] == pytest.approx(mean, rel=1e-8)
    assert posterior.mean_log[0] == pytest.approx(mean_log, rel=1e-8, abs=1e-8)
    variance = prior.components(counts, exposure).variance()[0]
    assert variance == pytest.approx(second - mean**2, rel=1e-6, abs=1e-8 * second)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize(("x", "s"), [(0.0, 1.0), (0.3, 2.0), (4.0, 0.5), (37.0, 3.0), (2.5, 40.0)])
def test_posterior_agrees_with_quadrature(prior: GammaMixture, x: float, s: float) -> None:
    check_quadrature(prior, x, s)


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES if kind != "flat"])
def test_fitted_posteriors_agree_with_quadrature(kind: str) -> None:
    # Sets 9 to 17 of a seed: one of each kind of rates.
    for rates in list(rate_sets(18, 11))[9:]:
        prior = ebpm(rates.counts, rates.exposure, kind).prior
        assert isinstance(prior, GammaMixture)
        for i in {0, rates.counts.size // 2}:
            # Means of 1e-10 stand for nothing, and the quadrature has no digits there.
            if prior.means.max() > 1e-6 and rates.counts[i] < 1e3:
                check_quadrature(prior, float(rates.counts[i]), float(rates.exposure[i]))


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_kernels_are_what_their_docstrings_say(prior: GammaMixture, rng: np.random.Generator) -> None:
    counts = np.concatenate((np.zeros(3), rng.poisson(4.0, size=7), rng.gamma(0.5, 3.0, size=5)))
    exposure = rng.gamma(2.0, 1.0, size=15)
    weights, shapes, means = prior.weights, prior.shapes, prior.means
    shares = np.empty((15, weights.size))
    mixture_shares(counts, exposure, weights, shapes, means, shares)
    mean, mean_log, evidence = np.empty((3, 15))
    mixture_posterior((counts, exposure), (weights, shapes, means), (mean, mean_log, evidence))
    points = np.isinf(shapes) | (means == 0)
    rate = np.where(points, 1.0, shapes / np.where(points, 1.0, means)) + np.where(points, 0.0, exposure[:, None])
    safe = np.where(points, 1.0, shapes + counts[:, None])
    part_means = np.where(points, means, safe / rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(points, np.log(np.broadcast_to(means, shares.shape)), digamma(safe) - np.log(rate))
        expected_log = np.sum(np.where(shares > 0, shares * logs, 0.0), axis=1)
    np.testing.assert_allclose(mean, np.sum(shares * part_means, axis=1), rtol=1e-10)
    np.testing.assert_allclose(mean_log, expected_log, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    one_by_one = [prior.log_evidence(counts[i : i + 1], exposure[i : i + 1]) for i in range(15)]
    np.testing.assert_allclose(evidence + saturated(counts), one_by_one, rtol=1e-12, atol=1e-12)


def test_far_points_and_equal_counts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    prior = GammaMixture.points(np.append(0.0, np.exp(np.sort(rng.normal(0.0, 6.0, 200)))), rng.gamma(0.1, 1.0, 201))
    s = 10.0 ** rng.integers(-4, 5, 2000)
    x = rng.poisson(s * np.exp(rng.normal(0.0, 2.0, 2000))).astype(np.float64)
    found = prior.posterior(x, s)
    # Points out of order have no neighbours: all are looked at.
    shuffled = rng.permutation(201)
    plain = GammaMixture.points(prior.means[shuffled], prior.weights[shuffled]).posterior(x, s)
    np.testing.assert_allclose(found.mean, plain.mean, rtol=1e-13)
    np.testing.assert_allclose(found.mean_log, plain.mean_log, rtol=1e-12)
    assert found.log_evidence == pytest.approx(plain.log_evidence, rel=1e-14)
    monkeypatch.setattr("partwise.priors.mixture._MANY", 0.0)
    again = prior.posterior(x, s)
    np.testing.assert_array_equal(again.mean, found.mean)
    np.testing.assert_array_equal(again.mean_log, found.mean_log)


def test_huge_counts_and_shapes() -> None:
    prior = GammaMixture([0.5, 0.5], [1e12, 3.0], [1e6, 2e5])
    posterior = prior.posterior(np.array([1e6, 1e9]), np.ones(1))
    assert np.isfinite([posterior.mean, posterior.mean_log]).all()
    assert posterior.mean[0] == pytest.approx(1e6, rel=1e-3)
    assert posterior.mean[1] == pytest.approx(1e9, rel=1e-3)


def test_a_count_that_no_component_allows() -> None:
    zero = GammaMixture.points([0.0])
    posterior = zero.posterior(np.array([0.0, 2.0]), np.ones(1))
    assert posterior.mean.tolist() == [0.0, 0.0]
    assert posterior.log_evidence == -np.inf
    assert np.array_equal(posterior.mean_log, [-np.inf, -np.inf])


def test_posterior_keeps_the_shape_of_its_arguments(rng: np.random.Generator) -> None:
    counts, exposure = rng.poisson(3.0, size=(4, 3)).astype(np.float64), rng.gamma(1.0, size=3)
    prior = PRIORS["both"]
    together = prior.posterior(counts, exposure)
    assert together.mean.shape == together.mean_log.shape == (4, 3)
    apart = [prior.posterior(counts[:, k], exposure[k : k + 1]) for k in range(3)]
    np.testing.assert_array_equal(together.mean, np.stack([part.mean for part in apart], axis=1))
    assert together.log_evidence == pytest.approx(sum(part.log_evidence for part in apart), rel=1e-12)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_quantiles_invert_the_distribution(prior: GammaMixture) -> None:
    counts = np.array([0.0, 1.0, 2.5, 30.0])
    components = prior.components(counts, np.array([1.3]))
    for level in (0.001, 0.05, 0.5, 0.9, 0.999):
        quantile = components.quantile(level)
        reached, _ = components.distribution(quantile)
        before, _ = components.distribution(np.nextafter(quantile * (1 - 1e-12), 0.0))
        assert np.all(reached >= level - 1e-10)
        assert np.all((before <= level + 1e-10) | (quantile == 0) | (quantile < 1e-290))


def test_quantiles_of_one_gamma_are_its_own() -> None:
    counts = np.array([0.0, 3.0, 100.0])
    components = GammaMixture.gamma(2.0, 0.5).components(counts, np.array([4.0]))
    for level in (0.025, 0.5, 0.975):
        np.testing.assert_allclose(
            components.quantile(level), gamma.ppf(level, 2.0 + counts, scale=1 / 4.5), rtol=1e-10
        )


def test_quantiles_of_points_are_points() -> None:
    prior = PRIORS["points"]
    quantiles = prior.components(np.zeros(1), np.array([0.1])).quantile(0.6)
    assert quantiles[0] in prior.means


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_draws_follow_the_posterior(prior: GammaMixture) -> None:
    # Means at 5 standard errors: a false alarm in a million; Kolmogorov and Smirnov where there are no points, at 1e-4.
    counts = np.array([0.0, 3.0])
    components = prior.components(counts, np.array([0.8]))
    draws = components.draw(20_000, np.random.default_rng(3))
    posterior = prior.posterior(counts, np.array([0.8]))
    errors = np.sqrt(components.variance() / draws.shape[0])
    assert np.all(np.abs(draws.mean(axis=0) - posterior.mean) <= 5 * errors + 1e-9 * posterior.mean)
    if not (np.isinf(prior.shapes) | (prior.means == 0)).any():
        one = PosteriorComponents(
            *(part[1:] for part in (components.shares, components.shapes, components.rates, components.means))
        )
        result = kstest(
            draws[:, 1], lambda rates: np.array([one.distribution(np.array([rate]))[0][0] for rate in rates])
        )
        assert result.pvalue > 1e-4


def test_prior_as_numbers() -> None:
    prior = PRIORS["both"]
    again = GammaFamily().unpack(prior.pack())
    for name in ("weights", "shapes", "means"):
        np.testing.assert_array_equal(getattr(again, name), getattr(prior, name))
    assert GammaMixture([2.0, 2.0], [1.0, 1.0], [1.0, 3.0]).mean == 2.0
    assert prior.scaled(3.0).mean == pytest.approx(3.0 * prior.mean)
    assert GammaMixture([0.0, 1.0], [1.0, 2.0], [1.0, 3.0]).support.shapes.tolist() == [2.0]


@pytest.mark.parametrize(
    ("weights", "shapes", "means", "message"),
    [
        ([1.0, 1.0], [1.0], [1.0, 2.0], "as many weights as shapes"),
        ([-1.0], [1.0], [1.0], "weights of a prior must be nonnegative"),
        ([0.0], [1.0], [1.0], "positive, finite sum"),
        ([1.0], [0.0], [1.0], "positive shapes"),
        ([1.0], [1.0], [np.inf], "finite means"),
        ([1.0], [np.nan], [1.0], "shapes of a prior"),
    ],
)
def test_bad_priors_are_refused(weights: list[float], shapes: list[float], means: list[float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        GammaMixture(weights, shapes, means)


@pytest.mark.parametrize("x", [3.0, 2e5, 1e9, 2.0**50])
@pytest.mark.parametrize("shape", [0.1, 1.0, 100.0])
def test_evidence_of_huge_counts(x: float, shape: float) -> None:
    # Put together from terms of size x, it was off by 1e-6 nats at 1e9 and by 10 nats at 2^50, and a mixture fell below
    # one that it contains.
    prior = GammaMixture(np.array([0.3, 0.7]), np.full(2, shape), x / 3.7 * np.array([1.0, 1.1]))
    with mpmath.workdps(50):
        total, a = mpmath.mpf(0), mpmath.mpf(shape)
        for weight, mean in zip(prior.weights.tolist(), prior.means.tolist(), strict=True):
            expected = mpmath.mpf(3.7) * mpmath.mpf(mean)
            logs = mpmath.loggamma(a + x) - mpmath.loggamma(a) - mpmath.loggamma(mpmath.mpf(x) + 1)
            total += weight * mpmath.exp(
                logs - a * mpmath.log1p(expected / a) + x * mpmath.log(expected / (a + expected))
            )
        exact = float(mpmath.log(total))
    assert prior.log_evidence(np.array([x]), np.array([3.7])) == pytest.approx(exact, abs=1e-9)
