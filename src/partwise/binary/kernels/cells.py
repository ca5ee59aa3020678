"""Lists of observed cells, and counts of labels."""

from __future__ import annotations

from partwise.kernels.arrays import Counts, Floats, Indices, Numbers, Starts
from partwise.kernels.jit import kernel


@kernel
def list_cells(
    indptr: Starts,
    indices: Indices,
    missing_indptr: Starts,
    missing_indices: Indices,
    cell_starts: Starts,
    n_columns: int,
    out: Indices,
) -> None:
    """``out = (2 * columns + X[rows, columns])``, with ``rows, columns = np.nonzero(~missing)``."""
    for n in range(indptr.size - 1):
        one, last_one = indptr[n], indptr[n + 1]
        hidden, last_hidden = missing_indptr[n], missing_indptr[n + 1]
        at = cell_starts[n]
        for f in range(n_columns):
            if hidden < last_hidden and missing_indices[hidden] == f:
                hidden += 1
            elif one < last_one and indices[one] == f:
                out[at] = 2 * f + 1
                one += 1
                at += 1
            else:
                out[at] = 2 * f
                at += 1


@kernel
def count_labels(
    row_starts: Starts,
    codes: Indices,
    column_starts: Starts,
    labels: Numbers,
    row_counts: Counts,
    column_counts: Counts,
) -> None:
    """``np.add.at(row_counts, (row, label, bit), 1); np.add.at(column_counts, (column, label), 1)`` for all cells.

    Labels are in the order of columns.
    """
    cursor = column_starts[:-1].copy()
    for n in range(row_starts.size - 1):
        for p in range(row_starts[n], row_starts[n + 1]):
            f, x = codes[p] >> 1, codes[p] & 1
            k = labels[cursor[f]]
            cursor[f] += 1
            row_counts[n, k, x] += 1
            column_counts[f, k] += 1


@kernel
def to_row_order(row_starts: Starts, codes: Indices, column_starts: Starts, by_column: Numbers, out: Numbers) -> None:
    """``out[p] = by_column[position of cell p in the order of columns]``."""
    cursor = column_starts[:-1].copy()
    for p in range(row_starts[-1]):
        f = codes[p] >> 1
        out[p] = by_column[cursor[f]]
        cursor[f] += 1


@kernel
def fill_indicators(row_starts: Starts, codes: Indices, start: int, stop: int, zeros: Floats, ones: Floats) -> None:
    """``ones[:], zeros[:] = (X[start:stop] == 1), (X[start:stop] == 0)``, both 0 in missing cells."""
    ones[:] = 0.0
    zeros[:] = 0.0
    for n in range(start, stop):
        for p in range(row_starts[n], row_starts[n + 1]):
            f = codes[p] >> 1
            if codes[p] & 1:
                ones[n - start, f] = 1.0
            else:
                zeros[n - start, f] = 1.0
