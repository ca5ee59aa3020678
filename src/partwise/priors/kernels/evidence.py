"""Evidence of one count under a gamma prior of its rate, with derivatives: the negative binomial, for any real count.

Everything is relative to the best that any rate could give, ``sat(x) = x log x - x - log x!``. The rest is a few nats,
however large the counts are, and nothing cancels as the shape grows and the prior becomes a point.
"""

import math
from typing import NamedTuple

from partwise.kernels.gamma_functions import (
    ASYMPTOTIC,
    HALF_LOG_TWO_PI,
    digamma,
    digamma_rest,
    log1p_rest,
    stirling_rest,
    trigamma,
    trigamma_rest,
)
from partwise.kernels.jit import inline_kernel, inner_kernel, kernel
from partwise.kernels.special import deviance
from partwise.priors.base import Floats


class ObservedCounts(NamedTuple):
    """Counts x, their exposures s, and how often each occurs: one number per count, or one for all."""

    counts: Floats
    exposure: Floats
    repeats: Floats


class Shape(NamedTuple):
    """A shape a and what its evidence needs: Stirling's rest, log a - digamma(a), and trigamma(a) - 1 / a."""

    value: float
    stirling: float
    digamma_gap: float
    trigamma_gap: float


class Terms(NamedTuple):
    """A relative log evidence, and its derivatives in log shape and log mean."""

    value: float
    by_shape: float
    by_mean: float
    by_shape_twice: float
    by_both: float
    by_mean_twice: float


@inner_kernel
def shape_constants(a: float) -> Shape:
    """``Shape(a, 0.5 * log(2 * pi) - a + a * log(a) - gammaln(a), log(a) - digamma(a), polygamma(1, a) - 1 / a)``."""
    if a == math.inf:
        return Shape(a, 0.0, 0.0, 0.0)
    inverse = 1.0 / a
    if a >= ASYMPTOTIC:
        return Shape(
            a,
            0.5 * math.log(a) - stirling_rest(a),
            0.5 * inverse + digamma_rest(a),
            0.5 * inverse * inverse + trigamma_rest(a),
        )
    stirling = HALF_LOG_TWO_PI - a + a * math.log(a) - math.lgamma(a)
    return Shape(a, stirling, math.log(a) - digamma(a), trigamma(a) - inverse)


@inline_kernel
def shifted(x: float) -> tuple[float, float, float, float]:
    """``x + n, v.prod(), (1 / v).sum(), (1 / v**2).sum()`` of ``v = x + arange(n)``, with n for Stirling's series."""
    moved, product, inverse_sum, square_sum = x, 1.0, 0.0, 0.0
    while moved < ASYMPTOTIC:
        inverse = 1.0 / moved
        product *= moved
        inverse_sum += inverse
        square_sum += inverse * inverse
        moved += 1.0
    return moved, product, inverse_sum, square_sum


@inner_kernel
def log_evidence(x: float, mean: float, shape: Shape) -> float:
    """``nbinom.logpmf(x, a, a / (a + mean)) - sat(x)``: log p(x) with x ~ Poisson(mean λ), λ ~ Gamma(a, a).

    An infinite shape gives the Poisson.
    """
    a = shape.value
    if a == math.inf:
        return -deviance(x, mean)
    if x == 0.0:
        return -a * math.log1p(mean / a)
    high = a + x
    total = a + mean
    if high >= ASYMPTOTIC:
        t = (x - mean) / total
        log_ratio = math.log1p(t) if abs(t) <= 0.1 else math.log(high / total)
        fit = -_divergence(x, mean, a, log_ratio)
        return fit - 0.5 * math.log(high) + stirling_rest(high) + shape.stirling
    moved, product, _, _ = shifted(high)
    log_gamma = (moved - 0.5) * math.log(moved) - moved + stirling_rest(moved) - math.log(product)
    return log_gamma + shape.stirling + a - high * math.log(total) + x * (math.log(mean / x) + 1.0)


@inner_kernel
def _divergence(x: float, mean: float, a: float, log_ratio: float) -> float:
    """``xlogy(x, x / mean) - (a + x) * log((a + x) / (a + mean))``; ``log_ratio`` is the second logarithm."""
    if a >= mean:
        return deviance(x, mean) - deviance(a + x, a + mean)
    u = a * (x - mean) / (mean * (a + x))
    log_part = math.log1p(u) if u > -0.5 else (math.log(x * (a + mean) / (mean * (a + x))) if x > 0.0 else 0.0)
    return x * log_part - a * log_ratio


@inner_kernel
def evidence_terms(x: float, mean: float, shape: Shape) -> Terms:
    """`log_evidence` with its first and second derivatives in log a and log mean, for a finite shape and mean > 0."""
    a = shape.value
    high = a + x
    total = a + mean
    difference = x - mean
    t = difference / total
    # log(high / total), and the same less t
    if abs(t) <= 0.1:
        rest = log1p_rest(t)
        log_ratio = rest + t
    else:
        log_ratio = math.log(high / total)
        rest = log_ratio - t
    moved, product, inverse_sum, square_sum = shifted(high)
    if moved == high:
        value = shape.stirling - 0.5 * math.log(high) + stirling_rest(high) - _divergence(x, mean, a, log_ratio)
        inverse = 1.0 / high
        # digamma(high) - log(high) + the gap of a, and trigamma(high) - 1 / high - the gap of a
        first = shape.digamma_gap - 0.5 * inverse - digamma_rest(high)
        second = 0.5 * inverse * inverse + trigamma_rest(high) - shape.trigamma_gap
    else:
        log_moved = math.log(moved)
        log_gamma = (moved - 0.5) * log_moved - moved + stirling_rest(moved) - math.log(product)
        log_total = math.log(total)
        value = log_gamma + shape.stirling + a - high * log_total
        if x > 0.0:
            value += x * (math.log(mean / x) + 1.0)
        inverse = 1.0 / moved
        log_high = log_ratio + log_total
        first = log_moved - 0.5 * inverse - digamma_rest(moved) - inverse_sum - log_high + shape.digamma_gap
        trigamma_moved = inverse + 0.5 * inverse * inverse + trigamma_rest(moved) + square_sum
        second = trigamma_moved - 1.0 / high - shape.trigamma_gap
    by_a = rest + first
    by_a_twice = t * t / high + second
    by_mean = a * t
    return Terms(
        value,
        a * by_a,
        by_mean,
        a * (a * by_a_twice + by_a),
        by_mean * mean / total,
        -high * a * mean / (total * total),
    )


@inner_kernel
def component_terms(x: float, mean: float, shape: Shape) -> Terms:
    """`evidence_terms`, also where the component is a point (at 0: mean = 0)."""
    if mean == 0.0:
        return Terms(0.0 if x == 0.0 else -math.inf, 0.0, 0.0, 0.0, 0.0, 0.0)
    if shape.value == math.inf:
        return Terms(-deviance(x, mean), 0.0, x - mean, 0.0, 0.0, -mean)
    return evidence_terms(x, mean, shape)


@kernel
def gamma_evidence(data: ObservedCounts, shape: float, mean: float, out: Floats) -> None:
    """``out = sum(repeats * evidence_terms(counts, exposure * mean, shape))``.

    For an infinite shape, derivatives in it are 0. Observations without exposure carry no information.
    """
    counts, exposure, repeats = data.counts, data.exposure, data.repeats
    constants = shape_constants(shape)
    one_exposure, one_repeat = exposure.size == 1, repeats.size == 1
    rate, times = exposure[0] * mean, repeats[0]
    value = by_shape = by_mean = by_shape_twice = by_both = by_mean_twice = 0.0
    for i in range(counts.size):
        if not one_exposure:
            rate = exposure[i] * mean
        if not one_repeat:
            times = repeats[i]
        if rate == 0.0:
            continue
        if shape == math.inf:
            value -= times * deviance(counts[i], rate)
            by_mean += times * (counts[i] - rate)
            by_mean_twice -= times * rate
            continue
        terms = evidence_terms(counts[i], rate, constants)
        value += times * terms.value
        by_shape += times * terms.by_shape
        by_mean += times * terms.by_mean
        by_shape_twice += times * terms.by_shape_twice
        by_both += times * terms.by_both
        by_mean_twice += times * terms.by_mean_twice
    out[0], out[1], out[2] = value, by_shape, by_mean
    out[3], out[4], out[5] = by_shape_twice, by_both, by_mean_twice
