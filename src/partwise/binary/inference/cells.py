"""The observed cells of a table of bits, listed for algorithms that visit every one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from partwise.binary.kernels.cells import list_cells
from partwise.binary.model import Kind
from partwise.core.data import BinaryMatrix
from partwise.engines.blocks import row_blocks


@dataclass(frozen=True, eq=False)
class Cells:
    """Observed cells, row by row: ``codes`` holds 2 x column + bit.

    Rows are the side with the beta factor (samples for Beta-Dir and Dir-Dir, features for Dir-Beta), columns the side
    with the Dirichlet factor, so that one algorithm serves a model and its mirror image.

    Attributes
    ----------
    shape
        Rows, columns.
    row_starts, column_starts
        Where each row, and each column, begins in lists of cells that are ordered by rows, and by columns.
    codes
        Four bytes a cell.
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
        """List the cells of data (samples x features) as a model needs them."""
        matrix = data.transposed if kind == "dir-beta" else data
        n_rows, n_columns = matrix.shape
        hidden_in_columns = np.bincount(matrix.missing_indices, minlength=n_columns)
        row_starts = _starts(n_columns - np.diff(matrix.missing_indptr))
        codes = np.empty(int(row_starts[-1]), dtype=np.int32)
        list_cells(
            matrix.indptr,
            matrix.indices,
            matrix.missing_indptr,
            matrix.missing_indices,
            row_starts,
            n_columns,
            codes,
        )
        return cls(matrix.shape, row_starts, _starts(n_rows - hidden_in_columns), codes, matrix)

    @property
    def n_cells(self) -> int:
        """Number of observed cells."""
        return int(self.codes.size)

    @cached_property
    def share_of_ones(self) -> float:
        """Of the observed cells."""
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
        """Ranges of rows with about equally many cells."""
        return row_blocks(self.row_starts, 2**15)

    def rows_of_cells(self) -> NDArray[np.int64]:
        """The row of each cell."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int64), self.row_sizes)

    def fingerprint(self) -> str:
        """A checksum by which a checkpoint knows its data."""
        return self.matrix.fingerprint()


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
