"""Likelihoods of counts under components of one shape, and which components are close enough to matter.

All components have one shape a, and all likelihoods are relative to that of the best component of this shape, whose
mean is the rate x / s itself. A mean of r times that rate loses x (r - 1 - log r) nats under points (a infinite), and
(a + x) log(1 + x (r - 1) / (a + x)) - x log r in general. So nothing of size x log x is ever computed. With an r that
is exact to the last digit e, the error is about e x |r - 1|, which is e sqrt(x) wherever the likelihood matters.

An observation is given by ``counts`` (1e-200 in place of 0) and ``inverse``, the inverse s / x of its rate.
"""

import math

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.jit import inline_kernel, kernel
from partwise.priors.base import Floats
from partwise.priors.kernels.elementary import exp_of_negative, log_beside_one

# Used for a count of 0: its ratio to the expected count is still finite, and its logarithm negligible.
NO_COUNT = 1e-200
# Rows that are processed at once.
ROWS = 128
# Components this many nats below the best of a row are negligible there: they would need weights above e^40.
_FAR = 100.0


@inline_kernel
def beyond_rate(inverse: float, rate: float) -> float:
    """``inverse * rate - 1``. The maximum keeps compilers from adding the 1 to another term, which loses digits."""
    return max(inverse * rate - 1.0, -1.0)


@inline_kernel
def point_loss(count: float, ratio: float, beyond: float) -> float:
    """``x * (log(r) - (r - 1))``, ``beyond = r - 1``."""
    return count * (log_beside_one(ratio, beyond) - beyond)


@inline_kernel
def gamma_loss(count: float, ratio: float, beyond: float, shape: float) -> float:
    """``x * log(r) - (shape + x) * log((shape + x * r) / (shape + x))``, ``beyond = r - 1``.

    As ``x * log(r * q) + shape * log(q)``, ``q = (shape + x) / (shape + x * r)``: neither term is large where x is.
    """
    size, mixed = shape + count, shape + count * ratio
    own = log_beside_one(ratio * size / mixed, max(shape * beyond / mixed, -1.0))
    return count * own - shape * log_beside_one(mixed / size, max(count * beyond / size, -1.0))


@inline_kernel
def _log_likelihood(count: float, inverse: float, shape: float, mean: float) -> float:
    """``log p(x | mean) - log p(x | x / s)`` of one observation; 0 for a mean of 0."""
    if shape < math.inf:
        return gamma_loss(count, inverse * mean, beyond_rate(inverse, mean), shape)
    return point_loss(count, inverse * mean, beyond_rate(inverse, mean))


@kernel
def log_likelihood_column(counts: Floats, inverse: Floats, shape: float, mean: float, out: Floats) -> None:
    """``out = log p(x | mean) - log p(x | x / s)`` of each observation."""
    if mean == 0.0:
        for i in range(counts.size):
            out[i] = -math.inf if counts[i] > NO_COUNT else 0.0
    else:
        for i in range(counts.size):
            out[i] = _log_likelihood(counts[i], inverse[i], shape, mean)


@kernel
def near_components(counts: Floats, inverse: Floats, shape: float, means: Floats) -> tuple[int, int]:
    """First and one past the last of the sorted components that are not negligible beside the best in some row.

    Each likelihood falls on both sides of its rate, and the faster the larger the count. So the least count at the
    lowest or the highest rate bounds all rows under a component beyond these.
    """
    least, low, high, worst = math.inf, math.inf, 0.0, 0.0
    first, last = means.size, 0
    for i in range(counts.size):
        least, low, high = min(least, counts[i]), min(low, inverse[i]), max(high, inverse[i])
        # The best component of a row is one of those around its rate.
        after = np.searchsorted(means, 1.0 / inverse[i] if inverse[i] > 0.0 else math.inf)
        best = -math.inf
        for j in range(max(after - 1, 0), min(after + 1, means.size)):
            if means[j] > 0.0 or counts[i] == NO_COUNT:
                best = max(best, _log_likelihood(counts[i], inverse[i], shape, means[j]))
            first, last = min(first, j), max(last, j + 1)
        worst = min(worst, best)
    while first > 0 and (
        means[first - 1] * high > 1.0 or _log_likelihood(least, high, shape, means[first - 1]) > worst - _FAR
    ):
        first -= 1
    while last < means.size and (
        means[last] * low < 1.0 or _log_likelihood(least, low, shape, means[last]) > worst - _FAR
    ):
        last += 1
    return first, last


@kernel
def near_columns(counts: Floats, inverse: Floats, shape: float, means: Floats, maxima: Floats, out: Floats) -> None:
    """``out = exp(logs - logs.max(axis=1)[:, None])`` of `log_likelihood_column` of each mean, where not negligible.

    ``out`` comes as zeros; ``maxima`` are those of blocks of rows.
    """
    largest = np.empty(ROWS)
    maxima[:] = 0.0
    for b in range(maxima.shape[0]):
        start, stop = b * ROWS, min((b + 1) * ROWS, counts.size)
        x, inverse_rate, top = counts[start:stop], inverse[start:stop], largest[: stop - start]
        first, last = near_components(x, inverse_rate, shape, means)
        top[:] = -math.inf
        for j in range(first, last):
            column = out[start:stop, j]
            log_likelihood_column(x, inverse_rate, shape, means[j], column)
            for i in range(top.size):
                top[i] = max(top[i], column[i])
        for j in range(first, last):
            column, highest = out[start:stop, j], 0.0
            for i in range(top.size):
                column[i] = exp_of_negative(column[i] - top[i])
                highest = max(highest, column[i])
            maxima[b, j] = highest


@kernel
def add_products(block: Floats, ranges: NDArray[np.int64], inside: NDArray[np.int64], out: Floats) -> None:
    """``out[inside[:, None], inside] += block @ block.T``.

    Row a of the block matters in ``ranges[a, 0] : ranges[a, 1]`` alone: observations in order of their rates share few
    components, also where a block spans many rates.
    """
    for a in range(inside.size):
        for c in range(a + 1):
            start, stop = max(ranges[a, 0], ranges[c, 0]), min(ranges[a, 1], ranges[c, 1])
            if start < stop:
                left, right = block[a, start:stop], block[c, start:stop]
                product = 0.0
                for i in range(left.size):
                    product += left[i] * right[i]
                out[inside[a], inside[c]] += product
                out[inside[c], inside[a]] = out[inside[a], inside[c]]


@kernel
def not_negligible(values: Floats, least: float, out: NDArray[np.int64]) -> bool:
    """``out``: the first and one past the last of the values above ``least``; False if there is none."""
    first, last = 0, values.size
    while first < last and values[first] <= least:
        first += 1
    while first < last and values[last - 1] <= least:
        last -= 1
    out[0], out[1] = first, last
    return first < last
