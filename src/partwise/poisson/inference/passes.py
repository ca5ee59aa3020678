"""One pass of a kernel over one side of the data, in parallel over blocks of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import row_blocks
from partwise.engines.rows import Block, Made, aligned
from partwise.poisson import kernels
from partwise.priors.flat import FlatPrior

Floats = NDArray[np.float64]

# About a millisecond of work: enough blocks for every thread also where the data are small.
NONZEROS_AT_ONCE = 2**15


@dataclass(frozen=True, eq=False)
class Side:
    """The samples' side of the data, or, on transposed data, the features' side.

    Every method takes the ``factor`` of this side (rows x components) and the ``other`` side's (columns x components).
    """

    data: SparseData
    engine: Engine

    @cached_property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of rows with about equally many nonzeros."""
        return row_blocks(self.data.indptr, NONZEROS_AT_ONCE)

    def place(self, factor: Any) -> Any:
        """Put the factor of this side where its rows are worked on."""
        return self.engine.place(factor, self.data, self.blocks)

    def even_counts(self, n_components: int) -> Floats:
        """Each row's total, spread evenly over the components, where rows are worked on."""
        totals = self.place(self.data.row_sums[:, None] / n_components)
        return totals * np.ones(n_components)  # type: ignore[no-any-return]  # an array, or one of the engine's

    def expected_counts(self, factor: Floats, other: Floats, *, with_logs: bool = False) -> tuple[Floats, float]:
        """Expected allocation totals of each row (E-step), and Σ x log rate if asked for."""
        made = [Made((factor.shape[1],))]
        shared = _ready(other), with_logs
        logs, (counts,) = self.engine.map_rows(_expected, self.data, self.blocks, *shared, reads=[factor], makes=made)
        return counts, float(logs)

    def exposure(self, other: Floats, *, stay: bool = False) -> Floats:
        """What each component is exposed to in each row: one row for all where nothing is missing.

        Where ``stay``, rows stay where they are worked on.
        """
        totals: Floats = other.sum(axis=0)
        if self.data.n_missing == 0:
            return np.atleast_2d(totals)
        made = [Made((other.shape[1],))]
        _, (out,) = self.engine.map_rows(_exposures, self.data, self.blocks, totals, other, makes=made, stay=stay)
        return out  # type: ignore[no-any-return]  # an array, or one of the engine's

    def em_update(self, factor: Floats, other: Floats, floor: float) -> Floats:
        """The maximum-likelihood rates count / exposure of an EM step, at least ``floor`` of the row's total."""
        made = [Made((factor.shape[1],))]
        shared = _ready(other), other.sum(axis=0), floor
        _, (rates,) = self.engine.map_rows(_em_update, self.data, self.blocks, *shared, reads=[factor], makes=made)
        return rates  # type: ignore[no-any-return]  # an array, or one of the engine's

    def coordinate_descent(
        self, factor: Floats, other: Floats, *, floors: Floats, max_sweeps: int, tol: float = 0.0
    ) -> tuple[Floats, float]:
        """The factor improved (in its own memory), and the log-likelihood, without the log x! terms, that it reaches.

        ``floors`` holds the smallest value allowed in each row. Without sweeps, only the value is computed.
        """
        shared = other, other.sum(axis=0), max_sweeps, tol
        value, (factor,) = self.engine.map_rows(
            _coordinate_descent, self.data, self.blocks, *shared, reads=[floors], changes=[factor]
        )
        return factor, float(value)

    def kkt_residual(self, factor: Floats, other: Floats) -> float:
        """Largest violation of the optimality conditions of this side."""
        shared = other, other.sum(axis=0), self.data.total / self.data.shape[0]
        _, (worst,) = self.engine.map_rows(
            _kkt_residual, self.data, self.blocks, *shared, reads=[factor], makes=[Made(())]
        )
        return float(np.max(worst, initial=0.0))


def _ready(other: Any) -> Any:
    """For kernels that go over all components of a column at once; an array of the workers is made ready there."""
    return aligned(other) if isinstance(other, np.ndarray) else other


def _expected(block: Block, factor: Floats, out: Floats, other: Floats, with_logs: bool) -> float:
    return kernels.expected_counts(*block.cells, factor, other, with_logs, block.start, block.stop, out)


def _exposures(block: Block, out: Floats, totals: Floats, other: Floats) -> float:
    kernels.exposures(*block.missing, totals, other, block.start, block.stop, out)
    return 0.0


def _em_update(block: Block, factor: Floats, out: Floats, other: Floats, totals: Floats, floor: float) -> float:
    rows = block.rows
    _expected(block, factor, out, other, False)
    exposure = totals
    if block.data.n_missing:
        exposure = np.empty((block.n_rows, totals.size))
        kernels.exposures(*block.own_missing, totals, other, 0, block.n_rows, exposure)
    out[rows] = FlatPrior(floor * block.data.row_sums[rows, None]).rates(out[rows], exposure)
    return 0.0


def _coordinate_descent(
    block: Block, floors: Floats, factor: Floats, other: Floats, totals: Floats, max_sweeps: int, tol: float
) -> float:
    return kernels.coordinate_descent(
        *block.cells, *block.missing, other, totals, floors, max_sweeps, tol, block.start, block.stop, factor
    )


def _kkt_residual(block: Block, factor: Floats, worst: Floats, other: Floats, totals: Floats, unit: float) -> float:
    worst[block.rows] = kernels.kkt_residual(
        *block.cells, *block.missing, factor, other, totals, unit, block.start, block.stop
    )
    return 0.0
