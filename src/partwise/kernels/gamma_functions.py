"""The logarithm of the gamma function, its derivatives, and its differences, which do not cancel at large arguments."""

import math

from partwise.kernels.jit import inner_kernel

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)

# From here on the series below reach full precision; smaller arguments are moved up by the recurrence.
ASYMPTOTIC = 10.0


@inner_kernel
def stirling_rest(x: float) -> float:
    """``gammaln(x) - (x - 0.5) * log(x) + x - 0.5 * log(2 * pi)`` for x >= 10."""
    inverse = 1.0 / x
    square = inverse * inverse
    terms = 1.0 / 1680.0 - square * (1.0 / 1188.0 - square * (691.0 / 360360.0))
    return inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * terms)))


@inner_kernel
def digamma_rest(x: float) -> float:
    """``log(x) - 0.5 / x - digamma(x)`` for x >= 10."""
    square = 1.0 / (x * x)
    terms = 1.0 / 240.0 - square * (1.0 / 132.0 - square * (691.0 / 32760.0 - square * (1.0 / 12.0)))
    return square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square * terms)))


@inner_kernel
def trigamma_rest(x: float) -> float:
    """``polygamma(1, x) - 1 / x - 0.5 / x**2`` for x >= 10."""
    inverse = 1.0 / x
    square = inverse * inverse
    terms = 1.0 / 30.0 - square * (5.0 / 66.0 - square * (691.0 / 2730.0 - square * (7.0 / 6.0)))
    return inverse * square * (1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square * terms)))


@inner_kernel
def digamma(x: float) -> float:
    """``scipy.special.digamma(x)`` for x > 0."""
    shift = 0.0
    while x < ASYMPTOTIC:
        shift += 1.0 / x
        x += 1.0
    return math.log(x) - 0.5 / x - digamma_rest(x) - shift


@inner_kernel
def trigamma(x: float) -> float:
    """``scipy.special.polygamma(1, x)`` for x > 0."""
    shift = 0.0
    while x < ASYMPTOTIC:
        inverse = 1.0 / x
        shift += inverse * inverse
        x += 1.0
    inverse = 1.0 / x
    return inverse + 0.5 * inverse * inverse + trigamma_rest(x) + shift


@inner_kernel
def log1p_rest(t: float) -> float:
    """``log1p(t) - t`` for t > -1, without cancellation near 0."""
    if abs(t) > 0.1:
        return math.log1p(t) - t
    # log1p(t) = 2 atanh(r) with r = t / (2 + t), whose first term 2 r = t - r t takes t away exactly.
    ratio = t / (2.0 + t)
    square = ratio * ratio
    series = 0.0
    for j in range(8, 0, -1):
        series = (series + 1.0 / (2.0 * j + 1.0)) * square
    return ratio * (2.0 * series - t)


@inner_kernel
def log_gamma_difference(shape: float, count: float) -> float:
    """``gammaln(shape + count) - gammaln(shape)`` for any count >= 0, to full precision at any shape."""
    product = 1.0
    moved = 0.0
    while shape < ASYMPTOTIC:
        product *= shape / (shape + count)
        if product < 1e-250:
            moved += math.log(product)
            product = 1.0
        shape += 1.0
    high = shape + count
    moved += math.log(product)
    ratio = count / shape
    # high * log1p(ratio) - count
    excess = high * log1p_rest(ratio) + count * ratio if ratio < 0.1 else high * math.log1p(ratio) - count
    excess += stirling_rest(high) - stirling_rest(shape) - 0.5 * math.log1p(ratio)
    return count * math.log(shape) + excess + moved
