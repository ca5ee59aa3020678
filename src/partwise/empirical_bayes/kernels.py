"""Kernels over one block of rows that work on one component at a time, on rates that are kept for every nonzero."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.jit import kernel

Floats = NDArray[np.float64]
Pointer = NDArray[np.int64]
Index = NDArray[np.int32]


@kernel
def cell_rates(
    indptr: Pointer, indices: Index, factor: Floats, other: Floats, start: int, stop: int, out: Floats
) -> None:
    """``out = (factor @ other.T)[cells]`` for the stored cells."""
    for n in range(start, stop):
        row = factor[n]
        for p in range(indptr[n], indptr[n + 1]):
            column = other[indices[p]]
            rate = 0.0
            for k in range(row.size):
                rate += row[k] * column[k]
            out[p] = rate


@kernel
def component_counts(
    indptr: Pointer,
    indices: Index,
    values: NDArray[Any],
    rates: Floats,
    row_part: Floats,
    column_part: Floats,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out = row_part * ((X / rates) @ column_part)``: expected counts of one component in each row."""
    for n in range(start, stop):
        total = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            total += values[p] / rates[p] * column_part[indices[p]]
        out[n] = row_part[n] * total


@kernel
def replace_component(
    indptr: Pointer,
    indices: Index,
    old_row: Floats,
    old_column: Floats,
    new_row: Floats,
    new_column: Floats,
    start: int,
    stop: int,
    rates: Floats,
) -> None:
    """``rates += new_row * new_column - old_row * old_column`` for the stored cells, and never below the new part."""
    for n in range(start, stop):
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            new = new_row[n] * new_column[f]
            rates[p] = max(rates[p] + (new - old_row[n] * old_column[f]), new, 1e-14 * rates[p])
