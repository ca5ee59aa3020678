"""Kernels over one block of rows that work on one component at a time, on rates that are kept for every nonzero."""

from __future__ import annotations

from partwise.kernels.arrays import Floats, Indices, Numbers, Starts
from partwise.kernels.jit import kernel
from partwise.kernels.sums import inner_product


@kernel
def cell_rates(
    indptr: Starts, indices: Indices, factor: Floats, other: Floats, start: int, stop: int, out: Floats
) -> None:
    """``out = (factor @ other.T)[cells]`` for the stored cells."""
    for n in range(start, stop):
        row = factor[n]
        for p in range(indptr[n], indptr[n + 1]):
            column = other[indices[p]]
            rate = inner_product(row, column)
            out[p] = rate


@kernel
def component_counts(
    indptr: Starts,
    indices: Indices,
    values: Numbers,
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
    indptr: Starts,
    indices: Indices,
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
