"""Passes of the Poisson solver over one side of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.engines.blocks import Block, Made
from partwise.passes.kernels import expected_counts
from partwise.passes.side import Side, own_exposure, ready
from partwise.poisson import kernels
from partwise.priors.flat import FlatPrior

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PoissonSide(Side):
    """One side of the data, with the updates of maximum likelihood.

    ``totals`` are the sums of the ``other`` factor over its rows, needed where that is on workers.
    """

    def em_update(self, factor: Any, other: Floats, floor: float) -> tuple[Any, Floats]:
        """The rates count / exposure of an EM step, at least ``floor`` of the row's total, and their sums over rows."""
        shared, made = (ready(other), other.sum(axis=0), floor), [Made(factor.shape[1:])]
        totals, (rates,) = self.map_rows(_em_update, *shared, reads=[factor], makes=made)
        return rates, totals

    def coordinate_descent(
        self,
        factor: Any,
        other: Any,
        *,
        floors: Floats,
        max_sweeps: int,
        tol: float = 0.0,
        totals: Floats | None = None,
    ) -> tuple[Any, float]:
        """The factor improved (in its own memory), and the log-likelihood, without the log x! terms, that it reaches.

        ``floors`` holds the smallest value allowed in each row. Without sweeps, only the value is computed.
        """
        shared = other, other.sum(axis=0) if totals is None else totals, max_sweeps, tol
        value, (factor,) = self.map_rows(_coordinate_descent, *shared, reads=[floors], changes=[factor])
        return factor, float(value)

    def kkt_residual(self, factor: Floats, other: Floats) -> float:
        """Largest violation of the optimality conditions of this side."""
        shared = other, other.sum(axis=0), self.data.total / self.data.shape[0]
        _, (worst,) = self.map_rows(_kkt_residual, *shared, reads=[factor], makes=[Made(())])
        return float(np.max(worst, initial=0.0))


def em_rates(block: Block, factor: Floats, other: Floats, totals: Floats, floor: float) -> Floats:
    """The rates of an EM step of the rows of a block, given the block's rows of the factor."""
    counts = np.empty(factor.shape)
    expected_counts(*block.own_cells, factor, other, False, 0, block.n_rows, counts)
    floors = floor * block.data.row_sums[block.rows, None]
    return FlatPrior(floors).rates(counts, own_exposure(block, other, totals))


def _em_update(block: Block, factor: Floats, out: Floats, other: Floats, totals: Floats, floor: float) -> Floats:
    own = out[block.rows]
    own[...] = em_rates(block, factor[block.rows], other, totals, floor)
    return np.asarray(own.sum(axis=0))


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
