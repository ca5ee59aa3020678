"""Algorithm 6.1 as published: q(Z) is refreshed after each part."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from partwise.empirical_bayes import kernels
from partwise.empirical_bayes.inference.rates import EmpiricalBayesState, Factor, RateSide
from partwise.empirical_bayes.inference.sweep import Problem, Sweeps
from partwise.kernels.arrays import Floats


@dataclass
class ComponentSweeps(Sweeps):
    """For each part, solve the rank-1 problem (Algorithm 5.1: dictionary, then activations), then refresh q(Z)."""

    def sweep(self, problem: Problem, state: EmpiricalBayesState, turn: int) -> tuple[EmpiricalBayesState, float]:
        """Update every part once, each with a new prior; report the ELBO after that."""
        samples, features = replace(problem.samples, stay=False), problem.features
        state.activations = state.activations.fetched()
        by_rows, by_columns = CellRates(samples), CellRates(features)
        # Updated by differences within a sweep, and recomputed for the next, so that errors cannot accumulate.
        by_rows.fill(state.activations.geometric, state.dictionary.geometric)
        by_columns.fill(state.dictionary.geometric, state.activations.geometric)
        n_components = state.n_components
        activations = [state.activations.only(np.array([k]), samples.columns) for k in range(n_components)]
        dictionary = [state.dictionary.only(np.array([k]), features.columns) for k in range(n_components)]
        for k in range(n_components):
            old_row, old_column = activations[k].geometric[:, 0], dictionary[k].geometric[:, 0]
            row_counts = by_rows.counts(old_row, old_column)
            column_counts = by_columns.counts(old_column, old_row)
            exposure = features.exposure(*samples.weighted(activations[k].mean))
            dictionary[k] = features.solve(column_counts, exposure, dictionary[k])
            exposure = samples.exposure(*features.weighted(dictionary[k].mean))
            activations[k] = samples.solve(row_counts, exposure, activations[k])
            row, column = activations[k].geometric[:, 0], dictionary[k].geometric[:, 0]
            by_rows.replace((old_row, old_column), (row, column))
            by_columns.replace((old_column, old_row), (column, row))
        state = EmpiricalBayesState(Factor.joined(activations), Factor.joined(dictionary), state.constant, state.grown)
        return state, problem.elbo(state)


class CellRates:
    """The rate of every nonzero of one side of the data, Σ_k of products of both factors.

    Parameters
    ----------
    side
        The side.
    """

    def __init__(self, side: RateSide) -> None:
        self._data, self._engine, self._blocks = side.data, side.engine, side.passes.blocks
        self.values: Floats = np.empty(side.data.nnz)

    def _each(self, work: Callable[..., object], *given: Any) -> None:
        """Let a kernel visit all blocks; its output argument comes last."""
        self._engine.for_each(lambda block: work(*given[:-1], *block, given[-1]), self._blocks)

    def fill(self, factor: Floats, other: Floats) -> None:
        """All rates, from both factors."""
        self._each(kernels.cell_rates, self._data.indptr, self._data.indices, factor, other, self.values)

    def counts(self, row_part: Floats, column_part: Floats) -> Floats:
        """Expected counts of a part in each row, as a column."""
        out, cells = np.empty((self._data.shape[0], 1)), (self._data.indptr, self._data.indices, self._data.values)
        self._each(kernels.component_counts, cells, self.values, row_part, column_part, out[:, 0])
        return out

    def replace(self, old: kernels.Component, fresh: kernels.Component) -> None:
        """Remove a part from the rates and add its new version."""
        self._each(kernels.replace_component, self._data.indptr, self._data.indices, old, fresh, self.values)
