"""Collapsed variational Bayes for Beta-Dir and Dir-Beta: CVB0, and CVB to second order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.learning import learn
from partwise.binary.inference.starts import Start, start_labels
from partwise.binary.kernels.cells import to_row_order
from partwise.binary.kernels.collapsed_variational import pass_second_order, pass_zero_order
from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.kernels.arrays import Floats


@dataclass
class CollapsedState:
    """Responsibilities of all cells (by rows), their sums, and for the second order the sums of r (1 - r).

    Sums over rows are rows x bit x parts; variances are empty in CVB0.
    """

    shares: NDArray[np.float32]
    row_counts: Floats
    column_counts: Floats
    row_variances: Floats
    column_variances: Floats
    priors: Floats


@dataclass
class BinaryCollapsedVariational:
    """One responsibility vector per cell, updated in turn from expected counts without its own (Section 4.3).

    ``order`` 0 is CVB0 (Eq. 36), 2 is the second-order expansion of Eq. 35. No bound is guaranteed to rise, so the
    trace shows the mean change of a cell's responsibilities (in total variation). The start has hard labels, because
    even responsibilities are a fixed point.
    """

    model: BinaryModel
    order: Literal[0, 2]
    start: Start

    def init(self, key: Key, data: Cells) -> CollapsedState:
        """Hard labels, each with responsibility 1: those of the sampler that learns priors, if they are estimated."""
        priors = np.array(self.model.priors)
        if self.model.estimated:
            priors, by_column, *_ = learn(key, data, self.model, self.start)
        else:
            by_column, _ = start_labels(key, data, self.model, self.start)
        labels = np.empty_like(by_column)
        to_row_order(data.ordered, by_column, labels)
        n_components = self.model.n_components
        shares = np.zeros((data.n_cells, n_components), np.float32)
        shares[np.arange(data.n_cells), labels] = 1.0
        positions = data.rows_of_cells()
        row_counts = _tally(
            (data.shape[0], 2, n_components), (positions * 2 + (data.codes & 1)) * n_components + labels
        )
        column_counts = _tally((data.shape[1], n_components), (data.codes >> 1) * np.int64(n_components) + labels)
        wanted = self.order == 2
        return CollapsedState(
            shares,
            row_counts,
            column_counts,
            np.zeros(row_counts.shape if wanted else (0, 2, n_components)),
            np.zeros(column_counts.shape if wanted else (0, n_components)),
            priors,
        )

    def step(self, key: Key, data: Cells, state: CollapsedState) -> tuple[CollapsedState, Mapping[str, float]]:
        """One pass over all cells."""
        own = self.model.with_priors(state.priors).priors
        priors = own.of_bits, own.concentration
        cells, shares, counts = data.ordered[:2], state.shares, (state.row_counts, state.column_counts)
        if self.order == 0:
            change = pass_zero_order(cells, priors, shares, *counts)
        else:
            change = pass_second_order(cells, priors, shares, counts, (state.row_variances, state.column_variances))
        return state, {"change": 0.5 * change / max(data.n_cells, 1)}


def _tally(shape: tuple[int, ...], positions: NDArray[np.int64]) -> Floats:
    return np.bincount(positions, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)
