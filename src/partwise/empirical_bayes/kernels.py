"""Kernels over one block of rows that update one component at a time; the rate of every nonzero is stored."""

from partwise.kernels.arrays import Cells, Floats, Indices, Starts
from partwise.kernels.jit import kernel
from partwise.kernels.sums import inner_product

Component = tuple[Floats, Floats]
"""Its activations, and its column of the dictionary; or the other way round."""


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
    cells: Cells, rates: Floats, row_part: Floats, column_part: Floats, start: int, stop: int, out: Floats
) -> None:
    """``out = row_part * ((X / rates) @ column_part)``: expected counts of one component in each row."""
    indptr, indices, values = cells
    for n in range(start, stop):
        total = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            total += values[p] / rates[p] * column_part[indices[p]]
        out[n] = row_part[n] * total


@kernel
def replace_component(
    indptr: Starts, indices: Indices, old: Component, fresh: Component, start: int, stop: int, rates: Floats
) -> None:
    """``rates += new_row * new_column - old_row * old_column`` for the stored cells, and never below the new part."""
    (old_row, old_column), (new_row, new_column) = old, fresh
    for n in range(start, stop):
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            new = new_row[n] * new_column[f]
            rates[p] = max(rates[p] + (new - old_row[n] * old_column[f]), new, 1e-14 * rates[p])
