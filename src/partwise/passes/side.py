"""One pass of a kernel over one side of the data, in parallel over blocks of its rows.

Also, smallest values of factors: logarithms stop at 0, and multiplicative updates cannot leave it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.weights import CellWeights
from partwise.engines.base import Engine, Function
from partwise.engines.blocks import Block, Made, aligned, row_blocks
from partwise.kernels.arrays import Floats
from partwise.passes import kernels

# Relative to what independence of rows and columns would give: factors never reach 0 where there are counts. The
# smallest activation is FLOOR / n_components of its row's total.
FLOOR = 1e-10


@dataclass(frozen=True)
class Floors:
    """Smallest activation in each row, and smallest dictionary entry of each feature; 0 if all counts are 0."""

    activations: Floats
    dictionary: Floats

    @classmethod
    def of(cls, data: SparseData, n_components: int) -> Floors:
        """A dictionary column sums to about 1, so a row's activations sum to about its total."""
        total = data.total if data.total > 0 else 1.0
        return cls(FLOOR / n_components * data.row_sums, FLOOR / total * data.column_sums)


# Number of entries of the two factors gathered at once.
_GATHERED = 2**20
# About a millisecond of work: enough blocks for all threads even for small data.
NONZEROS_AT_ONCE = 2**15


@dataclass(frozen=True, eq=False)
class WeightedTotals:
    """Weighted sums of a factor over the columns of the data, for every group of rows.

    It is sent to workers as a whole; a block finds the groups of its rows by their positions in the whole data.
    """

    sums: Floats
    weights: CellWeights

    def groups(self, block: Block) -> NDArray[Any]:
        """The groups of the rows of a block."""
        return self.weights.groups_of_rows(block.first_row + block.start, block.first_row + block.stop)

    def exposure(self, block: Block, other: Floats) -> Floats:
        """Weighted sums over the observed columns of each row of a block."""
        groups, weights = self.groups(block).astype(np.int32), self.weights
        found = self.sums[groups]
        if block.data.n_missing:
            columns = weights.column_groups
            columns = np.arange(len(other), dtype=np.int32) if columns is None else columns
            weighted = weights.values, groups, columns
            kernels.weighted_exposures(block.own_missing, weighted, other, 0, block.n_rows, found)
        return found


Totals = Floats | WeightedTotals
"""Sums of a factor over the columns of the data: one row for all rows, or one per group of rows."""


@dataclass(frozen=True, eq=False)
class Side:
    """The samples' side of the data, or, on transposed data, the features' side.

    Methods take the ``factor`` of this side (rows x parts) and that of the ``other`` side (columns x parts). Arrays
    with one row per sample may be on workers; arrays derived from them then stay there, too.
    """

    data: SparseData
    engine: Engine

    @cached_property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of rows with about equal numbers of nonzeros."""
        return row_blocks(self.data.indptr, NONZEROS_AT_ONCE)

    def map_rows(self, function: Function, *shared: Any, **options: Any) -> tuple[Any, tuple[Any, ...]]:
        """`Engine.map_rows` over the blocks of this side."""
        return self.engine.map_rows(function, self.data, self.blocks, *shared, **options)

    def place(self, factor: Any) -> Any:
        """Store the factor of this side on the workers, if there are any."""
        return self.engine.place(factor, self.data, self.blocks)

    def totals(self, factor: Any) -> Floats:
        """The factor's sum over rows, block by block in the fixed tree; one sum per group of rows."""
        return np.asarray(self.map_rows(_totals, self.data.weights, reads=[factor])[0])

    def column_totals(self, other: Any, totals: Floats | None = None) -> Totals:
        """Sums of the other side's factor over the columns of the data.

        Parameters
        ----------
        other
            The other side's factor.
        totals
            The result of `totals` of the other side; needed if the factor is on workers.
        """
        weights = self.data.weights
        if weights is None:
            return other.sum(axis=0) if totals is None else totals
        columns, summed = weights.column_groups, other
        if columns is not None:
            summed = group_sums(np.asarray(other), columns, weights.values.shape[1]) if totals is None else totals
        # The same order of summation on every machine, which BLAS does not guarantee.
        return WeightedTotals(np.einsum("gf,fk->gk", weights.values, summed), weights)

    def even_counts(self, n_components: int) -> Any:
        """Each row's total, spread evenly over the parts."""
        return self.map_rows(_even_counts, makes=[Made((n_components,))], stay=True)[1][0]

    def expected_counts(self, factor: Any, other: Any, *, with_logs: bool = False) -> tuple[Any, float]:
        """Expected allocation totals of each row (E-step), and Σ x log rate if requested."""
        shared, made = (aligned(other), with_logs), [Made(factor.shape[1:])]
        logs, (counts,) = self.map_rows(_expected, *shared, reads=[factor], makes=made)
        return counts, float(logs)

    def exposure(self, other: Any, *, totals: Floats | None = None, stay: bool = False) -> Any:
        """What each part is exposed to in each row: a single row if nothing is missing.

        Parameters
        ----------
        other
            The other side's factor.
        totals
            Its sums over rows; needed if it is on workers.
        stay
            Whether rows stay on the workers.
        """
        found = self.column_totals(other, totals)
        if self.data.n_missing == 0 and not isinstance(found, WeightedTotals):
            return np.atleast_2d(found)
        return self.map_rows(_exposures, found, other, makes=[Made(other.shape[1:])], stay=stay)[1][0]


def own_exposure(block: Block, other: Floats, totals: Totals) -> Floats:
    """What each part is exposed to in each row of a block: a single row if nothing is missing."""
    if isinstance(totals, WeightedTotals):
        return totals.exposure(block, other)
    if not block.data.n_missing:
        return np.atleast_2d(totals)
    exposure = np.empty((block.n_rows, totals.size))
    kernels.exposures(*block.own_missing, totals, other, 0, block.n_rows, exposure)
    return exposure


def own_totals(block: Block, own: Floats, weights: CellWeights | None) -> Floats:
    """Sum of a factor over the rows of a block: one sum per group of rows."""
    if weights is None or weights.row_groups is None:
        return np.asarray(own.sum(axis=0))
    first = block.first_row + block.start
    return group_sums(own, weights.row_groups[first : first + block.n_rows], weights.values.shape[0])


def cell_rates(activations: Floats, dictionary: Floats, rows: NDArray[Any], columns: NDArray[Any]) -> Floats:
    """Rates of some cells, in pieces that keep the gathered factors small."""
    rates, step = np.empty(rows.size), 1 + _GATHERED // dictionary.shape[1]
    for start in range(0, rows.size, step):
        part = slice(start, start + step)
        rates[part] = np.einsum("ik,ik->i", activations[rows[part]], dictionary[columns[part]])
    return rates


def group_sums(rows: Floats, groups: NDArray[Any], n_groups: int) -> Floats:
    """Sums over the rows of each group."""
    return np.stack([rows[groups == group].sum(axis=0) for group in range(n_groups)])


def _totals(block: Block, factor: Floats, weights: CellWeights | None) -> Floats:
    return own_totals(block, factor[block.rows], weights)


def _even_counts(block: Block, out: Floats) -> None:
    out[block.rows] = block.data.row_sums[block.rows, None] / out.shape[1]


def _expected(block: Block, factor: Floats, out: Floats, other: Floats, with_logs: bool) -> float:
    rows = block.rows
    return kernels.expected_counts(block.own_cells, factor[rows], other, with_logs, 0, block.n_rows, out[rows])


def _exposures(block: Block, out: Floats, totals: Totals, other: Floats) -> None:
    out[block.rows] = own_exposure(block, other, totals)
