"""What a sampler keeps: sums over draws of cells and factors, and a few numbers of each draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.moments import Moments, cell_moments
from partwise.binary.kernels.likelihood import log_likelihood_of_block
from partwise.engines.base import Engine

Floats = NDArray[np.float64]


@dataclass
class Draws:
    """Sums over the kept draws of conditional moments given the labels (Rao-Blackwellised), and numbers of each draw.

    Components have no identity between chains, so sums of factors are kept by chain; cells are summed over all.
    """

    probability: Floats
    probability_square: Floats
    row_mean: Floats
    row_square: Floats
    column_mean: Floats
    column_square: Floats
    component_cells: Floats
    log_joint: Floats
    log_likelihood: Floats
    n_active: Floats
    missing_probability: Floats
    n_kept: int = 0

    @classmethod
    def empty(cls, cells: Cells, n_components: int, n_chains: int, n_draws: int) -> Draws:
        """Room for so many draws of so many chains."""
        n_rows, n_columns = cells.shape
        rows, columns = (n_chains, n_rows, n_components), (n_chains, n_columns, n_components)
        per_draw = (n_chains, n_draws)
        return cls(
            probability=np.zeros(cells.shape),
            probability_square=np.zeros(cells.shape),
            row_mean=np.zeros(rows),
            row_square=np.zeros(rows),
            column_mean=np.zeros(columns),
            column_square=np.zeros(columns),
            component_cells=np.zeros((n_chains, n_components)),
            log_joint=np.full(per_draw, np.nan),
            log_likelihood=np.full(per_draw, np.nan),
            n_active=np.full(per_draw, np.nan),
            missing_probability=np.full(per_draw, np.nan),
        )

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.log_joint.shape[0])


def keep(
    draws: Draws,
    cells: Cells,
    moments: Sequence[tuple[Moments, Moments]],
    component_cells: NDArray[np.int64],
    log_joint: Sequence[float],
    active_threshold: float,
    engine: Engine,
) -> None:
    """Add one draw of every chain: its moments of the row and column factors, and cells of each component.

    Rows are worked on in parallel, chains one after the other in each, so that sums have one order.
    """

    def one(block: tuple[int, int]) -> Floats:
        start, stop = block
        found = np.empty((draws.n_chains, 2))
        for chain, (rows, columns) in enumerate(moments):
            first, second = cell_moments(rows.rows(start, stop), columns)
            draws.probability[start:stop] += first
            draws.probability_square[start:stop] += second
            log_likelihood, observed = log_likelihood_of_block(cells.row_starts, cells.codes, first, start, stop)
            found[chain] = log_likelihood, first.sum() - observed
        return found

    at = draws.n_kept
    found = engine.map_reduce(one, cells.blocks)
    n_missing = cells.shape[0] * cells.shape[1] - cells.n_cells
    draws.log_likelihood[:, at] = found[:, 0]
    if n_missing:
        draws.missing_probability[:, at] = found[:, 1] / n_missing
    draws.log_joint[:, at] = log_joint
    draws.n_active[:, at] = (component_cells >= active_threshold * cells.n_cells).sum(axis=1)
    draws.component_cells += component_cells
    for chain, (rows, columns) in enumerate(moments):
        draws.row_mean[chain] += rows.mean
        draws.row_square[chain] += rows.variance + rows.mean**2
        draws.column_mean[chain] += columns.mean
        draws.column_square[chain] += columns.variance + columns.mean**2
    draws.n_kept += 1
