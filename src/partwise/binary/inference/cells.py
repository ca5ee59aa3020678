"""The observed cells of a table of bits: their list, a pass over all of them, and the memory that a fit needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.binary.kernels.cells import Ordered, list_cells, reciprocals_of_cells, sums_of_rare_bit
from partwise.binary.model import Kind
from partwise.core.data import BinaryMatrix
from partwise.engines.base import Engine
from partwise.engines.blocks import row_blocks
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.sampling.draws import label_type

# Below this share of observed cells, going from cell to cell is faster than matrix products over all cells.
_RARE = 0.12
_FACTOR_BYTES = 60  # counts, sums and squares of each entry of a factor, and one or two copies


@dataclass(frozen=True, eq=False)
class Cells:
    """Observed cells, row by row: ``codes`` holds 2 x column + bit.

    Rows are the side with the beta factor (samples for Beta-Dir and Dir-Dir, features for Dir-Beta), and columns the
    side with the Dirichlet factor. So one algorithm serves a model and its mirror image.

    Attributes
    ----------
    shape
        Rows, columns.
    row_starts, column_starts
        Where each row (or column) begins in the list of cells ordered by rows (or columns).
    codes
        Four bytes per cell.
    matrix
        The data in the same orientation.
    """

    shape: tuple[int, int]
    row_starts: NDArray[np.int64]
    column_starts: NDArray[np.int64]
    codes: NDArray[np.int32]
    matrix: BinaryMatrix = field(repr=False)

    @classmethod
    def of(cls, data: BinaryMatrix, kind: Kind = "beta-dir") -> Cells:
        """List the cells of data (samples x features) in the orientation that a model needs."""
        matrix = data.transposed if kind == "dir-beta" else data
        n_rows, n_columns = matrix.shape
        hidden_in_columns = np.bincount(matrix.missing_indices, minlength=n_columns)
        row_starts = _starts(n_columns - np.diff(matrix.missing_indptr))
        codes = np.empty(int(row_starts[-1]), dtype=np.int32)
        missing = matrix.missing_indptr, matrix.missing_indices
        list_cells((matrix.indptr, matrix.indices), missing, row_starts, n_columns, codes)
        return cls(matrix.shape, row_starts, _starts(n_rows - hidden_in_columns), codes, matrix)

    @property
    def n_cells(self) -> int:
        """Number of observed cells."""
        return int(self.codes.size)

    @property
    def ordered(self) -> Ordered:
        """The cells as kernels take them."""
        return self.row_starts, self.codes, self.column_starts

    @cached_property
    def share_of_ones(self) -> float:
        """Share of ones among the observed cells."""
        return self.matrix.nnz / max(self.n_cells, 1)

    @cached_property
    def row_sizes(self) -> NDArray[np.int64]:
        """Observed cells of each row."""
        return np.diff(self.row_starts)

    @cached_property
    def column_sizes(self) -> NDArray[np.int64]:
        """Observed cells of each column."""
        return np.diff(self.column_starts)

    @cached_property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of rows with about equal numbers of cells."""
        return row_blocks(self.row_starts, 2**15)

    def rows_of_cells(self) -> NDArray[np.int64]:
        """The row of each cell."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int64), self.row_sizes)

    def fingerprint(self) -> str:
        """A checksum. A checkpoint uses it to recognise its data."""
        return self.matrix.fingerprint()


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))


class ExpectedCounts(NamedTuple):
    """Expected counts of labels given weights.

    Attributes
    ----------
    rows
        Rows x parts x bit, or, for Dir-Dir, rows x parts.
    columns
        Columns x parts.
    log_normaliser
        Σ over cells of the logarithm of what their weights sum to.
    """

    rows: Floats
    columns: Floats
    log_normaliser: float


def expected_counts(cells: Cells, rows: Floats, columns: Floats, engine: Engine) -> ExpectedCounts:
    """Responsibilities r_nfk proportional to w_fk q_nk(x), summed over columns (by bit) and over rows.

    ``rows`` are the weights q of zeros and of ones: bit x rows x parts.
    """
    found = _pass(cells, rows, columns, (columns, columns), engine)
    for bit, own in enumerate(rows):
        found.rows[..., bit] *= own
    return found


def expected_pair_counts(cells: Cells, rows: Floats, columns: Floats, engine: Engine) -> ExpectedCounts:
    """The same for Dir-Dir, weights being rows x parts. A one has equal labels, a zero any two that differ."""
    found = _pass(cells, np.stack((sum_of_others(rows), rows)), columns, (sum_of_others(columns), columns), engine)
    return found._replace(rows=rows * (found.rows[..., 0] + found.rows[..., 1]))


def _pass(cells: Cells, rows: Floats, columns: Floats, backs: tuple[Floats, Floats], engine: Engine) -> ExpectedCounts:
    """Expected counts, those of the rows without the factor that is the same in all cells of a row."""
    sums = np.empty((*rows.shape[1:], 2))

    def one(block: tuple[int, int]) -> tuple[Floats, float]:
        totals, logs = np.zeros_like(columns), 0.0
        for bit, back in enumerate(backs):
            sums[slice(*block), :, bit], log = _bit_sums(cells, bit, rows[bit], columns, back, block, totals)
            logs += log
        return totals, logs

    totals, log_normaliser = engine.map_reduce(one, cells.blocks)
    return ExpectedCounts(sums, columns * totals, float(log_normaliser))


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
        listed, factors = (cells.row_starts, cells.codes), (rows, columns, back)
        return sums, sums_of_rare_bit(listed, bit, factors, start, stop, (sums, totals))
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


def needed_bytes(
    inference: str,
    shape: tuple[int, int],
    n_cells: int,
    n_components: int,
    n_chains: int,
    *,
    pair: bool,
    weighs_chains: bool = False,
) -> int:
    """Estimate the peak memory of a fit.

    Examples
    --------
    >>> needed_bytes("cvb0", (1226, 285), 349410, 100, 1, pair=False) // 10**6
    158
    """
    n_rows, n_columns = shape
    needed = 4 * n_cells + 24 * n_rows * n_columns
    sampler = inference.startswith("gibbs")
    needed += (n_chains if sampler else 1) * _FACTOR_BYTES * (n_rows + n_columns) * n_components
    if sampler:
        needed += n_chains * n_cells * np.dtype(label_type(n_components)).itemsize * (2 if pair else 1)
    if weighs_chains:
        # Sums of each chain, and labels in a second order.
        needed += (n_chains - 1) * 16 * n_rows * n_columns + 9 * n_chains * n_cells
    if inference in ("cvb0", "cvb"):
        needed += 4 * n_cells * n_components
    return needed


def refuse_beyond(limit: float, needed: int, inference: str) -> None:
    """Raise if a fit would need more memory than allowed."""
    if needed <= limit:
        return
    why = "the responsibilities of every cell" if inference.startswith("cvb") else "every observed cell"
    remedy = "inference='gibbs' or " if inference.startswith("cvb") else ""
    raise InvalidInputError(
        f"inference={inference!r} stores {why}, about {needed / 1e9:.3g} GB here, which is more than"
        f" max_memory={limit / 1e9:.3g} GB: raise max_memory, or use {remedy}fewer parts or samples."
    )
