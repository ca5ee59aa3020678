from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, xlogy

from partwise.kernels.special import deviance, log_binomial_scaled, log_poisson_scaled, stirling_error


def test_stirling_error() -> None:
    for n in [0.0, 1.0, 2.0, 14.0, 15.0, 16.0, 17.0, 50.0, 400.0]:
        reference = gammaln(n + 1) - (n + 0.5) * np.log(max(n, 1.0)) + n - 0.5 * np.log(2 * np.pi)
        assert stirling_error(n) == pytest.approx(reference, abs=4e-16 * max(1.0, n * np.log(n + 1)))
    assert stirling_error(1e15) == pytest.approx(1e-15 / 12, rel=1e-14)


def exact_deviance(x: float, mean: float) -> float:
    with localcontext() as context:
        context.prec = 60
        big_x, big_mean = Decimal(x), Decimal(mean)
        return float((big_x * (big_x / big_mean).ln() if x else Decimal(0)) + big_mean - big_x)


@pytest.mark.parametrize("mean", [0.3, 20.0, 1234.5, 1e9 + 0.125, 1e15])
@pytest.mark.parametrize("distance", [-40.0, -6.0, -1.0, -1e-3, 0.0, 0.01, 1.0, 5.0, 30.0])
def test_deviance_does_not_cancel(mean: float, distance: float) -> None:
    x = max(float(np.round(mean + distance * np.sqrt(mean))), 0.0)
    assert deviance(x, mean) == pytest.approx(exact_deviance(x, mean), rel=2e-14, abs=1e-300)
    if mean < 100:
        assert deviance(x, mean) == pytest.approx(xlogy(x, x / mean) + mean - x, abs=1e-12)


def test_the_plain_formula_would_not_do() -> None:
    mean = 1e15
    x = mean + 3e7
    assert abs(xlogy(x, x / mean) + mean - x - exact_deviance(x, mean)) > 0.01


@pytest.mark.parametrize("mean", [0.5, 20.0, 300.0])
def test_log_poisson(mean: float) -> None:
    for x in [0.0, 1.0, 7.0, 15.0, 16.0, 40.0, 333.0]:
        expected = stats.poisson.logpmf(x, mean) + 0.5 * np.log(2 * np.pi * max(x, 1.0))
        assert log_poisson_scaled(x, mean) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("n", "p"), [(40.0, 0.5), (1000.0, 0.02), (1e5, 0.3)])
def test_log_binomial(n: float, p: float) -> None:
    def reference(x: float) -> float:
        return float(stats.binom.logpmf(x, n, p) + 0.5 * np.log(max(x, 1.0) * max(n - x, 1.0)))

    for x in [0.0, 1.0, 16.0, 20.0, 33.0, n - 1, n]:
        difference = log_binomial_scaled(x, n, p) - log_binomial_scaled(20.0, n, p)
        assert difference == pytest.approx(reference(x) - reference(20.0), rel=1e-10, abs=1e-10)
