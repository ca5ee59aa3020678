"""Collapsed Gibbs samplers of the three models: labels of cells, both factors integrated out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.draws import Draws, keep
from partwise.binary.inference.moments import dirichlet_moments, row_moments
from partwise.binary.inference.starts import Start, start_labels
from partwise.binary.kernels.cells import count_labels
from partwise.binary.kernels.collapsed import sweep_beta_dirichlet
from partwise.binary.kernels.collapsed_pair import sweep_dirichlet_dirichlet
from partwise.binary.kernels.counts import beta_terms, sum_of_table
from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.engines.base import Engine

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]


@dataclass
class GibbsState:
    """Labels of all cells and their counts, chain by chain, and what was kept.

    ``labels`` are ordered by columns; ``row_labels``, of Dir-Dir alone, by rows. ``labels`` and ``row_counts`` are
    lists of one array per chain, which may be on workers.
    """

    labels: list[Any]
    row_labels: NDArray[Any]
    row_counts: list[Any]
    column_counts: Counts
    draws: Draws


@dataclass
class CollapsedGibbs:
    """Algorithm 1 (Beta-Dir, Dir-Beta) and Algorithm 2 (Dir-Dir) of the paper, the second with joint draws.

    A step is a sweep of every chain. Within a chain cells come one after the other, as each changes the counts that the
    next is drawn by; chains run in parallel.
    """

    model: BinaryModel
    burn_in: int
    n_draws: int
    thin: int
    n_chains: int
    start: Start
    active_threshold: float
    engine: Engine = field(compare=False)

    @property
    def n_sweeps(self) -> int:
        """Sweeps of a whole run."""
        return self.burn_in + self.n_draws * self.thin

    def init(self, key: Key, data: Cells) -> GibbsState:
        """Labels at random, or drawn from a variational fit."""
        pair = self.model.kind == "dir-dir"
        chains = [start_labels(key.for_chain(c), data, self.model, self.start) for c in range(self.n_chains)]
        labels, row_labels = [own for own, _ in chains], np.stack([own for _, own in chains])
        n_components = self.model.n_components
        (n_rows, n_columns), n_chains = data.shape, self.n_chains
        row_counts = [np.zeros((n_rows, n_components, 2), np.int32) for _ in range(n_chains)]
        column_counts = np.zeros((n_chains, n_columns, n_components), np.int32)
        for c in range(n_chains):
            count_labels(data.row_starts, data.codes, data.column_starts, labels[c], row_counts[c], column_counts[c])
        if pair:
            row_counts = [_count_row_labels(data, own, n_components) for own in row_labels]
        draws = Draws.empty(data, n_components, n_chains, self.n_draws)
        return GibbsState(labels, row_labels, row_counts, column_counts, draws)

    def step(self, key: Key, data: Cells, state: GibbsState) -> tuple[GibbsState, Mapping[str, float]]:
        """One sweep; after the burn-in every ``thin``-th is kept."""
        self._sweeps(key, data, state)
        after = key.iteration - self.burn_in
        if after <= 0 or after % self.thin or state.draws.n_kept == self.n_draws:
            return state, {}
        self.keep(data, state)
        at = state.draws.n_kept - 1
        draws = state.draws
        return state, {
            "log_joint": float(draws.log_joint[:, at].mean()),
            "log_likelihood": float(draws.log_likelihood[:, at].mean()),
            "n_active": float(draws.n_active[:, at].mean()),
        }

    @property
    def attempts(self) -> int:
        """Proposals after which a label is drawn from all weights, where sixteen of these cost about one proposal."""
        return 4 + self.model.n_components // 16

    def _sweeps(self, key: Key, data: Cells, state: GibbsState) -> None:
        self.engine.for_each(lambda chain: self._sweep(key.for_chain(chain), data, state, chain), range(self.n_chains))

    def _sweep(self, key: Key, data: Cells, state: GibbsState, chain: int) -> None:
        model, attempts = self.model, self.attempts
        words = key.for_stage("gibbs").words
        cells = data.row_starts, data.codes, data.column_starts
        counts = state.row_counts[chain], state.column_counts[chain]
        if model.kind == "dir-dir":
            concentrations = model.concentration, model.activation_concentration
            labels = state.labels[chain], state.row_labels[chain]
            sweep_dirichlet_dirichlet(*cells, *concentrations, attempts, *words, *labels, *counts)
        else:
            priors = model.alpha, model.beta, model.concentration
            sweep_beta_dirichlet(*cells, *priors, attempts, *words, state.labels[chain], *counts)

    def keep(self, data: Cells, state: GibbsState) -> None:
        """Add the present labels of every chain to what is kept."""
        counts = [(np.asarray(state.row_counts[c]), state.column_counts[c]) for c in range(self.n_chains)]
        moments = [
            (row_moments(self.model, rows), dirichlet_moments(columns, self.model.concentration))
            for rows, columns in counts
        ]
        joint = [log_joint_of_counts(self.model, rows, columns) for rows, columns in counts]
        component_cells = state.column_counts.sum(axis=1, dtype=np.int64)
        keep(state.draws, data, moments, component_cells, joint, self.active_threshold, self.engine)


def log_joint_of_counts(model: BinaryModel, row_counts: Counts, column_counts: Counts) -> float:
    """The logarithm of p(X, Z), both factors integrated out (Eq. 23, 24; for Dir-Dir 54, 55), by tables."""
    total = _log_dirichlet_counts(column_counts, model.concentration)
    if model.kind == "dir-dir":
        return total + _log_dirichlet_counts(row_counts, model.activation_concentration)
    both = row_counts.sum(axis=2)
    tables = [_rising(prior, int(both.max(initial=0))) for prior in (model.alpha, model.beta, model.alpha + model.beta)]
    return total + beta_terms(row_counts, *tables)


def _log_dirichlet_counts(counts: Counts, concentration: float) -> float:
    sizes = counts.sum(axis=1)
    whole = _rising(concentration * counts.shape[1], int(sizes.max(initial=0)))
    one = _rising(concentration, int(counts.max(initial=0)))
    return sum_of_table(counts, one) - float(whole[sizes].sum())


def _rising(base: float, largest: int) -> Floats:
    """Differences log Γ(base + c) - log Γ(base) for c = 0, 1, ..., largest."""
    table: Floats = gammaln(base + np.arange(largest + 1)) - gammaln(base)
    return table


def _count_row_labels(data: Cells, row_labels: NDArray[Any], n_components: int) -> Counts:
    flat = np.bincount(data.rows_of_cells() * n_components + row_labels, minlength=data.shape[0] * n_components)
    return flat.reshape(data.shape[0], n_components).astype(np.int32)
