"""Likelihood ratios p(x | component) / p(x | mixture), summed over observations: the slopes of the log evidence.

Components have one shape, and observations are given by counts and inverse rates: see `near`.
"""

import math

import numpy as np

from partwise.kernels.jit import kernel
from partwise.priors.base import Floats
from partwise.priors.kernels.elementary import exp_of_negative, log_beside_one
from partwise.priors.kernels.near import (
    ROWS,
    add_products,
    beyond_rate,
    gamma_loss,
    log_likelihood_column,
    near_components,
    not_negligible,
    point_loss,
)

# The largest exponent that is considered.
_LARGEST = 600.0
# Responsibilities that do not matter for a direction.
_NOTHING = 1e-8

Observed = tuple[Floats, Floats, Floats]
"""``counts``, ``inverse``, and the share of each observation."""
Weighted = tuple[Floats, Floats]
"""Means and weights of components."""


@kernel
def mixture_slopes(observed: Observed, shape: float, points: Weighted, sums: Floats, out: Floats) -> float:
    """``out = log(p @ weights)``, and ``share @ out`` comes back; ``p`` has exp(`log_likelihood_column`) of each mean.

    With ``r = weights * p / exp(out)[:, None]``, ``expected = counts * inverse * means`` and ``score = (counts -
    expected) / (1 + expected / shape)``, the derivative by a log mean, ``sums = share @ [r, r * score, r * expected /
    (1 + expected / shape)]``.
    """
    (counts, inverse, share), (means, weights) = observed, points
    size = means.size
    columns = np.empty((size, ROWS))
    top, mixed = np.empty((2, ROWS))
    flat = 0.0 if shape == math.inf else 1.0 / shape
    sums[:] = 0.0
    value = 0.0
    for start in range(0, counts.size, ROWS):
        stop = min(start + ROWS, counts.size)
        length, logs = stop - start, out[start:stop]
        x, inverse_rate, part = counts[start:stop], inverse[start:stop], share[start:stop]
        first, last = near_components(x, inverse_rate, shape, means)
        top[:] = -math.inf
        mixed[:] = 0.0
        for j in range(first, last):
            column = columns[j, :length]
            log_likelihood_column(x, inverse_rate, shape, means[j], column)
            for i in range(length):
                top[i] = max(top[i], column[i])
        for j in range(first, last):
            column, weight = columns[j], weights[j]
            for i in range(length):
                column[i] = weight * exp_of_negative(column[i] - top[i])
                mixed[i] += column[i]
        for i in range(length):
            logs[i] = top[i] + math.log(mixed[i])
            mixed[i] = part[i] / mixed[i]
        for i in range(length):
            value += part[i] * logs[i]
        for j in range(first, last):
            column, mean = columns[j], means[j]
            total, slope, information = 0.0, 0.0, 0.0
            for i in range(length):
                responsible, beyond = column[i] * mixed[i], beyond_rate(inverse_rate[i], mean)
                damped = responsible * x[i] / (1.0 + x[i] * (1.0 + beyond) * flat)
                total += responsible
                slope -= damped * beyond
                information += damped * (1.0 + beyond)
            sums[0, j] += total
            sums[1, j] += slope
            sums[2, j] += information
    return value


@kernel
def mixture_curvature(
    observed: Observed, shape: float, points: Weighted, log_mixture: Floats, sums: Floats, gauss: Floats
) -> None:
    """``gauss = (share[:, None] * both).T @ both``, ``both = hstack((r, r * score))``, without negligible entries.

    ``r`` and ``score`` as in `mixture_slopes`, ``bend`` is the square of the score plus its derivative by the log mean;
    ``sums = share @ [r, r * score, r * bend]``. Columns that are negligible in a block of rows are skipped there; few
    are left if rows are sorted by their rates.
    """
    (counts, inverse, share), (means, weights) = observed, points
    size = means.size
    both = np.empty((2 * size, ROWS))
    logs = np.empty(ROWS)
    inside, ranges = np.empty(2 * size, dtype=np.int64), np.empty((2 * size, 2), dtype=np.int64)
    flat = 0.0 if shape == math.inf else 1.0 / shape
    sums[:] = 0.0
    gauss[:] = 0.0
    for start in range(0, counts.size, ROWS):
        stop = min(start + ROWS, counts.size)
        length, mixed = stop - start, log_mixture[start:stop]
        x, inverse_rate, part = counts[start:stop], inverse[start:stop], share[start:stop]
        n_inside = 0
        first, last = near_components(x, inverse_rate, shape, means)
        for j in range(first, last):
            mean, weight = means[j], weights[j]
            log_likelihood_column(x, inverse_rate, shape, mean, logs[:length])
            here, scored = both[2 * n_inside], both[2 * n_inside + 1]
            total, slope, bend = 0.0, 0.0, 0.0
            for i in range(length):
                responsible = weight * exp_of_negative(min(logs[i] - mixed[i], _LARGEST))
                logs[i] = responsible
                beyond = beyond_rate(inverse_rate[i], mean)
                expected = x[i] * (1.0 + beyond)
                damping = 1.0 / (1.0 + expected * flat)
                score = -damping * x[i] * beyond
                root = math.sqrt(part[i])
                here[i] = root * responsible
                scored[i] = here[i] * score
                total += part[i] * responsible
                slope += part[i] * responsible * score
                bend += part[i] * responsible * (score * score - damping * damping * expected * (1.0 + x[i] * flat))
            sums[0, j] += total
            sums[1, j] += slope
            sums[2, j] += bend
            if not_negligible(logs[:length], _NOTHING, ranges[2 * n_inside]):
                ranges[2 * n_inside + 1] = ranges[2 * n_inside]
                inside[2 * n_inside], inside[2 * n_inside + 1] = j, size + j
                n_inside += 1
        add_products(both, ranges, inside[: 2 * n_inside], gauss)


@kernel
def ratio_sums(counts: Floats, inverse: Floats, tops: Floats, shape: float, rates: Floats, out: Floats) -> None:
    """``out[j] = sum(exp(tops + log_likelihood_column(rates[j])))``; terms below exp(-708) count as 0."""
    out[:] = 0.0
    logs = np.empty(ROWS)
    for start in range(0, counts.size, ROWS):
        length = min(ROWS, counts.size - start)
        top = tops[start : start + length]
        for j in range(rates.size):
            log_likelihood_column(
                counts[start : start + length], inverse[start : start + length], shape, rates[j], logs[:length]
            )
            total = 0.0
            for i in range(length):
                total += exp_of_negative(min(top[i] + logs[i], _LARGEST))
            out[j] += total


@kernel
def peaks(
    counts: Floats, inverse: Floats, tops: Floats, shape: float, low: float, high: float, cosine: float, out: Floats
) -> float:
    """``out``: the largest modulus of each term of `ratio_sums` for log rates in a strip of the complex plane.

    The strip is ``log(low) <= z.real <= log(high)``, ``abs(z.imag) <= arccos(cosine)``; with a cosine of 1 it is an
    interval. Along the real direction each modulus has one maximum. It lies at a ratio r of 1 / cosine for points, and
    at the positive root S = r x of S² + (a - x) cosine S - x a for gammas. Returns the mean
    information of a count about the log rate at these maxima.
    """
    total, weighted = 0.0, 0.0
    if shape == math.inf:
        best, lost = 1.0 / cosine, 1.0 - cosine
        for i in range(counts.size):
            x = counts[i]
            ratio = min(max(best, inverse[i] * low), inverse[i] * high)
            beyond = min(max(best - 1.0, beyond_rate(inverse[i], low)), beyond_rate(inverse[i], high))
            loss = point_loss(x, ratio, beyond) + x * ratio * lost
            out[i] = exp_of_negative(min(tops[i] + loss, _LARGEST))
            weighted += out[i] * x * ratio
    elif cosine == 1.0:
        for i in range(counts.size):
            x = counts[i]
            ratio = min(max(1.0, inverse[i] * low), inverse[i] * high)
            beyond = min(max(0.0, beyond_rate(inverse[i], low)), beyond_rate(inverse[i], high))
            out[i] = exp_of_negative(min(tops[i] + gamma_loss(x, ratio, beyond, shape), _LARGEST))
            weighted += out[i] * shape * x * ratio / (shape + x * ratio)
    else:
        for i in range(counts.size):
            x, size = counts[i], shape + counts[i]
            half = 0.5 * (x - shape) * cosine
            root = math.sqrt(half * half + x * shape)
            # the one of the two forms in which nothing cancels
            best = (half + root if half > 0.0 else (x * shape) / (root - half)) / x
            ratio = min(max(best, inverse[i] * low), inverse[i] * high)
            beyond = min(max(best - 1.0, beyond_rate(inverse[i], low)), beyond_rate(inverse[i], high))
            expected = x * ratio
            # |a + S e^{iv}|² / (a + x)² = 1 + ((S - x) (S + x + 2 a) - 2 a S (1 - cosine)) / (a + x)²
            change = x * beyond * (expected + size + shape) - 2.0 * shape * expected * (1.0 - cosine)
            square = shape * shape + expected * expected + 2.0 * shape * expected * cosine
            other = log_beside_one(square / (size * size), max(change / (size * size), -1.0))
            loss = x * log_beside_one(ratio, beyond) - 0.5 * size * other
            out[i] = exp_of_negative(min(tops[i] + loss, _LARGEST))
            weighted += out[i] * shape * expected / (shape + expected)
    for i in range(counts.size):
        total += out[i]
    return weighted / total if total > 0.0 else 0.0


@kernel
def peak_sums(
    observed: tuple[Floats, Floats, Floats, float], strips: Observed, out: Floats, information: Floats
) -> None:
    """``out[j] = sum(peaks)`` and the mean information in strip j, of ``lows, highs, cosines = strips``."""
    (counts, inverse, tops, shape), (lows, highs, cosines) = observed, strips
    terms = np.empty(counts.size)
    for j in range(lows.size):
        information[j] = peaks(counts, inverse, tops, shape, lows[j], highs[j], cosines[j], terms)
        out[j] = 0.0
        for i in range(counts.size):
            out[j] += terms[i]
