"""A variational posterior of one row's allocations: a quick guess of where its tokens belong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel

Floats = NDArray[np.float64]

_MOST_ITERATIONS = 50
_TOLERANCE = 1e-2


@inner_kernel
def digamma(x: float) -> float:
    """``scipy.special.digamma(x)`` for x > 0, to 1e-12 or better relative to max(1, |value|)."""
    shift = 0.0
    while x < 8.0:
        shift += 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    series = 1.0 / 12.0 - inverse * (
        1.0 / 120.0
        - inverse * (1.0 / 252.0 - inverse * (1.0 / 240.0 - inverse * (1.0 / 132.0 - inverse * 691.0 / 32760.0)))
    )
    return math.log(x) - 0.5 / x - inverse * series - shift


@kernel
def variational_counts(
    counts: NDArray[Any], token_weights: Floats, shape: Floats, expected: Floats, totals: Floats
) -> None:
    """``expected = normalise(token_weights * exp(digamma(shape + totals)))``, ``totals = counts @ expected``, repeated.

    Mean-field variational inference for one row (MATH 1.2), from an even start until no total moves by more than a
    hundredth of a token.
    """
    size, n_components = token_weights.shape
    length = 0.0
    for p in range(size):
        length += counts[p]
    for k in range(n_components):
        totals[k] = length / n_components
    weights = np.empty(n_components)
    fresh = np.empty(n_components)
    for _ in range(_MOST_ITERATIONS):
        for k in range(n_components):
            weights[k] = math.exp(digamma(shape[k] + totals[k]))
            fresh[k] = 0.0
        for p in range(size):
            total = 0.0
            for k in range(n_components):
                expected[p, k] = token_weights[p, k] * weights[k]
                total += expected[p, k]
            # All weights of a cell may underflow together where shapes are tiny: then any guess will do.
            inverse = 1.0 / total if total > 0.0 else 0.0
            for k in range(n_components):
                expected[p, k] *= inverse
                fresh[k] += counts[p] * expected[p, k]
        change = 0.0
        for k in range(n_components):
            change = max(change, abs(fresh[k] - totals[k]))
            totals[k] = fresh[k]
        if change < _TOLERANCE:
            break
