"""Logarithms of binomial and Poisson probabilities that stay exact for huge counts (Loader, 2000).

Terms that need another logarithm are left to the caller, which takes one anyway.
"""

import math

import numpy as np

from partwise.kernels.gamma_functions import HALF_LOG_TWO_PI
from partwise.kernels.jit import inner_kernel

_FAR = 30.0

_N_TABLE = 16
_STIRLING_TABLE = np.array(
    [-HALF_LOG_TWO_PI]
    + [math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - HALF_LOG_TWO_PI for n in range(1, _N_TABLE)]
)


@inner_kernel
def stirling_error(n: float) -> float:
    """``gammaln(n + 1) - (n + 0.5) * log(max(n, 1)) + n - 0.5 * log(2 * pi)`` for an integer n."""
    if n < _N_TABLE:
        return float(_STIRLING_TABLE[int(n)])
    inverse = 1.0 / n
    square = inverse * inverse
    series = 1.0 / 1260.0 - square * (1.0 / 1680.0 - square * (1.0 / 1188.0))
    return inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * series))


@inner_kernel
def deviance(x: float, mean: float) -> float:
    """``xlogy(x, x / mean) + mean - x``, without cancellation where x is close to mean."""
    difference = x - mean
    if abs(difference) < 0.1 * (x + mean):
        # log(x / mean) = 2 atanh(ratio), whose first term cancels; |ratio| < 0.1, so that 8 more reach full precision.
        ratio = difference / (x + mean)
        square = ratio * ratio
        series = 0.0
        for j in range(8, 0, -1):
            series = (series + 1.0 / (2.0 * j + 1.0)) * square
        return ratio * (difference + 2.0 * x * series)
    return x * math.log(x / mean) - difference if x > 0.0 else mean


@inner_kernel
def log_poisson_scaled(x: float, mean: float) -> float:
    """``poisson.logpmf(x, mean) + 0.5 * log(2 * pi * max(x, 1))``, to full precision also at means of 1e15."""
    return -stirling_error(x) - deviance(x, mean)


@inner_kernel
def log_binomial_scaled(x: float, n: float, p: float) -> float:
    """``binom.logpmf(x, n, p) + 0.5 * log(max(x, 1) * max(n - x, 1))`` up to a term in n alone, for 0 < p < 1.

    To full precision also at n = 2**53.
    """
    rest = n - x
    return -stirling_error(x) - stirling_error(rest) - deviance(x, n * p) - deviance(rest, n * (1.0 - p))


@inner_kernel
def log_normal_cdf(x: float) -> float:
    """``scipy.special.log_ndtr(x)``, to a few digits far below 0."""
    if x > -_FAR:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
    return -0.5 * x * x - math.log(-x) - HALF_LOG_TWO_PI
