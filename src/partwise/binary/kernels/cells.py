"""Observed cells: their lists, labels and counts of labels, and sums over the cells of a block of rows."""

import math

import numpy as np

from partwise.kernels.arrays import Counts, Floats, Indices, Missing, Numbers, Starts, Words
from partwise.kernels.categories import categorical
from partwise.kernels.jit import inline_kernel, kernel
from partwise.kernels.streams import new_stream, seek
from partwise.kernels.sums import sum_of

Listed = tuple[Starts, Indices]
"""Where the cells of each row start, and their codes."""
Ordered = tuple[Starts, Indices, Starts]
"""The same, and where the cells of each column start."""

LEAST = 1e-12
"""What is left of a probability by rounding, where nothing but the cell itself speaks for what it shows."""


@kernel
def list_cells(
    ones: tuple[Starts, Indices], missing: Missing, cell_starts: Starts, n_columns: int, out: Indices
) -> None:
    """``out = (2 * columns + X[rows, columns])``, with ``rows, columns = np.nonzero(~missing)``."""
    (indptr, indices), (missing_indptr, missing_indices) = ones, missing
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
def count_labels(cells: Ordered, labels: Numbers, row_counts: Counts, column_counts: Counts) -> None:
    """``np.add.at(row_counts, (row, label, bit), 1); np.add.at(column_counts, (column, label), 1)`` for all cells.

    Labels are in the order of columns.
    """
    row_starts, codes, column_starts = cells
    cursor = column_starts[:-1].copy()
    for n in range(row_starts.size - 1):
        for p in range(row_starts[n], row_starts[n + 1]):
            f, x = codes[p] >> 1, codes[p] & 1
            k = labels[cursor[f]]
            cursor[f] += 1
            row_counts[n, k, x] += 1
            column_counts[f, k] += 1


@kernel
def to_row_order(cells: Ordered, by_column: Numbers, out: Numbers) -> None:
    """``out[p] = by_column[position of cell p in the order of columns]``."""
    row_starts, codes, column_starts = cells
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


@kernel
def draw_labels(cells: Ordered, zeros: Floats, ones: Floats, columns: Floats, words: Words, out: Numbers) -> None:
    """For each cell: ``rng.choice(K, p=normalise(columns[f] * (ones if X[n, f] else zeros)[n]))``, by columns."""
    row_starts, codes, column_starts = cells
    weights = np.empty(columns.shape[1])
    stream = new_stream()
    cursor = column_starts[:-1].copy()
    for n in range(row_starts.size - 1):
        seek(stream, words[0], words[1], np.uint64(0), n)
        for p in range(row_starts[n], row_starts[n + 1]):
            f, is_one = codes[p] >> 1, codes[p] & 1 == 1
            for k in range(weights.size):
                weights[k] = columns[f, k] * (ones[n, k] if is_one else zeros[n, k])
            out[cursor[f]] = max(categorical(stream, weights, sum_of(weights)), 0)
            cursor[f] += 1


@inline_kernel
def _multiplied(part: float, product: float, factor: float) -> tuple[float, float]:
    """``part + log(product * factor)`` as a sum and a product, so that few logarithms are taken and nothing underflows.

    Factors may be almost 0, or above 1 if they are sums of weights.
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

    Over rows ``start`` to ``stop``; ``probability`` holds these rows only.
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
def add_left_out(
    cells: Ordered,
    labels: Numbers,
    probability: Floats,
    counts: tuple[Counts, Counts],
    priors: tuple[Floats, Floats],
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out[p] += 1 / P(X[p] | labels of all cells but p)`` for the cells of rows ``start`` to ``stop`` (Eq. 25).

    Without the cell, the count of label k in its column is one lower, and so is that of the bit in the part's row.
    ``probability`` holds P(X = 1) of these rows with the cell counted. Labels are in the order of rows.
    """
    (row_starts, codes, column_starts), (row_counts, column_counts), (prior, concentration) = cells, counts, priors
    whole = sum_of(concentration)
    for n in range(start, stop):
        for p in range(row_starts[n], row_starts[n + 1]):
            f, x, k = codes[p] >> 1, codes[p] & 1, labels[p]
            one = probability[n - start, f]
            size = whole + (column_starts[f + 1] - column_starts[f])
            weight = concentration[k] + column_counts[f, k]
            shown = prior[k, x] + row_counts[n, k, x]
            both = prior[k, 0] + prior[k, 1] + row_counts[n, k, 0] + row_counts[n, k, 1]
            rest = size * (one if x else 1.0 - one) - weight * shown / both
            rest += (weight - 1.0) * (shown - 1.0) / (both - 1.0)
            out[p] += (size - 1.0) / max(rest, LEAST)


@kernel
def add_left_out_pairs(
    cells: Ordered,
    labels: tuple[Numbers, Numbers],
    probability: Floats,
    counts: tuple[Counts, Counts],
    concentrations: tuple[Floats, Floats],
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """The same for Dir-Dir, where a cell has one label from its column and one from its row (Eq. 59)."""
    (row_starts, codes, column_starts), (by_column, by_row) = cells, labels
    (row_counts, column_counts), (concentration, row_concentration) = counts, concentrations
    whole, row_whole = sum_of(concentration), sum_of(row_concentration)
    for n in range(start, stop):
        row_size = row_whole + (row_starts[n + 1] - row_starts[n])
        for p in range(row_starts[n], row_starts[n + 1]):
            f, x, k, j = codes[p] >> 1, codes[p] & 1, by_column[p], by_row[p]
            size = whole + (column_starts[f + 1] - column_starts[f])
            rest = probability[n - start, f] * size * row_size + (1.0 if k == j else 0.0)
            rest -= row_concentration[k] + row_counts[n, k] + concentration[j] + column_counts[f, j]
            every = (size - 1.0) * (row_size - 1.0)
            out[p] += every / max(rest if x else every - rest, LEAST)


@kernel
def reciprocals_of_cells(
    row_starts: Starts, codes: Indices, bit: int, start: int, stop: int, normalisers: Floats
) -> float:
    """``normalisers[:] = np.where(X == bit, 1 / normalisers, 0)``, and the sum of the logarithms of those.

    For a block of rows; missing cells give 0.
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
    cells: Listed, bit: int, factors: tuple[Floats, Floats, Floats], start: int, stop: int, out: tuple[Floats, Floats]
) -> float:
    """``G = np.where(X == bit, 1 / (rows @ columns.T), 0); out_rows[:] = G @ back; out_columns += G.T @ rows``.

    Cell by cell, for a bit that is rare in the block; returns the sum of the logarithms of the normalisers.
    ``out_rows`` holds the rows of the block only.
    """
    (row_starts, codes), (rows, columns, back), (out_rows, out_columns) = cells, factors, out
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
