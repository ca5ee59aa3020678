"""What a fit says about factors and cells, in the user's orientation: samples x features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.draws import Draws
from partwise.binary.inference.em import FactorState
from partwise.binary.inference.moments import cell_moments, dirichlet_moments, row_moments
from partwise.binary.model import BinaryModel

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Posterior:
    """Means and standard deviations (None where there are none) of everything.

    Attributes
    ----------
    activations, dictionary, probability
        Samples x components, features x components, samples x features.
    component_cells
        Observed cells that each component explains.
    """

    activations: Floats
    dictionary: Floats
    probability: Floats
    component_cells: Floats
    activations_std: Floats | None = None
    dictionary_std: Floats | None = None
    probability_std: Floats | None = None


def posterior_of_draws(model: BinaryModel, draws: Draws) -> Posterior:
    """Averages over the kept draws: of cells over all chains, of factors over the likeliest chain."""
    kept = draws.n_kept
    best = int(np.argmax(draws.log_joint[:, :kept].mean(axis=1)))
    n_draws = kept * draws.n_chains
    return _oriented(
        model,
        _mean_and_std(draws.row_mean[best] / kept, draws.row_square[best] / kept),
        _mean_and_std(draws.column_mean[best] / kept, draws.column_square[best] / kept),
        _mean_and_std(draws.probability / n_draws, draws.probability_square / n_draws),
        draws.component_cells[best] / kept,
    )


def posterior_of_counts(model: BinaryModel, row_counts: Floats, column_counts: Floats) -> Posterior:
    """Of expected counts, which are the parameters of independent factors (Eq. 37 to 39)."""
    rows, columns = row_moments(model, row_counts), dirichlet_moments(column_counts, model.concentration)
    return _oriented(
        model,
        (rows.mean, np.sqrt(rows.variance)),
        (columns.mean, np.sqrt(columns.variance)),
        _mean_and_std(*cell_moments(rows, columns)),
        column_counts.sum(axis=0),
    )


def posterior_of_factors(model: BinaryModel, cells: Cells, state: FactorState) -> Posterior:
    """Of factors that were maximised over: points, without spread."""
    shares = (state.columns * cells.column_sizes[:, None]).sum(axis=0)
    return _oriented(model, (state.rows, None), (state.columns, None), (state.rows @ state.columns.T, None), shares)


_Estimate = tuple[Floats, Floats | None]


def _mean_and_std(mean: Floats, square: Floats) -> _Estimate:
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _oriented(
    model: BinaryModel, rows: _Estimate, columns: _Estimate, cells: _Estimate, component_cells: Floats
) -> Posterior:
    """Rows are samples, but for Dir-Beta features."""
    activations, dictionary = rows, columns
    if model.kind == "dir-beta":
        activations, dictionary = columns, rows
        mean, std = cells
        cells = np.ascontiguousarray(mean.T), None if std is None else np.ascontiguousarray(std.T)
    return Posterior(activations[0], dictionary[0], cells[0], component_cells, activations[1], dictionary[1], cells[1])
