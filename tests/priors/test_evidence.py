"""Kernels of the evidence: against many digits, against the line of their docstring, and derivatives."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from scipy.special import expit, gammaln, xlogy
from scipy.stats import nbinom, poisson

from partwise.priors.kernels.columns import shape_column
from partwise.priors.kernels.evidence import (
    ObservedCounts,
    evidence_terms,
    gamma_evidence,
    log_evidence,
    shape_constants,
)
from partwise.priors.kernels.newton import pair_evidence
from partwise.priors.mixture import saturated

SHAPES = [1e-6, 0.01, 0.7, 1.0, 9.9, 12.0, 300.0, 1e6, 1e12]
COUNTS = [0.0, 1e-9, 0.5, 1.0, 6.0, 11.3, 100.0, 1e5]
MEANS = [1e-6, 0.1, 1.0, 12.0, 120.0, 1e5 + 30.0]


def exact_terms(x: float, mean: float, shape: float) -> list[float]:
    """The derivatives as the formulas say, with enough digits to lose many."""
    with mpmath.workdps(60):
        x, m, a = mpmath.mpf(x), mpmath.mpf(mean), mpmath.mpf(shape)
        value = mpmath.loggamma(a + x) - mpmath.loggamma(a) + a * mpmath.log(a) - (a + x) * mpmath.log(a + m)
        value += x * mpmath.log(m / x) + x if x > 0 else 0
        by_a = mpmath.digamma(a + x) - mpmath.digamma(a) - mpmath.log1p(m / a) + (m - x) / (a + m)
        twice = mpmath.polygamma(1, a + x) - mpmath.polygamma(1, a) + m / (a * (a + m)) - (m - x) / (a + m) ** 2
        terms = [
            value,
            a * by_a,
            a * (x - m) / (a + m),
            a * a * twice + a * by_a,
            a * (x - m) * m / (a + m) ** 2,
            -(a + x) * a * m / (a + m) ** 2,
        ]
        return [float(term) for term in terms]


@pytest.mark.parametrize("shape", SHAPES)
def test_evidence_and_derivatives_have_no_cancellation(shape: float) -> None:
    constants = shape_constants(shape)
    for x, mean in itertools.product(COUNTS, MEANS):
        expected = exact_terms(x, mean, shape)
        assert log_evidence(x, mean, constants) == pytest.approx(expected[0], rel=2e-14, abs=2e-14)
        np.testing.assert_allclose(list(evidence_terms(x, mean, constants)), expected, rtol=2e-11, atol=2e-14)


def test_evidence_is_the_negative_binomial() -> None:
    x = np.array([0.0, 1.0, 5.0, 40.0])
    for shape, mean in ((0.5, 3.0), (4.0, 0.2), (80.0, 30.0)):
        found = [log_evidence(value, mean, shape_constants(shape)) for value in x]
        np.testing.assert_allclose(found + saturated(x), nbinom.logpmf(x, shape, shape / (shape + mean)), rtol=1e-11)
    found = [log_evidence(value, 7.0, shape_constants(np.inf)) for value in x]
    np.testing.assert_allclose(found + saturated(x), poisson.logpmf(x, 7.0), rtol=1e-12)


def test_large_shapes_tend_to_the_poisson() -> None:
    # Plain lgamma differences are off by thousands of nats here.
    x, mean = 31.0, 29.5
    point = log_evidence(x, mean, shape_constants(np.inf))
    slope = 0.5 * ((x - mean) ** 2 - x)
    for shape in (1e6, 1e9, 1e12, 1e15):
        assert log_evidence(x, mean, shape_constants(shape)) - point == pytest.approx(
            slope / shape, rel=1e-3, abs=1e-15
        )


def test_saturated() -> None:
    x = np.array([0.0, 0.25, 1.0, 15.9, 16.0, 17.0, 500.5, 1e9])
    with mpmath.workdps(40):
        exact = [
            float(mpmath.mpf(v) * mpmath.log(v) - v - mpmath.loggamma(mpmath.mpf(v) + 1)) if v else 0.0
            for v in x.tolist()
        ]
    np.testing.assert_allclose(saturated(x), exact, rtol=1e-13, atol=1e-15)


def test_gamma_evidence_sums_the_terms(rng: np.random.Generator) -> None:
    counts = rng.poisson(4.0, size=30).astype(np.float64)
    repeats = rng.integers(1, 4, size=30).astype(np.float64)
    out = np.empty(6)
    for exposure in (np.array([1.7]), rng.gamma(2.0, 1.0, size=30)):
        gamma_evidence(ObservedCounts(counts, exposure, repeats), 1.3, 2.2, out)
        rates = np.broadcast_to(2.2 * exposure, counts.shape)
        terms = [evidence_terms(x, rate, shape_constants(1.3)) for x, rate in zip(counts, rates, strict=True)]
        np.testing.assert_allclose(out, repeats @ np.array(terms), rtol=1e-12)
        gamma_evidence(ObservedCounts(counts, exposure, repeats), np.inf, 2.2, out)
        logs = repeats @ (poisson.logpmf(counts, rates) - saturated(counts))
        np.testing.assert_allclose(out, [logs, 0, repeats @ (counts - rates), 0, 0, -repeats @ rates], rtol=1e-11)


def test_observations_without_exposure_say_nothing() -> None:
    out, more = np.empty(6), np.empty(6)
    gamma_evidence(ObservedCounts(np.array([3.0, 0.0]), np.array([2.0, 0.0]), np.ones(1)), 0.8, 1.5, out)
    gamma_evidence(ObservedCounts(np.array([3.0]), np.array([2.0]), np.ones(1)), 0.8, 1.5, more)
    np.testing.assert_array_equal(out, more)


def test_shape_column(rng: np.random.Generator) -> None:
    counts = np.concatenate(([0.0], rng.gamma(0.3, 20.0, size=40)))
    out = np.empty(41)
    for shape in (0.05, 1.0, 30.0, 1e3):
        shape_column(counts, shape, out)
        plain = gammaln(shape + counts) - gammaln(shape) - xlogy(counts, counts) + counts
        np.testing.assert_allclose(out, plain, rtol=1e-11, atol=1e-11)


PAIRS = [
    (0.3, [0.7, 5.0], [1.0, 9.0]),
    (-2.0, [np.inf, 0.4], [0.0, 3.0]),
    (1.0, [np.inf, np.inf], [2.0, 12.0]),
    (25.0, [0.2, 3.0], [0.1, 5.0]),
    (-25.0, [2.0, 3.0], [4.0, 5.0]),
]


@pytest.mark.parametrize(("log_odds", "shapes", "means"), PAIRS)
def test_pair_evidence(log_odds: float, shapes: list[float], means: list[float], rng: np.random.Generator) -> None:
    counts = np.concatenate((np.zeros(5), rng.poisson(6.0, size=20))).astype(np.float64)
    exposure = rng.gamma(3.0, 0.5, size=25)
    repeats = rng.integers(1, 3, size=25).astype(np.float64)
    gradient, hessian = np.empty(5), np.empty((5, 5))

    def value(point: np.ndarray) -> float:
        a = np.where(np.isinf(shapes), np.inf, np.exp(point[1::2]))
        m = np.array(means) * np.exp(point[2::2])
        return pair_evidence(ObservedCounts(counts, exposure, repeats), float(point[0]), a, m, gradient, hessian)

    base = np.zeros(5)
    base[0], base[1::2] = log_odds, np.log(np.where(np.isinf(shapes), 1.0, shapes))
    logs = []
    for a, m in zip(shapes, means, strict=True):
        if m == 0:
            logs.append(np.where(counts == 0, 0.0, -np.inf))
        else:
            rates = exposure * m
            plain = poisson.logpmf(counts, rates) if a == np.inf else nbinom.logpmf(counts, a, a / (a + rates))
            logs.append(plain - saturated(counts))
    weight = expit(log_odds)
    expected = repeats @ np.logaddexp(np.log1p(-weight) + logs[0], np.log(weight) + logs[1])
    assert value(base) == pytest.approx(expected, rel=1e-11)

    first, second = gradient.copy(), hessian.copy()
    for j in range(5):
        step = np.zeros(5)
        step[j] = 1e-4
        up, up_gradient = value(base + step), gradient.copy()
        down, down_gradient = value(base - step), gradient.copy()
        fixed = (j in (1, 3) and np.isinf(shapes[j // 2])) or (j in (2, 4) and means[j // 2 - 1] == 0)
        assert first[j] == pytest.approx(0.0 if fixed else (up - down) / 2e-4, rel=1e-5, abs=1e-6)
        np.testing.assert_allclose(second[j], (up_gradient - down_gradient) / 2e-4, rtol=1e-4, atol=1e-5)
