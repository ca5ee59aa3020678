"""Posterior of rates under a mixture of gamma distributions and points, observation by observation."""

import math

import numpy as np

from partwise.kernels.gamma_functions import ASYMPTOTIC, HALF_LOG_TWO_PI, digamma_rest, stirling_rest
from partwise.kernels.jit import inner_kernel, kernel
from partwise.priors.base import Floats
from partwise.priors.kernels.evidence import Shape, log_evidence, shape_constants, shifted

# Posterior of rates under one gamma distribution, which a factorization needs in every sweep.

# For counts this small compared with the shape, four terms of Taylor's series are exact to the last digit.
_TINY = 1e-4
_PRODUCTS_AT_ONCE = 8

Pair = tuple[Floats, Floats]
Triple = tuple[Floats, Floats, Floats]


@kernel
def gamma_posterior(
    data: Pair, prior: tuple[float, float], constants: tuple[float, Floats], out_mean: Floats, out_geometric: Floats
) -> float:
    """``out_mean, out_geometric = (a + x) / r, exp(digamma(a + x)) / r`` with ``a, mean = prior, r = a / mean + s``.

    Returns ``sum(x * digamma(a + x) - gammaln(a + x) + gammaln(a) + a * log(r * mean / a) - s * out_mean)``, the
    divergence of the posterior from the prior. ``data`` are counts x and exposures s. ``constants`` are ``gammaln(a)``,
    and digamma(a) with its first three derivatives. Accurate for shapes up to a thousand.
    """
    (counts, exposure), (shape, mean), (log_gamma, polygammas) = data, prior, constants
    psi, psi_1, psi_2, psi_3 = polygammas[0], polygammas[1], polygammas[2], polygammas[3]
    geometric = math.exp(psi)
    tiny = _TINY * shape
    # One logarithm is taken of the product of the shifts of several counts.
    product = 1.0
    n_products = 0
    divergence = 0.0
    one_exposure = exposure.size == 1
    rate = shape / mean + exposure[0]
    inverse = 1.0 / rate
    log_ratio = math.log1p(exposure[0] * mean / shape)
    for i in range(counts.size):
        x = counts[i]
        if not one_exposure:
            rate = shape / mean + exposure[i]
            inverse = 1.0 / rate
            log_ratio = math.log1p(exposure[i] * mean / shape)
        posterior_mean = (shape + x) * inverse
        out_mean[i] = posterior_mean
        divergence += shape * log_ratio - (1.0 - shape / mean * inverse) * (shape + x)
        if x < tiny:
            out_geometric[i] = geometric * math.exp(x * (psi_1 + x * (psi_2 / 2.0 + x * psi_3 / 6.0))) * inverse
            divergence += x * x * (psi_1 / 2.0 + x * (psi_2 / 3.0 + x * psi_3 / 8.0))
            continue
        moved = shape + x
        inverse_sum = 0.0
        while moved < ASYMPTOTIC:
            product *= moved
            inverse_sum += 1.0 / moved
            moved += 1.0
        n_products += 1
        if n_products == _PRODUCTS_AT_ONCE:
            divergence += math.log(product)
            product = 1.0
            n_products = 0
        log_moved = math.log(moved)
        digamma = log_moved - 0.5 / moved - digamma_rest(moved) - inverse_sum
        out_geometric[i] = math.exp(digamma) * inverse
        log_gamma_moved = (moved - 0.5) * log_moved - moved + stirling_rest(moved) + HALF_LOG_TWO_PI
        divergence += x * digamma - log_gamma_moved + log_gamma
    return divergence + math.log(product)


# Nats below the best from which a share, of any weight, changes no digit of a sum.
_NO_SHARE = 100.0
# Below these, the evidence is a sum of terms in (a, x), (a, s) and x alone, which hardly cancel.
PLAIN_SHAPE, _PLAIN_COUNT = 1e3, 1e5


@inner_kernel
def gamma_terms(x: float, shape: Shape) -> tuple[float, float]:
    """``gammaln(a + x) - gammaln(a) - xlogy(x, x) + x, digamma(a + x)``."""
    moved, product, inverse_sum, _ = shifted(shape.value + x)
    log_moved = math.log(moved)
    log_gamma = (moved - 0.5) * log_moved - moved + stirling_rest(moved) + HALF_LOG_TWO_PI
    if inverse_sum > 0.0:
        log_gamma -= math.log(product)
    a = shape.value
    value = log_gamma + shape.stirling - HALF_LOG_TWO_PI + a - a * math.log(a) + x
    if x > 0.0:
        value -= x * math.log(x)
    return value, log_moved - 0.5 / moved - digamma_rest(moved) - inverse_sum


@kernel
def prior_total(weights: Floats, shapes: Floats, means: Floats) -> float:
    """``weights.sum()``, but NaN unless weights and means are nonnegative, means finite, and shapes positive."""
    total = 0.0
    for g in range(weights.size):
        if not (weights[g] >= 0.0 and shapes[g] > 0.0 and 0.0 <= means[g] < math.inf):
            return math.nan
        total += weights[g]
    return total


@inner_kernel
def near_points(x: float, s: float, means: Floats, log_weight: Floats, point: Shape, out: Floats) -> tuple[int, int]:
    """First and one past the last of the sorted points that have any share; others would change no digit.

    ``out = log_weight + log_evidence(x, s * means, point)`` of those between.
    """
    first = int(np.searchsorted(means, x / s))
    last, largest = first, -math.inf
    while last < means.size:
        value = log_evidence(x, s * means[last], point)
        if value < largest - _NO_SHARE:
            break
        out[last] = log_weight[last] + value
        largest = max(largest, out[last])
        last += 1
    while first > 0:
        value = log_evidence(x, s * means[first - 1], point) if means[first - 1] > 0.0 else -math.inf
        if value < largest - _NO_SHARE:
            break
        first -= 1
        out[first] = log_weight[first] + value
        largest = max(largest, out[first])
    return first, last


@kernel
def mixture_posterior(data: Pair, prior: Triple, out: Triple) -> None:
    """``r = softmax(log(weights) + log_evidence(counts, exposure * means, shapes))``, then means over r.

    ``out_mean = r @ ((shapes + counts) / rate)`` and ``out_mean_log = r @ (digamma(shapes + counts) - log(rate))`` with
    ``rate = shapes / means + exposure``; ``out_evidence`` is the log of the softmax's normaliser, which is relative to
    the best rate of each count. A component of mean 0 is a point at 0, one of infinite shape a point at its mean.
    Consecutive components of the same shape share the costly part.
    """
    (counts, exposure), (weights, shapes, means), (out_mean, out_mean_log, out_evidence) = data, prior, out
    n_parts = weights.size
    constants = [shape_constants(shapes[g]) for g in range(n_parts)]
    log_weight, log_mean = np.empty((2, n_parts))
    slope = np.empty(n_parts)
    intercept = np.empty(n_parts)
    inverse_rate = np.empty(n_parts)
    log_rate = np.empty(n_parts)
    score = np.empty(n_parts)
    mean_of = np.empty(n_parts)
    mean_log_of = np.empty(n_parts)
    for g in range(n_parts):
        log_weight[g] = math.log(weights[g]) if weights[g] > 0.0 else -math.inf
        log_mean[g] = math.log(means[g]) if means[g] > 0.0 else -math.inf
    only_points = True
    for g in range(n_parts):
        only_points &= shapes[g] == math.inf and (g == 0 or means[g] >= means[g - 1])
    previous = -1.0
    for i in range(counts.size):
        x = counts[i]
        s = exposure[i] if exposure.size > 1 else exposure[0]
        if i > 0 and x == counts[i - 1] and s == previous:
            out_mean[i], out_mean_log[i], out_evidence[i] = out_mean[i - 1], out_mean_log[i - 1], out_evidence[i - 1]
            continue
        first, last = 0, n_parts
        if only_points and s > 0.0:
            first, last = near_points(x, s, means, log_weight, constants[0], score)
        if s != previous:
            previous = s
            for g in range(n_parts if not only_points else 0):
                if means[g] > 0.0 and shapes[g] < math.inf:
                    rate = shapes[g] / means[g] + s
                    inverse_rate[g] = 1.0 / rate
                    log_rate[g] = math.log(rate)
                    slope[g] = math.log(s * inverse_rate[g]) if s > 0.0 else -math.inf
                    intercept[g] = log_weight[g] - shapes[g] * math.log1p(s * means[g] / shapes[g])
        largest = -math.inf
        shape = -1.0
        gamma_part = 0.0
        digamma_part = 0.0
        for g in range(first, last):
            a = shapes[g]
            if means[g] == 0.0:
                score[g] = log_weight[g] if x == 0.0 else -math.inf
                mean_of[g] = 0.0
                mean_log_of[g] = -math.inf
            elif a == math.inf:
                if not only_points or s == 0.0:
                    score[g] = log_weight[g] + (log_evidence(x, s * means[g], constants[g]) if s > 0.0 else 0.0)
                mean_of[g] = means[g]
                mean_log_of[g] = log_mean[g]
            else:
                if a != shape:
                    shape = a
                    gamma_part, digamma_part = gamma_terms(x, constants[g])
                if s == 0.0:
                    score[g] = log_weight[g]
                elif a > PLAIN_SHAPE or x > _PLAIN_COUNT:
                    score[g] = log_weight[g] + log_evidence(x, s * means[g], constants[g])
                else:
                    score[g] = gamma_part + intercept[g] + (x * slope[g] if x > 0.0 else 0.0)
                mean_of[g] = (a + x) * inverse_rate[g]
                mean_log_of[g] = digamma_part - log_rate[g]
            largest = max(largest, score[g])
        if largest == -math.inf:
            # A positive count, and all prior mass at 0.
            out_mean[i], out_mean_log[i], out_evidence[i] = 0.0, -math.inf, -math.inf
            continue
        total = 0.0
        mean = 0.0
        mean_log = 0.0
        for g in range(first, last):
            share = math.exp(score[g] - largest)
            if share > 0.0:
                total += share
                mean += share * mean_of[g]
                mean_log += share * mean_log_of[g]
        out_mean[i] = mean / total
        out_mean_log[i] = mean_log / total
        out_evidence[i] = largest + math.log(total)


@kernel
def mixture_divergence(
    counts: Floats, exposure: Floats, mean: Floats, mean_log: Floats, relative: Floats, out: Floats
) -> float:
    """``sum(counts * (mean_log + log(exposure) - log(counts) + 1) - exposure * mean - relative)``, 0 (-inf) being 0.

    That is the divergence of posterior from prior, of what `mixture_posterior` gives. ``out = exp(mean_log)``.
    """
    divergence = 0.0
    log_exposure = math.log(exposure[0])
    for i in range(counts.size):
        x = counts[i]
        s = exposure[i] if exposure.size > 1 else exposure[0]
        out[i] = math.exp(mean_log[i])
        if x > 0.0:
            if exposure.size > 1:
                log_exposure = math.log(s)
            divergence += x * (mean_log[i] + log_exposure - math.log(x) + 1.0)
        divergence -= s * mean[i] + relative[i]
    return divergence


@kernel
def mixture_shares(
    counts: Floats, exposure: Floats, weights: Floats, shapes: Floats, means: Floats, out: Floats
) -> None:
    """``out = softmax(log(weights) + log_evidence(counts, exposure * means, shapes), axis=1)``.

    A row whose count is impossible under every component is 0.
    """
    n_parts = weights.size
    constants = [shape_constants(shapes[g]) for g in range(n_parts)]
    for i in range(counts.size):
        s = exposure[i] if exposure.size > 1 else exposure[0]
        largest = -math.inf
        for g in range(n_parts):
            score = math.log(weights[g]) if weights[g] > 0.0 else -math.inf
            if means[g] == 0.0:
                score = score if counts[i] == 0.0 else -math.inf
            elif s > 0.0:
                score += log_evidence(counts[i], s * means[g], constants[g])
            out[i, g] = score
            largest = max(largest, score)
        total = 0.0
        for g in range(n_parts):
            out[i, g] = math.exp(out[i, g] - largest) if largest > -math.inf else 0.0
            total += out[i, g]
        for g in range(n_parts):
            out[i, g] /= max(total, 1e-300)
