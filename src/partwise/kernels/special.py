"""Logarithms of factorials and binomial or Poisson probabilities that stay exact for huge counts (Loader, 2000)."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.inner import inner_kernel

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)

_N_TABLE = 16
_STIRLING_TABLE = np.array(
    # At 0, where Stirling's formula breaks down, entries are combined with sqrt(max(n, 1)): see `log_poisson_ratio`.
    [-HALF_LOG_TWO_PI]
    + [math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - HALF_LOG_TWO_PI for n in range(1, _N_TABLE)]
)


@inner_kernel
def stirling_error(n: float) -> float:
    """``gammaln(n + 1) - (n + 0.5) * log(n) + n - 0.5 * log(2 * pi)``, with ``log(1)`` for ``log(0)``; n an integer."""
    if n < _N_TABLE:
        return float(_STIRLING_TABLE[int(n)])
    square = n * n
    return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0) / square) / square) / square) / n


@inner_kernel
def deviance(x: float, mean: float) -> float:
    """``xlogy(x, x / mean) + mean - x``, without cancellation where x is close to mean."""
    difference = x - mean
    if abs(difference) < 0.1 * (x + mean):
        ratio = difference / (x + mean)
        square = ratio * ratio
        total = difference * ratio
        term = 2.0 * x * ratio
        # log(x / mean) = 2 atanh(ratio); |ratio| < 0.1, so that nine terms reach full precision.
        series = 0.0
        for j in range(9, 0, -1):
            series = (series + 1.0 / (2.0 * j + 1.0)) * square
        return total + term * series
    if x == 0.0:
        return mean
    return x * math.log(x / mean) - difference


@inner_kernel
def log_poisson(x: float, mean: float) -> float:
    """``scipy.stats.poisson.logpmf(x, mean)`` for mean > 0, to full precision also at means of 1e15."""
    return -stirling_error(x) - deviance(x, mean) - HALF_LOG_TWO_PI - 0.5 * math.log(max(x, 1.0))


@inner_kernel
def log_binomial(x: float, n: float, p: float) -> float:
    """``scipy.stats.binom.logpmf(x, n, p)`` for 0 < p < 1, to full precision also at n = 2**53."""
    rest = n - x
    return (
        stirling_error(n)
        - stirling_error(x)
        - stirling_error(rest)
        - deviance(x, n * p)
        - deviance(rest, n * (1.0 - p))
        - HALF_LOG_TWO_PI
        + 0.5 * math.log(max(n, 1.0) / (max(x, 1.0) * max(rest, 1.0)))
    )
