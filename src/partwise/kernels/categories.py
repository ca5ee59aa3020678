"""Categorical and multinomial draws from a stream, with weights that need not sum to one."""

from partwise.kernels.arrays import Floats, Integers
from partwise.kernels.discrete import binomial, poisson
from partwise.kernels.jit import inline_kernel, inner_kernel
from partwise.kernels.streams import Stream, next_uniform
from partwise.kernels.sums import sum_of

_GROUP = 8
_LONGEST_SEARCH = 16
# Sum the remaining weight again when subtraction has cost it this much of its precision.
_CANCELLATION = 1e-3


@inline_kernel
def categorical(stream: Stream, weights: Floats, total: float) -> int:
    """``rng.choice(len(weights), p=weights / total)``: an index of positive weight, or -1 without one.

    The total may differ from the sum of the weights by rounding.
    """
    rest = next_uniform(stream) * total
    index = 0
    stop = weights.shape[0]
    while index + _LONGEST_SEARCH < weights.shape[0]:
        group = 0.0
        for k in range(index, index + _GROUP):
            group += weights[k]
        if rest < group:
            stop = index + _GROUP
            break
        rest -= group
        index += _GROUP
    # Counting costs less than leaving the loop early, which the processor cannot predict.
    for k in range(index, stop):
        rest -= weights[k]
        index += rest >= 0.0
    if index < stop and weights[index] > 0.0:
        return index
    return _nearest_positive(weights, index)  # rounding let the draw slip past


@inner_kernel
def _nearest_positive(weights: Floats, start: int) -> int:
    # The first positive weight from start on, or else the last before it.
    for k in range(start, weights.shape[0]):
        if weights[k] > 0.0:
            return k
    for k in range(start - 1, -1, -1):
        if weights[k] > 0.0:
            return k
    return -1


@inner_kernel
def multinomial(stream: Stream, n: int, weights: Floats, total: float, out: Integers) -> None:
    """``out[:] = rng.multinomial(n, weights / total)``, summing to n, 0 where the weight is 0.

    The total may differ from the sum of the weights by rounding. If no weight is positive, the last entry gets n.
    """
    for k in range(weights.shape[0]):
        out[k] = 0
    if n <= min(2 * weights.shape[0], 12 + 3 * weights.shape[0] // 5):  # where the two methods were measured to meet
        for _ in range(n):
            out[categorical(stream, weights, total)] += 1
    else:
        _multinomial_by_binomials(stream, n, weights, total, out)


@inner_kernel
def poisson_parts(stream: Stream, row: Floats, column: Floats, weights: Floats, out: Integers) -> int:
    """``out[:] = rng.poisson(row * column); out.sum()``: the sum, which is 0 in most cells, is drawn first.

    ``weights`` is a buffer as long as ``out``. The row and the column may be longer.
    """
    for k in range(out.size):
        weights[k] = row[k] * column[k]
    total = sum_of(weights)
    count = poisson(stream, total)
    multinomial(stream, count, weights, total, out)
    return count


@inner_kernel
def _multinomial_by_binomials(stream: Stream, n: int, weights: Floats, total: float, out: Integers) -> None:
    last = _nearest_positive(weights, weights.shape[0])
    rest = total
    reliable = _CANCELLATION * total
    for k in range(last):
        weight = weights[k]
        if weight <= 0.0:
            continue
        rest -= weight
        if rest < reliable:
            rest = 0.0
            for j in range(k + 1, last + 1):
                rest += weights[j]
            reliable = _CANCELLATION * rest
        # Draw the rarer side, because 1 - p would round a tiny remaining share.
        count = binomial(stream, n, min(weight, rest) / (weight + rest))
        if weight > rest:
            count = n - count
        out[k] = count
        n -= count
        if n == 0:
            return
    out[last] = n
