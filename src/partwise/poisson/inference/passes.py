"""Passes of the Poisson solver over one side of the data, and what is computed from them alone.

These are: updates of a factor, activations for a fixed dictionary, and steps that visit rows only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.core.blas import one_blas_thread
from partwise.core.data import SparseData
from partwise.core.weights import Weights
from partwise.engines.base import Engine
from partwise.engines.blocks import TARGET_NONZEROS, Block, Made, aligned, row_blocks
from partwise.kernels.arrays import Bools, Floats, Pair
from partwise.passes.kernels import expected_counts
from partwise.passes.side import FLOOR, NONZEROS_AT_ONCE, Floors, Side, Totals, own_exposure, own_totals
from partwise.poisson import kernels
from partwise.poisson.inference.state import PoissonState, rows_of_usual_size
from partwise.priors.flat import FlatPrior


@dataclass(frozen=True, eq=False)
class PoissonSide(Side):
    """One side of the data, with the updates of maximum likelihood.

    ``totals`` are the sums of the ``other`` factor over its rows; they are needed if that factor is on workers.
    """

    def em_update(self, factor: Any, other: Floats, floor: float) -> tuple[Any, Floats]:
        """The rates count / exposure of an EM step, at least ``floor`` of the row's total, and their sums over rows."""
        shared = aligned(other), self.column_totals(other), floor, self.data.weights
        totals, (rates,) = self.map_rows(_em_update, *shared, reads=[factor], makes=[Made(factor.shape[1:])])
        return rates, totals

    def coordinate_descent(
        self, factor: Any, other: Any, *, floors: Floats, max_sweeps: int, totals: Floats | None = None
    ) -> tuple[Any, float]:
        """Improve the factor in place, and return the log-likelihood that it reaches, without the log x! terms.

        ``floors`` holds the smallest allowed value of each row. Without sweeps, only the log-likelihood is computed.
        """
        shared = other, self.column_totals(other, totals), max_sweeps
        value, (factor,) = self.map_rows(_coordinate_descent, *shared, reads=[floors], changes=[factor])
        return factor, float(value)

    def kkt_residual(self, factor: Floats, other: Floats) -> float:
        """Largest violation of the optimality conditions of this side."""
        shared = other, self.column_totals(other), self.data.total / self.data.shape[0]
        _, (worst,) = self.map_rows(_kkt_residual, *shared, reads=[factor], makes=[Made(())])
        return float(np.max(worst, initial=0.0))


def _rates(block: Block, counts: Floats, other: Floats, totals: Totals, floor: float) -> Floats:
    floors = floor * block.data.row_sums[block.rows, None]
    return FlatPrior(floors).rates(counts, own_exposure(block, other, totals))


def _em_update(
    block: Block, factor: Floats, out: Floats, other: Floats, totals: Totals, floor: float, weights: Weights
) -> Floats:
    own = out[block.rows]
    expected_counts(block.own_cells, factor[block.rows], other, False, 0, block.n_rows, own)
    own[...] = _rates(block, own, other, totals, floor)
    return own_totals(block, own, weights)


def _coordinate_descent(
    block: Block, floors: Floats, factor: Floats, other: Floats, totals: Totals, max_sweeps: int
) -> float:
    held, rule = (other, own_exposure(block, other, totals), floors[block.rows]), (max_sweeps, 0.0)
    return kernels.coordinate_descent(block.own_cells, held, rule, 0, block.n_rows, factor[block.rows])


def _kkt_residual(block: Block, factor: Floats, worst: Floats, other: Floats, totals: Totals, unit: float) -> None:
    exposures = own_exposure(block, other, totals)
    own = factor[block.rows]
    worst[block.rows] = kernels.kkt_residual(block.own_cells, own, other, exposures, unit, 0, block.n_rows)


# Activations of samples for a fixed dictionary, and how well the counts determine them.

# Of one row.
_MOST_SWEEPS = 1000


def solve_activations(data: SparseData, dictionary: Floats, engine: Engine, *, tol: float = 1e-8) -> Floats:
    """Maximum-likelihood activations: one concave problem per row, each solved to ``tol``.

    A row's result depends on that row alone, so it is the same in any batch. Counts of features that no part holds are
    left out. If a part cannot show in the observed cells of a row, its activation is 0.
    """
    dictionary = np.ascontiguousarray(dictionary)
    held = np.any(dictionary > 0, axis=1)
    sums = dictionary.sum(axis=0)
    unit = dictionary / np.where(sums > 0, sums, 1.0)
    shared = unit, Side(data, engine).column_totals(unit), sums, held, tol
    blocks = row_blocks(data.indptr, NONZEROS_AT_ONCE)
    _, (activations,) = engine.map_rows(_solve, data, blocks, *shared, makes=[Made(sums.shape)])
    return np.asarray(activations)


def _solve(
    block: Block, out: Floats, dictionary: Floats, totals: Totals, sums: Floats, held: Bools, tol: float
) -> None:
    rows = block.data.rows(block.start, block.stop)
    rows, exponents = rows_of_usual_size(rows.only(held[rows.indices]))
    n_components = sums.size
    activations = np.repeat(rows.row_sums[:, None] / n_components, n_components, axis=1)
    cells = rows.indptr, rows.indices, rows.values
    given = dictionary, own_exposure(block, dictionary, totals), np.zeros(block.n_rows)
    kernels.coordinate_descent(cells, given, (_MOST_SWEEPS, tol), 0, block.n_rows, activations)
    scale = np.where(sums > 0, sums, 1.0)
    out[block.rows] = np.where(sums > 0, np.ldexp(activations, exponents[:, None]) / scale, 0.0)


def standard_errors(data: SparseData, activations: Floats, dictionary: Floats, engine: Engine) -> Floats:
    """Square roots of the diagonal of the inverse expected information, Σ_f w_fk w_fl / rate_f over observed cells.

    Rates are evaluated with at least one expected count per part. At 0, the information would be infinite for a part
    with features of its own, although nothing is known below about one count. The result is infinite if the observed
    cells say nothing about a part, or cannot tell it from others.
    """
    dictionary = np.ascontiguousarray(dictionary)
    held = dictionary[np.any(dictionary > 0, axis=1)]
    blocks = row_blocks(data.indptr, most_rows=64)
    with one_blas_thread():
        _, (errors,) = engine.map_rows(
            _errors, data, blocks, dictionary, held, reads=[activations], makes=[Made(activations.shape[1:])]
        )
    return np.asarray(errors)


def _errors(block: Block, activations: Floats, errors: Floats, dictionary: Floats, held: Floats) -> None:
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


def _root_diagonal_of_inverse(information: Floats) -> Floats:
    """Of a positive semidefinite matrix; infinite for coordinates that its null space touches."""
    scale = np.sqrt(np.diag(information))
    safe = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(information / np.outer(safe, safe))
    null = values <= 1e-12 * max(float(values[-1]), 1e-300)
    variance = (vectors[:, ~null] ** 2) @ (1.0 / values[~null])
    lost = (scale == 0) | ((vectors[:, null] ** 2).sum(axis=1) > 1e-8)
    return np.where(lost, np.inf, np.sqrt(variance) / safe)


# Steps for data of which no machine holds all rows of a column: one pass over rows sums features x parts by blocks.

Sums = tuple[Floats, Floats, Floats, float]


@dataclass(frozen=True)
class FeatureSums:
    """The sums for the dictionary's side after a pass over rows.

    Attributes
    ----------
    counts
        Expected allocation totals, features x parts.
    exposure
        Sums of the activations over the rows in which a feature is observed; a single row if nothing is missing.
    activations
        Sums of the activations.
    logs
        Σ x log rate, if it was requested.
    """

    counts: Floats
    exposure: Floats
    activations: Floats
    logs: float

    @classmethod
    def of(cls, sums: Sums, dictionary: Floats, weights: Weights) -> FeatureSums:
        """Build it from the sums over blocks."""
        gain, activations, hidden, logs = sums
        exposure = np.atleast_2d(activations)
        if weights is not None:
            exposure, activations = np.einsum("gf,gk->fk", weights.values, activations), activations.sum(axis=0)
        if hidden.size:
            exposure = np.maximum(exposure - hidden, 0.0)
        return cls(dictionary * gain, exposure, activations, float(logs))


def step_by_rows(
    data: SparseData, engine: Engine, state: PoissonState, *, max_sweeps: int, with_objective: bool
) -> tuple[PoissonState, float]:
    """Update activations by coordinate descent (by EM without sweeps), then the dictionary by EM, in one pass.

    Return the log-likelihood between the two updates, without the log x! terms.
    """
    blocks = _wide_blocks(data)
    n_components = state.dictionary.shape[1]
    totals = Side(data, engine).column_totals(state.dictionary)
    shared = state.dictionary, totals, FLOOR / n_components, max_sweeps, with_objective, data.weights
    activations = engine.place(state.activations, data, blocks)
    sums, (activations,) = engine.map_rows(_improve_by_rows, data, blocks, *shared, changes=[activations])
    features = FeatureSums.of(sums, state.dictionary, data.weights)
    objective = features.logs - float(np.sum(state.dictionary * features.exposure)) if with_objective else np.nan
    floors = Floors.of(data, n_components).dictionary[:, None]
    return PoissonState(activations, FlatPrior(floors).rates(features.counts, features.exposure)), objective


def finish_by_rows(data: SparseData, engine: Engine, state: PoissonState) -> tuple[Floats, Floats, float]:
    """Dictionary with columns that sum to 1, the matching sums of activations, and the largest optimality violation."""
    blocks, floors = _wide_blocks(data), Floors.of(data, state.dictionary.shape[1])
    column_sums = state.dictionary.sum(axis=0)
    scale = np.where(column_sums > 0, column_sums, 1.0)
    dictionary = np.maximum(state.dictionary / scale, floors.dictionary[:, None])
    activations = engine.place(state.activations, data, blocks)
    unit = data.total / data.shape[0]
    totals = Side(data, engine).column_totals(dictionary)
    shared = dictionary, totals, FLOOR / scale.size, scale, unit, data.weights
    sums, (worst,) = engine.map_rows(_finish, data, blocks, *shared, reads=[activations], makes=[Made(())])
    features = FeatureSums.of(sums, dictionary, data.weights)
    column_sums = np.where(data.column_sums > 0, data.column_sums, data.total / data.shape[1])
    exposure = np.broadcast_to(features.exposure, dictionary.shape)
    gain = np.divide(features.counts, dictionary * exposure, out=np.zeros(exposure.shape), where=dictionary > 0)
    violations = np.abs(np.minimum(dictionary * exposure / column_sums[:, None], 1.0 - gain))[exposure > 0]
    return dictionary, features.activations, max(float(np.asarray(worst).max()), float(violations.max(initial=0.0)))


_NOTHING = np.zeros((0, 0))
# Numbers of the dictionary that a tiled pass reads, and of its sums that it writes, while they stay in the cache.
_TILE = 2**16


def _pass_by_tiles(block: Block, activations: Floats, dictionary: Floats, with_logs: bool, out: Pair) -> float:
    tile, span = max(1, _TILE // dictionary.shape[1]), (0, block.n_rows)
    return kernels.pass_by_tiles(block.own_cells, activations, dictionary, tile, with_logs, span, out)


def _wide_blocks(data: SparseData) -> list[tuple[int, int]]:
    # Each block sums into its own array for all features, so blocks are large enough to make this cheap.
    return row_blocks(data.indptr, max(TARGET_NONZEROS, 8 * data.shape[1]))


def _improve_by_rows(
    block: Block,
    activations: Floats,
    dictionary: Floats,
    totals: Totals,
    floor: float,
    max_sweeps: int,
    with_logs: bool,
    weights: Weights,
) -> Sums:
    own = activations[block.rows]
    if max_sweeps:
        floors = floor * block.data.row_sums[block.rows]
        held = dictionary, own_exposure(block, dictionary, totals), floors
        kernels.coordinate_descent(block.own_cells, held, (max_sweeps, 0.0), 0, block.n_rows, own)
    else:
        counts = np.empty(own.shape)
        _pass_by_tiles(block, own, dictionary, False, (counts, _NOTHING))
        own[...] = _rates(block, counts, dictionary, totals, floor)
    return _sums(block, own, dictionary, with_logs, weights)


def _finish(
    block: Block,
    activations: Floats,
    worst: Floats,
    dictionary: Floats,
    totals: Totals,
    floor: float,
    scale: Floats,
    unit: float,
    weights: Weights,
) -> Sums:
    own = np.maximum(activations[block.rows] * scale, floor * block.data.row_sums[block.rows, None])
    exposures = own_exposure(block, dictionary, totals)
    worst[block.rows] = kernels.kkt_residual(block.own_cells, own, dictionary, exposures, unit, 0, block.n_rows)
    return _sums(block, own, dictionary, False, weights)


def _sums(block: Block, activations: Floats, dictionary: Floats, with_logs: bool, weights: Weights) -> Sums:
    gain = np.zeros(dictionary.shape)
    logs = _pass_by_tiles(block, activations, dictionary, with_logs, (_NOTHING, gain))
    pointers, positions = block.own_missing
    hidden: Any = np.zeros((0, 0))
    if block.data.n_missing:
        hidden = np.zeros(dictionary.shape)
        rows = np.repeat(np.arange(block.n_rows), np.diff(pointers))
        positions, taken = positions[pointers[0] : pointers[-1]], activations[rows]
        if weights is not None:
            first = block.first_row + block.start
            groups = weights.groups_of_rows(first, first + block.n_rows)[rows]
            taken = taken * weights.values[groups, positions][:, None]
        np.add.at(hidden, positions, taken)
    return gain, own_totals(block, activations, weights), hidden, logs
