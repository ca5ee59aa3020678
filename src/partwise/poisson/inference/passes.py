"""Passes of the Poisson solver over one side of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.blas import one_blas_thread
from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks
from partwise.passes.kernels import expected_counts
from partwise.passes.side import NONZEROS_AT_ONCE, Side, own_exposure, ready
from partwise.poisson import kernels
from partwise.poisson.inference.state import rows_of_usual_size
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


# Activations of samples for a dictionary that is held fixed, and how well the counts determine them.


def solve_activations(
    data: SparseData, dictionary: Floats, engine: Engine, *, tol: float = 1e-8, max_sweeps: int = 1000
) -> Floats:
    """Maximum-likelihood activations: a concave problem for each row, each solved to ``tol`` on its own.

    A row's result depends on that row alone, so it is the same in any batch. Counts of features that no component
    holds are left out. Where a component cannot show in the observed cells of a row, its activation is 0.
    """
    dictionary = np.ascontiguousarray(dictionary)
    held = np.any(dictionary > 0, axis=1)
    sums = dictionary.sum(axis=0)
    shared = dictionary / np.where(sums > 0, sums, 1.0), sums, held, tol, max_sweeps
    blocks = row_blocks(data.indptr, NONZEROS_AT_ONCE)
    _, (activations,) = engine.map_rows(_solve, data, blocks, *shared, makes=[Made(sums.shape)])
    return np.asarray(activations)


def _solve(
    block: Block, out: Floats, dictionary: Floats, sums: Floats, held: NDArray[np.bool_], tol: float, max_sweeps: int
) -> float:
    rows = block.data.rows(block.start, block.stop)
    rows, exponents = rows_of_usual_size(rows.only(held[rows.indices]))
    n_components = sums.size
    activations = np.repeat(rows.row_sums[:, None] / n_components, n_components, axis=1)
    cells = rows.indptr, rows.indices, rows.values, rows.missing_indptr, rows.missing_indices
    floors = np.zeros(rows.shape[0])
    kernels.coordinate_descent(
        *cells, dictionary, dictionary.sum(axis=0), floors, max_sweeps, tol, 0, rows.shape[0], activations
    )
    scale = np.where(sums > 0, sums, 1.0)
    out[block.rows] = np.where(sums > 0, np.ldexp(activations, exponents[:, None]) / scale, 0.0)
    return 0.0


def standard_errors(data: SparseData, activations: Floats, dictionary: Floats, engine: Engine) -> Floats:
    """Square roots of the diagonal of the inverse expected information, Σ_f w_fk w_fl / rate_f over observed cells.

    Rates are taken where each component has at least one expected count: the information at 0 is infinite for a
    component with features of its own, although nothing is known below about one count.
    Infinite where the observed cells say nothing about a component, or cannot tell it from others.
    """
    dictionary = np.ascontiguousarray(dictionary)
    held = dictionary[np.any(dictionary > 0, axis=1)]
    blocks = row_blocks(data.indptr, most_rows=64)
    with one_blas_thread():
        _, (errors,) = engine.map_rows(
            _errors, data, blocks, dictionary, held, reads=[activations], makes=[Made(activations.shape[1:])]
        )
    return np.asarray(errors)


def _errors(block: Block, activations: Floats, errors: Floats, dictionary: Floats, held: Floats) -> float:
    data = block.data
    for n in range(block.start, block.stop):
        hidden = data.missing_indices[data.missing_indptr[n] : data.missing_indptr[n + 1]]
        seen = held
        if hidden.size:
            seen = np.delete(dictionary, hidden, axis=0)
            seen = seen[np.any(seen > 0, axis=1)]
        exposure = seen.sum(axis=0)
        one_count = np.divide(1.0, exposure, out=np.zeros(exposure.size), where=exposure > 0)
        weighted = seen / np.sqrt(seen @ np.maximum(activations[n], one_count))[:, None]
        errors[n] = _root_diagonal_of_inverse(weighted.T @ weighted)
    return 0.0


def _root_diagonal_of_inverse(information: Floats) -> Floats:
    """Of a positive semidefinite matrix; infinite for coordinates that its null space touches."""
    scale = np.sqrt(np.diag(information))
    safe = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(information / np.outer(safe, safe))
    null = values <= 1e-12 * max(float(values[-1]), 1e-300)
    variance = (vectors[:, ~null] ** 2) @ (1.0 / values[~null])
    lost = (scale == 0) | ((vectors[:, null] ** 2).sum(axis=1) > 1e-8)
    return np.where(lost, np.inf, np.sqrt(variance) / safe)
