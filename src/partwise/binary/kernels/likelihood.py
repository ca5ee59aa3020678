"""Log-likelihood of observed cells."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.jit import kernel


@kernel
def log_likelihood_of_block(
    row_starts: NDArray[np.int64], codes: NDArray[np.int32], probability: NDArray[np.float64], start: int, stop: int
) -> tuple[float, float]:
    """``np.log(np.where(X == 1, probability, 1 - probability))[observed].sum(), probability[observed].sum()``.

    Over rows ``start`` to ``stop``, which alone ``probability`` holds.
    """
    total, observed = 0.0, 0.0
    for n in range(start, stop):
        # logarithms of products: a quarter of the calls, and far from underflow
        part = 0.0
        product = 1.0
        for p in range(row_starts[n], row_starts[n + 1]):
            one = probability[n - start, codes[p] >> 1]
            observed += one
            product *= one if codes[p] & 1 else 1.0 - one
            if product < 1e-100:
                part += math.log(product)
                product = 1.0
        total += part + math.log(product)
    return total, observed


@kernel
def reciprocals_of_cells(
    row_starts: NDArray[np.int64],
    codes: NDArray[np.int32],
    start: int,
    stop: int,
    zeros: NDArray[np.float64],
    ones: NDArray[np.float64],
) -> float:
    """``ones[:], zeros[:] = np.where(X == 1, 1 / ones, 0), np.where(X == 0, 1 / zeros, 0)``, and the sum of logarithms.

    Takes the normalisers that each cell of a block of rows would have as a one and as a zero. Missing cells give 0.
    """
    n_columns = ones.shape[1]
    bits = np.empty(n_columns, np.int8)
    total = 0.0
    for n in range(start, stop):
        bits[:] = -1
        for p in range(row_starts[n], row_starts[n + 1]):
            bits[codes[p] >> 1] = codes[p] & 1
        product = 1.0
        part = 0.0
        for f in range(n_columns):
            one, zero = ones[n - start, f], zeros[n - start, f]
            seen = one if bits[f] == 1 else (zero if bits[f] == 0 else 1.0)
            inverse = 1.0 / seen
            ones[n - start, f] = inverse if bits[f] == 1 else 0.0
            zeros[n - start, f] = inverse if bits[f] == 0 else 0.0
            product *= seen
            if product < 1e-100:
                part += math.log(product)
                product = 1.0
        total += part + math.log(product)
    return total
