"""Known factors of the rates of cells, such as those of batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.arrays import Floats

Groups = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class CellWeights:
    """Weight of each cell by the group of its row and the group of its column.

    Attributes
    ----------
    values
        Groups of rows x groups of columns, positive.
    row_groups, column_groups
        The group of each row, and of each column; None = each row or column is its own group.
    """

    values: Floats
    row_groups: Groups | None = None
    column_groups: Groups | None = None

    @cached_property
    def transposed(self) -> CellWeights:
        """The same with rows and columns exchanged."""
        return CellWeights(np.ascontiguousarray(self.values.T), self.column_groups, self.row_groups)

    def take(self, rows: NDArray[Any]) -> CellWeights:
        """The weights of some rows."""
        if self.row_groups is None:
            return CellWeights(np.ascontiguousarray(self.values[rows]), None, self.column_groups)
        return CellWeights(self.values, self.row_groups[rows], self.column_groups)

    def groups_of_rows(self, start: int, stop: int) -> NDArray[Any]:
        """The groups of the rows from ``start`` to ``stop``."""
        return np.arange(start, stop) if self.row_groups is None else self.row_groups[start:stop]


Weights = CellWeights | None
"""Weights of cells; None where all cells weigh the same."""
