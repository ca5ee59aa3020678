"""One pass over all cells with given weights: expected counts of labels, by BLAS where a bit is common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.kernels.likelihood import reciprocals_of_cells, sums_of_rare_bit
from partwise.engines.base import Engine

Floats = NDArray[np.float64]

# Below this share of the cells, going from cell to cell beats matrix products over all of them.
_RARE = 0.12


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
    weights = (rows.zeros, rows.ones)

    def one(block: tuple[int, int]) -> tuple[Floats, float]:
        totals, logs = np.zeros_like(columns), 0.0
        start, stop = block
        for bit, own in enumerate(weights):
            sums, log = _bit_sums(cells, bit, own, columns, columns, block, totals)
            row_counts[start:stop, :, bit] = own[start:stop] * sums
            logs += log
        return totals, logs

    totals, log_normaliser = engine.map_reduce(one, cells.blocks)
    return ExpectedCounts(row_counts, columns * totals, float(log_normaliser))


def expected_pair_counts(cells: Cells, rows: Floats, columns: Floats, engine: Engine) -> ExpectedCounts:
    """The same for Dir-Dir: a one has both labels equal, a zero any two that differ."""
    row_counts = np.empty_like(rows)
    other_rows, other_columns = sum_of_others(rows), sum_of_others(columns)

    def one(block: tuple[int, int]) -> tuple[Floats, float]:
        totals = np.zeros_like(columns)
        start, stop = block
        zeros, log_zeros = _bit_sums(cells, 0, other_rows, columns, other_columns, block, totals)
        ones, log_ones = _bit_sums(cells, 1, rows, columns, columns, block, totals)
        row_counts[start:stop] = rows[start:stop] * (zeros + ones)
        return totals, log_zeros + log_ones

    totals, log_normaliser = engine.map_reduce(one, cells.blocks)
    return ExpectedCounts(row_counts, columns * totals, float(log_normaliser))


def _bit_sums(
    cells: Cells, bit: int, rows: Floats, columns: Floats, back: Floats, block: tuple[int, int], totals: Floats
) -> tuple[Floats, float]:
    """With G = 1 / (rows columns') in the cells of a block that show a bit: G back, and Σ log normalisers.

    ``totals`` grows by G' rows.
    """
    start, stop = block
    share = cells.share_of_ones if bit else 1.0 - cells.share_of_ones
    if share < _RARE:
        sums = np.empty((stop - start, columns.shape[1]))
        listed = cells.row_starts, cells.codes
        return sums, sums_of_rare_bit(*listed, bit, rows, columns, back, start, stop, sums, totals)
    own = rows[start:stop]
    inverse = own @ columns.T
    logs = reciprocals_of_cells(cells.row_starts, cells.codes, bit, start, stop, inverse)
    totals += inverse.T @ own
    return inverse @ back, logs


def sum_of_others(weights: Floats) -> Floats:
    """Σ over l != k of weights[:, l]; where one is nearly all, the others are added up, not subtracted."""
    others: Floats = weights.sum(axis=1, keepdims=True) - weights
    at = np.arange(weights.shape[0])
    largest = weights.argmax(axis=1)
    rest = weights.copy()
    rest[at, largest] = 0.0
    others[at, largest] = rest.sum(axis=1)
    return others
