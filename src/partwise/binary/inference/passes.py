"""One pass over all cells with given weights: expected counts of labels by BLAS, in blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.kernels.likelihood import reciprocals_of_cells
from partwise.engines.base import Engine

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RowWeights:
    """Weights of the rows' side for ones and for zeros (rows x components)."""

    ones: Floats
    zeros: Floats


@dataclass(frozen=True)
class ExpectedCounts:
    """Expected counts of labels given weights.

    Attributes
    ----------
    rows
        Rows x components x bit, or, for Dir-Dir, rows x components.
    columns
        Columns x components.
    log_normaliser
        Σ over cells of the logarithm of what their weights sum to.
    """

    rows: Floats
    columns: Floats
    log_normaliser: float


def expected_counts(cells: Cells, rows: RowWeights, columns: Floats, engine: Engine) -> ExpectedCounts:
    """Responsibilities r_nfk proportional to w_fk q_nk(x), summed over columns (by bit) and over rows."""
    row_counts = np.empty((*rows.ones.shape, 2))

    def one(block: tuple[int, int]) -> tuple[Floats, float]:
        start, stop = block
        as_one, as_zero = rows.ones[start:stop], rows.zeros[start:stop]
        ones, zeros = as_one @ columns.T, as_zero @ columns.T
        total = reciprocals_of_cells(cells.row_starts, cells.codes, start, stop, zeros, ones)
        row_counts[start:stop, :, 1] = as_one * (ones @ columns)
        row_counts[start:stop, :, 0] = as_zero * (zeros @ columns)
        return ones.T @ as_one + zeros.T @ as_zero, total

    totals, log_normaliser = engine.map_reduce(one, cells.blocks)
    return ExpectedCounts(row_counts, columns * totals, float(log_normaliser))


def expected_pair_counts(cells: Cells, rows: Floats, columns: Floats, engine: Engine) -> ExpectedCounts:
    """The same for Dir-Dir: a one has both labels equal, a zero any two that differ."""
    row_counts = np.empty_like(rows)
    other_rows, other_columns = sum_of_others(rows), sum_of_others(columns)

    def one(block: tuple[int, int]) -> tuple[Floats, float]:
        start, stop = block
        as_one, as_zero = rows[start:stop], other_rows[start:stop]
        ones, zeros = as_one @ columns.T, as_zero @ columns.T
        total = reciprocals_of_cells(cells.row_starts, cells.codes, start, stop, zeros, ones)
        row_counts[start:stop] = as_one * (ones @ columns + zeros @ other_columns)
        return ones.T @ as_one + zeros.T @ as_zero, total

    totals, log_normaliser = engine.map_reduce(one, cells.blocks)
    return ExpectedCounts(row_counts, columns * totals, float(log_normaliser))


def sum_of_others(weights: Floats) -> Floats:
    """Σ over l != k of weights[:, l]; where one is nearly all, the others are added up, not subtracted."""
    others: Floats = weights.sum(axis=1, keepdims=True) - weights
    at = np.arange(weights.shape[0])
    largest = weights.argmax(axis=1)
    rest = weights.copy()
    rest[at, largest] = 0.0
    others[at, largest] = rest.sum(axis=1)
    return others
