"""Sums over observations of likelihood ratios p(x | component) / p(x | mixture): the slopes of the log evidence."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.inner import inline_kernel
from partwise.kernels.jit import kernel
from partwise.priors.base import Floats
from partwise.priors.kernels.columns import exp_of_negative

# Rows that are processed at once, and the largest exponent that is looked at.
_ROWS = 512
_LARGEST = 600.0
# What stands for the logarithm of 0, and for 0 where there is one.
_LOWEST = -1e300
_TINY = 1e-300
_LOG_2 = 0.6931471805599453


@inline_kernel
def log_of_positive(x: float) -> float:
    """``log(x)`` to the last digits for positive normal numbers; without branches or calls, as `exp_of_negative`."""
    bits = np.float64(x).view(np.int64)
    power = (bits >> 52) - 1023
    mantissa = np.int64((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    upper = mantissa > 1.4142135623730951
    mantissa = 0.5 * mantissa if upper else mantissa
    exponent = power + 1.0 if upper else power + 0.0
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    z = ratio * ratio
    high = 1 / 11 + z * (1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19))))
    series = 1.0 + z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * high))))
    return exponent * _LOG_2 + 2.0 * ratio * series


@kernel
def ratio_sums(
    counts: Floats, exposure: Floats, tops: Floats, peaks: Floats, shape: float, log_rates: Floats, out: Floats
) -> None:
    """``out[j] = sum(exp(tops + counts * (log_rates[j] - peaks) - rest))`` over the observations.

    ``rest = exposure * rate - counts`` for points, ``(shape + counts) * log((shape + exposure * rate) / (shape +
    counts))`` for gammas, ``rate = exp(log_rates[j])``. What is below exp(-708) counts as 0.
    """
    out[:] = 0.0
    logs = np.empty(_ROWS)
    for start in range(0, counts.size, _ROWS):
        length = min(_ROWS, counts.size - start)
        x, s = counts[start : start + length], exposure[start : start + length]
        top, peak = tops[start : start + length], peaks[start : start + length]
        if shape < math.inf:
            for i in range(length):
                logs[i] = math.log(shape + x[i])
        for j in range(log_rates.size):
            log_rate = log_rates[j]
            rate = math.exp(log_rate)
            total = 0.0
            if shape < math.inf:
                for i in range(length):
                    rest = (shape + x[i]) * (log_of_positive(shape + s[i] * rate) - logs[i])
                    total += exp_of_negative(min(top[i] + x[i] * (log_rate - peak[i]) - rest, _LARGEST))
            else:
                for i in range(length):
                    rest = s[i] * rate - x[i]
                    total += exp_of_negative(min(top[i] + x[i] * (log_rate - peak[i]) - rest, _LARGEST))
            out[j] += total


@kernel
def peak_sums(
    counts: Floats,
    exposure: Floats,
    tops: Floats,
    peaks: Floats,
    shape: float,
    lows: Floats,
    highs: Floats,
    cosines: Floats,
    out: Floats,
    information: Floats,
) -> None:
    """``out[j]``: the sum of the largest value of each term of `ratio_sums` for log rates in a strip of the plane.

    The strip is ``lows[j] <= z.real <= highs[j]``, ``abs(z.imag) <= arccos(cosines[j])``; with a cosine of 1 it is an
    interval. Along the real direction each modulus has one maximum: at x / (s cosine) for points, and at the positive
    root of S² + (a - x) cosine S - x a for gammas, S being s times the rate. ``information`` is the mean information of
    a count on the log rate at these places.
    """
    for j in range(lows.size):
        low, high, cosine = max(lows[j], _LOWEST), max(highs[j], _LOWEST), cosines[j]
        rate_low, rate_high = math.exp(low), math.exp(high)
        total, weighted = 0.0, 0.0
        if shape < math.inf:
            for i in range(counts.size):
                x, s, size = counts[i], exposure[i], shape + counts[i]
                half = 0.5 * (x - shape) * cosine
                root = math.sqrt(half * half + x * shape)
                # that of the two forms in which nothing cancels
                best = half + root if half > 0.0 else (x * shape) / (root - half)
                expected = min(max(best, s * rate_low), s * rate_high)
                at = min(max(log_of_positive(max(best, _TINY)) - log_of_positive(max(s, _TINY)), low), high)
                square = shape * shape + expected * expected + 2.0 * shape * expected * cosine
                rest = 0.5 * size * log_of_positive(square / (size * size))
                term = exp_of_negative(min(tops[i] + x * (at - peaks[i]) - rest, _LARGEST))
                total += term
                weighted += term * shape * expected / (shape + expected)
        else:
            for i in range(counts.size):
                x, s = counts[i], exposure[i]
                best = x / cosine
                expected = min(max(best, s * rate_low), s * rate_high)
                at = min(max(log_of_positive(max(best, _TINY)) - log_of_positive(max(s, _TINY)), low), high)
                term = exp_of_negative(min(tops[i] + x * (at - peaks[i]) - (expected * cosine - x), _LARGEST))
                total += term
                weighted += term * expected
        out[j] = total
        information[j] = weighted / total if total > 0.0 else 0.0


@kernel
def mixture_derivatives(
    counts: Floats,
    exposure: Floats,
    share: Floats,
    responsible: Floats,
    shapes: Floats,
    means: Floats,
    sums: Floats,
    gauss: Floats,
) -> None:
    """``gauss = (share[:, None] * both).T @ both``, ``both = hstack((responsible, responsible * score))``.

    ``score`` is the derivative of the log evidence under a component by its log mean, ``bend`` its square plus the
    second derivative; ``sums = share @ [responsible, responsible * score, responsible * bend]``.
    """
    size = shapes.size
    both = np.empty((2 * size, _ROWS))
    sums[:] = 0.0
    gauss[:] = 0.0
    for start in range(0, counts.size, _ROWS):
        length = min(_ROWS, counts.size - start)
        x, s, part = counts[start : start + length], exposure[start : start + length], share[start : start + length]
        for j in range(size):
            column, inverse, mean = responsible[start : start + length, j], 1.0 / shapes[j], means[j]
            here, first, second = both[j], both[size + j], 0.0
            total, slope = 0.0, 0.0
            for i in range(length):
                expected = s[i] * mean
                ratio = 1.0 / (1.0 + expected * inverse)
                score = ratio * (x[i] - expected)
                root = math.sqrt(part[i])
                here[i] = root * column[i]
                first[i] = here[i] * score
                total += part[i] * column[i]
                slope += part[i] * column[i] * score
                second += part[i] * column[i] * (score * score - ratio * ratio * expected * (1.0 + x[i] * inverse))
            sums[0, j] += total
            sums[1, j] += slope
            sums[2, j] += second
        for a in range(2 * size):
            left = both[a]
            for c in range(a + 1):
                right = both[c]
                product = 0.0
                for i in range(length):
                    product += left[i] * right[i]
                gauss[a, c] += product
    for a in range(2 * size):
        for c in range(a):
            gauss[c, a] = gauss[a, c]
