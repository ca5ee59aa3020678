"""Kernels over one block of rows of counts with rates ``factor @ other.T``; transposed data give the other side.

Throughout, ``factor`` is the side whose rows are visited (rows of the data x components), and ``other`` the side that
is held (columns of the data x components); the rate of a cell is ``factor[n] @ other[f]``.
"""

import math

import numpy as np

from partwise.kernels.arrays import Cells, Floats, Indices, Missing, Starts
from partwise.kernels.jit import kernel

_CELLS_AT_ONCE = 16


@kernel
def expected_counts(
    cells: Cells, factor: Floats, other: Floats, with_logs: bool, start: int, stop: int, out: Floats
) -> float:
    """``out = factor * ((X / (factor @ other.T)) @ other)``, the expected allocation totals of an E-step.

    Returns ``(X * log(factor @ other.T)).sum()`` over the block if ``with_logs``, else 0.
    """
    indptr, indices, values = cells
    n_components = factor.shape[1]
    # First the rates of a few cells, then what these cells add, both four at a time. Cell by cell, every sum would wait
    # for a division, and `row` and `counts` would be read and written for each cell.
    ratio = np.empty(_CELLS_AT_ONCE + 3)
    total = 0.0
    for n in range(start, stop):
        row = factor[n]
        counts = out[n]
        for k in range(n_components):
            counts[k] = 0.0
        for first in range(indptr[n], indptr[n + 1], _CELLS_AT_ONCE):
            size = min(_CELLS_AT_ONCE, indptr[n + 1] - first)
            last = first + size - 1
            for p in range(0, size, 4):
                column = other[indices[first + p]]
                column_1 = other[indices[min(first + p + 1, last)]]
                column_2 = other[indices[min(first + p + 2, last)]]
                column_3 = other[indices[min(first + p + 3, last)]]
                rate_0, rate_1, rate_2, rate_3 = 0.0, 0.0, 0.0, 0.0
                for k in range(n_components):
                    rate_0 += row[k] * column[k]
                    rate_1 += row[k] * column_1[k]
                    rate_2 += row[k] * column_2[k]
                    rate_3 += row[k] * column_3[k]
                ratio[p], ratio[p + 1], ratio[p + 2], ratio[p + 3] = rate_0, rate_1, rate_2, rate_3
            if with_logs:
                for p in range(size):
                    total += values[first + p] * math.log(ratio[p])
            for p in range(size):
                ratio[p] = values[first + p] / ratio[p]
            # The last group is padded with its last cell, with weight 0.
            ratio[size : size + 3] = 0.0
            for p in range(0, size, 4):
                column = other[indices[first + p]]
                column_1 = other[indices[min(first + p + 1, last)]]
                column_2 = other[indices[min(first + p + 2, last)]]
                column_3 = other[indices[min(first + p + 3, last)]]
                ratio_0, ratio_1, ratio_2, ratio_3 = ratio[p], ratio[p + 1], ratio[p + 2], ratio[p + 3]
                for k in range(n_components):
                    counts[k] += (
                        ratio_0 * column[k] + ratio_1 * column_1[k] + ratio_2 * column_2[k] + ratio_3 * column_3[k]
                    )
        for k in range(n_components):
            counts[k] *= row[k]
    return total


@kernel
def row_exposure(missing: Indices, totals: Floats, other: Floats, out: Floats) -> None:
    """``out = other[observed].sum(axis=0)``: what each component is exposed to in a row with missing columns.

    ``totals`` is ``other.sum(axis=0)``. The missing columns are subtracted from it where that keeps at least half of
    the digits; otherwise the observed ones are summed, so that a row without observed columns is exposed to exactly 0.
    """
    n_columns, n_components = other.shape
    if 2 * missing.size <= n_columns:
        accurate = True
        for k in range(n_components):
            out[k] = totals[k]
        for f in missing:
            for k in range(n_components):
                out[k] -= other[f, k]
        for k in range(n_components):
            accurate = accurate and out[k] >= 1e-8 * totals[k]
        if accurate:
            return
    for k in range(n_components):
        out[k] = 0.0
    next_missing = 0
    for f in range(n_columns):
        if next_missing < missing.size and missing[next_missing] == f:
            next_missing += 1
            continue
        for k in range(n_components):
            out[k] += other[f, k]


@kernel
def weighted_exposures(
    absent: Missing, weighted: tuple[Floats, Indices, Indices], other: Floats, start: int, stop: int, out: Floats
) -> None:
    """``out[n] -= (W[n] * missing[n]) @ other`` with ``W[n, f] = weights[row_groups[n], column_groups[f]]``.

    On entry, ``out[n]`` is ``W[n] @ other``. Where less than half of the digits would be left, the observed columns are
    summed instead, as by `row_exposure`.
    """
    (missing_indptr, missing_indices), (weights, row_groups, column_groups) = absent, weighted
    n_columns, n_components = other.shape
    before = np.empty(n_components)
    for n in range(start, stop):
        missing = missing_indices[missing_indptr[n] : missing_indptr[n + 1]]
        weight = weights[row_groups[n]]
        accurate = 2 * missing.size <= n_columns
        if accurate:
            before[:] = out[n]
            for f in missing:
                for k in range(n_components):
                    out[n, k] -= weight[column_groups[f]] * other[f, k]
            for k in range(n_components):
                accurate = accurate and out[n, k] >= 1e-8 * before[k]
        if accurate:
            continue
        out[n] = 0.0
        next_missing = 0
        for f in range(n_columns):
            if next_missing < missing.size and missing[next_missing] == f:
                next_missing += 1
                continue
            for k in range(n_components):
                out[n, k] += weight[column_groups[f]] * other[f, k]


@kernel
def exposures(
    missing_indptr: Starts, missing_indices: Indices, totals: Floats, other: Floats, start: int, stop: int, out: Floats
) -> None:
    """``out[n] = other[observed[n]].sum(axis=0)`` for each row of the block."""
    for n in range(start, stop):
        row_exposure(missing_indices[missing_indptr[n] : missing_indptr[n + 1]], totals, other, out[n])
