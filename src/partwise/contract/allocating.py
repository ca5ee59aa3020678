"""Which part made the counts of a cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.kernels.arrays import Floats

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CellAllocations:
    """For each cell that has counts, the probability that each part made one of them.

    Attributes
    ----------
    rows, columns, counts
        The cells and what they hold.
    probabilities
        Cells x parts; each row sums to 1, or to 0 where no part can make the cell's counts.
    row_names, feature_names, part_names
        Names of samples, features and parts.
    """

    rows: Positions
    columns: Positions
    counts: Floats
    probabilities: Floats
    row_names: list[str]
    feature_names: list[str]
    part_names: list[str]

    def table(self) -> dict[str, Any]:
        """Columns of a table with one line for each cell: sample, feature, count, and a column for each part."""
        return {
            "sample": [self.row_names[n] for n in self.rows],
            "feature": [self.feature_names[f] for f in self.columns],
            "count": self.counts,
            **dict(zip(self.part_names, self.probabilities.T, strict=True)),
        }


def cell_shares(data: SparseData, activations: Floats, dictionary: Floats) -> tuple[Positions, Positions, Floats]:
    """Rows, columns and shares of the parts (h_nk w_fk / Σ_j h_nj w_fj) of the nonzero cells."""
    rows = np.repeat(np.arange(data.shape[0], dtype=np.int64), np.diff(data.indptr))
    columns = data.indices.astype(np.int64)
    shares = activations[rows] * dictionary[columns]
    totals = shares.sum(axis=1, keepdims=True)
    return rows, columns, np.divide(shares, totals, out=np.zeros_like(shares), where=totals > 0)
