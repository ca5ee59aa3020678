"""Categorical and multinomial draws from a stream, with weights that need not sum to one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partwise.kernels.discrete import binomial
from partwise.kernels.inner import inner_kernel
from partwise.kernels.streams import Stream, next_uniform

# Up to this many draws a category, drawing them one by one is faster than conditional binomials.
_DRAWS_PER_CATEGORY = 2
# The weight that remains is summed afresh when subtraction has cost it this much of its precision.
_CANCELLATION = 1e-3


@inner_kernel
def categorical(stream: Stream, weights: npt.NDArray[np.float64], total: float) -> int:
    """``rng.choice(len(weights), p=weights / total)``: an index of positive weight; total = sum of the weights."""
    rest = next_uniform(stream) * total
    for k in range(weights.shape[0]):
        rest -= weights[k]
        if rest < 0.0:
            return k
    return _last_positive(weights)


@inner_kernel
def _last_positive(weights: npt.NDArray[np.float64]) -> int:
    for k in range(weights.shape[0] - 1, -1, -1):
        if weights[k] > 0.0:
            return k
    return -1


@inner_kernel
def multinomial(
    stream: Stream, n: int, weights: npt.NDArray[np.float64], total: float, out: npt.NDArray[np.int64]
) -> None:
    """``out[:] = rng.multinomial(n, weights / total)``, summing to n, 0 where the weight is 0.

    The total need only be the sum of the weights up to rounding. Some weight must be positive, unless n is 0.
    """
    for k in range(weights.shape[0]):
        out[k] = 0
    if n <= _DRAWS_PER_CATEGORY * weights.shape[0]:
        for _ in range(n):
            out[categorical(stream, weights, total)] += 1
    else:
        _multinomial_by_binomials(stream, n, weights, total, out)


@inner_kernel
def _multinomial_by_binomials(
    stream: Stream, n: int, weights: npt.NDArray[np.float64], total: float, out: npt.NDArray[np.int64]
) -> None:
    last = _last_positive(weights)
    rest = total
    reliable = _CANCELLATION * total
    for k in range(last):
        if weights[k] <= 0.0:
            continue
        count = binomial(stream, n, weights[k] / rest)
        out[k] = count
        n -= count
        if n == 0:
            return
        rest -= weights[k]
        if rest < reliable:
            rest = 0.0
            for j in range(k + 1, last + 1):
                rest += weights[j]
            reliable = _CANCELLATION * rest
    out[last] = n
