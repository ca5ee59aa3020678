"""Log-likelihood of observed cells."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.arrays import Floats, Indices, Starts
from partwise.kernels.inner import inline_kernel
from partwise.kernels.jit import kernel


@inline_kernel
def _multiplied(part: float, product: float, factor: float) -> tuple[float, float]:
    """``part + log(product * factor)`` as a sum and a product: few logarithms are taken, and nothing underflows.

    Factors may be next to nothing, or above 1 where they are sums of weights.
    """
    if factor < 1e-100:
        return part + math.log(factor), product
    product *= factor
    if product < 1e-100 or product > 1e100:
        return part + math.log(product), 1.0
    return part, product


@kernel
def log_likelihood_of_block(
    row_starts: Starts, codes: Indices, probability: Floats, start: int, stop: int
) -> tuple[float, float]:
    """``np.log(np.where(X == 1, probability, 1 - probability))[observed].sum(), probability[observed].sum()``.

    Over rows ``start`` to ``stop``, which alone ``probability`` holds.
    """
    total, observed = 0.0, 0.0
    for n in range(start, stop):
        part = 0.0
        product = 1.0
        for p in range(row_starts[n], row_starts[n + 1]):
            one = probability[n - start, codes[p] >> 1]
            observed += one
            seen = one if codes[p] & 1 else 1.0 - one
            part, product = _multiplied(part, product, seen)
        total += part + math.log(product)
    return total, observed


@kernel
def reciprocals_of_cells(
    row_starts: Starts, codes: Indices, bit: int, start: int, stop: int, normalisers: Floats
) -> float:
    """``normalisers[:] = np.where(X == bit, 1 / normalisers, 0)``, and the sum of the logarithms of those.

    Of a block of rows; missing cells give 0.
    """
    n_columns = normalisers.shape[1]
    is_it = np.empty(n_columns, np.bool_)
    total = 0.0
    for n in range(start, stop):
        is_it[:] = False
        for p in range(row_starts[n], row_starts[n + 1]):
            is_it[codes[p] >> 1] = codes[p] & 1 == bit
        product = 1.0
        part = 0.0
        for f in range(n_columns):
            seen = normalisers[n - start, f] if is_it[f] else 1.0
            normalisers[n - start, f] = 1.0 / seen if is_it[f] else 0.0
            part, product = _multiplied(part, product, seen)
        total += part + math.log(product)
    return total


@kernel
def sums_of_rare_bit(
    row_starts: Starts,
    codes: Indices,
    bit: int,
    rows: Floats,
    columns: Floats,
    back: Floats,
    start: int,
    stop: int,
    out_rows: Floats,
    out_columns: Floats,
) -> float:
    """``G = np.where(X == bit, 1 / (rows @ columns.T), 0); out_rows[:] = G @ back; out_columns += G.T @ rows``.

    Cell by cell, for a bit that few cells of the block show; returns the sum of the logarithms of their normalisers.
    ``out_rows`` holds the rows of the block alone.
    """
    n_components = columns.shape[1]
    total = 0.0
    for n in range(start, stop):
        here = out_rows[n - start]
        here[:] = 0.0
        own = rows[n]
        for p in range(row_starts[n], row_starts[n + 1]):
            if codes[p] & 1 != bit:
                continue
            f = codes[p] >> 1
            normaliser = 0.0
            for k in range(n_components):
                normaliser += own[k] * columns[f, k]
            inverse = 1.0 / normaliser
            total += math.log(normaliser)
            for k in range(n_components):
                here[k] += inverse * back[f, k]
                out_columns[f, k] += inverse * own[k]
    return total
