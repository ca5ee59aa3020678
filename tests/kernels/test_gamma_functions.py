from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import digamma as scipy_digamma
from scipy.special import gammaln, polygamma

from partwise.kernels.gamma_functions import (
    digamma,
    digamma_rest,
    log1p_rest,
    log_gamma_difference,
    stirling_rest,
    trigamma,
    trigamma_rest,
)

SHAPES = [1e-8, 1e-3, 0.3, 1.0, 2.5, 9.99, 10.0, 37.0, 1e3, 1e6, 1e12, 1e15]
COUNTS = [0.0, 1e-6, 1e-3, 0.4, 1.0, 3.7, 25.0, 1000.5, 1e6, 1e9]


@pytest.fixture(autouse=True)
def many_digits() -> object:
    with mpmath.workdps(60):
        yield


@pytest.mark.parametrize("shape", SHAPES)
def test_differences_keep_their_digits(shape: float) -> None:
    a = mpmath.mpf(shape)
    for count in COUNTS:
        x = mpmath.mpf(count)
        reference = mpmath.loggamma(a + x) - mpmath.loggamma(a)
        assert log_gamma_difference(shape, count) == pytest.approx(float(reference), rel=4e-15, abs=4e-15)


def test_the_plain_difference_would_not_do() -> None:
    shape, count = 1e12, 3.5
    exact = float(mpmath.loggamma(mpmath.mpf(shape) + count) - mpmath.loggamma(mpmath.mpf(shape)))
    assert abs(gammaln(shape + count) - gammaln(shape) - exact) > 1e-4
    assert abs(log_gamma_difference(shape, count) - exact) < 1e-13


@pytest.mark.parametrize("x", [1e-9, 0.02, 0.5, 1.4616, 3.0, 9.999, 10.0, 55.5, 1e7])
def test_derivatives(x: float) -> None:
    assert digamma(x) == pytest.approx(float(scipy_digamma(x)), rel=2e-15, abs=3e-15)
    assert trigamma(x) == pytest.approx(float(polygamma(1, x)), rel=3e-15)


@pytest.mark.parametrize("x", [10.0, 11.3, 40.0, 1e4])
def test_rests(x: float) -> None:
    big = mpmath.mpf(x)
    half = mpmath.mpf(1) / 2
    reference = mpmath.loggamma(big) - (big - half) * mpmath.log(big) + big - half * mpmath.log(2 * mpmath.pi)
    assert stirling_rest(x) == pytest.approx(float(reference), rel=1e-13)
    assert digamma_rest(x) == pytest.approx(float(mpmath.log(big) - half / big - mpmath.digamma(big)), rel=1e-12)
    reference = mpmath.polygamma(1, big) - 1 / big - half / big**2
    assert trigamma_rest(x) == pytest.approx(float(reference), rel=1e-11)


@pytest.mark.parametrize("t", [-0.999, -0.2, -0.1, -1e-3, -1e-9, 0.0, 1e-12, 1e-4, 0.1, 0.11, 5.0])
def test_log1p_rest(t: float) -> None:
    big = mpmath.mpf(t)
    assert log1p_rest(t) == pytest.approx(float(mpmath.log1p(big) - big), rel=4e-15)
    if abs(t) > 0.05:
        assert log1p_rest(t) == pytest.approx(np.log1p(t) - t, rel=1e-12)
