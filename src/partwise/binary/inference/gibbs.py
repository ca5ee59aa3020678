"""Collapsed Gibbs samplers of the three models: labels of cells, both factors integrated out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.posterior import BinaryDraws, dirichlet_moments, row_moments
from partwise.binary.inference.starts import Start, start_labels
from partwise.binary.kernels.cells import beta_terms, count_labels, sum_of_table
from partwise.binary.kernels.collapsed import sweep_beta_dirichlet, sweep_dirichlet_dirichlet
from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.kernels.arrays import Counts, Floats
from partwise.sampling.gibbs import GibbsSampler


@dataclass
class BinaryGibbsState:
    """Labels of all cells and their counts, and what was kept: lists of one array per chain.

    ``labels`` are ordered by columns; ``row_labels``, of Dir-Dir alone, by rows. Arrays of ``labels`` and
    ``row_counts`` may be on workers.
    """

    labels: list[Any]
    row_labels: list[Any]
    row_counts: list[Any]
    column_counts: list[Any]
    draws: BinaryDraws


@dataclass
class BinaryCollapsedGibbs(GibbsSampler[Cells, BinaryGibbsState]):
    """Algorithm 1 (Beta-Dir, Dir-Beta) and Algorithm 2 (Dir-Dir) of the paper, the second with joint draws.

    A step is a sweep of every chain. Within a chain cells come one after the other, as each changes the counts that the
    next is drawn by; chains run in parallel.
    """

    model: BinaryModel
    start: Start = "random"

    def init(self, key: Key, data: Cells) -> BinaryGibbsState:
        """Labels at random, or drawn from a variational fit."""
        n_components, n_chains = self.model.n_components, self.n_chains
        state = BinaryGibbsState([], [], [], [], BinaryDraws.empty(data, n_components, n_chains, self.n_draws))
        for chain in range(n_chains):
            labels, row_labels = start_labels(key.for_chain(chain), data, self.model, self.start)
            row_counts = np.zeros((data.shape[0], n_components, 2), np.int32)
            column_counts = np.zeros((data.shape[1], n_components), np.int32)
            count_labels(data.row_starts, data.codes, data.column_starts, labels, row_counts, column_counts)
            if self.model.kind == "dir-dir":
                row_counts = _count_row_labels(data, row_labels, n_components)
            state.labels.append(labels)
            state.row_labels.append(row_labels)
            state.row_counts.append(row_counts)
            state.column_counts.append(column_counts)
        return state

    @property
    def attempts(self) -> int:
        """Proposals after which a label is drawn from all weights, where sixteen of these cost about one proposal."""
        return 4 + self.model.n_components // 16

    def _sweep(self, key: Key, data: Cells, state: BinaryGibbsState, chain: int) -> None:
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

    def keep(self, data: Cells, state: BinaryGibbsState) -> None:
        """Add the present labels of every chain to what is kept."""
        counts = list(zip(map(np.asarray, state.row_counts), state.column_counts, strict=True))
        moments = [
            (row_moments(self.model, rows), dirichlet_moments(columns, self.model.concentration))
            for rows, columns in counts
        ]
        joint = [log_joint_of_counts(self.model, rows, columns) for rows, columns in counts]
        component_cells = np.stack([columns.sum(axis=0, dtype=np.int64) for columns in state.column_counts])
        state.draws.keep(data, moments, component_cells, joint, self.active_threshold, self.engine)


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
