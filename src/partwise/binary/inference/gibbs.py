"""Collapsed Gibbs samplers for the three models: labels of cells, with both factors integrated out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.posterior import BinaryDraws, dirichlet_moments, row_moments
from partwise.binary.inference.priors import Exceeding, draw_priors, exceeding_rows, log_rising
from partwise.binary.inference.starts import Start, start_labels, starts_of
from partwise.binary.kernels.cells import add_left_out, add_left_out_pairs, count_labels, to_row_order
from partwise.binary.kernels.collapsed import sweep_beta_dirichlet, sweep_dirichlet_dirichlet
from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.kernels.arrays import Counts, Floats
from partwise.sampling.draws import exceeding
from partwise.sampling.gibbs import GibbsSampler


@dataclass
class BinaryGibbsState:
    """Labels of all cells and their counts, and kept draws: lists of one array per chain.

    ``labels`` are ordered by columns; ``row_labels``, of Dir-Dir alone, by rows. Arrays of ``labels`` and
    ``row_counts`` may be on workers. ``priors`` are chains x kinds x parts, as in `partwise.binary.model.Priors`.
    """

    labels: list[Any]
    row_labels: list[Any]
    row_counts: list[Any]
    column_counts: list[Any]
    priors: Floats
    draws: BinaryDraws


@dataclass
class BinaryCollapsedGibbs(GibbsSampler[Cells, BinaryGibbsState]):
    """Algorithm 1 (Beta-Dir, Dir-Beta) and Algorithm 2 (Dir-Dir) of the paper, the latter with joint draws.

    A step is a sweep of every chain. Within a chain, cells are processed one after the other, because each changes the
    counts for the next. Chains run in parallel.
    """

    REVISION: ClassVar[int] = 2

    model: BinaryModel
    start: Start = "random"
    weighs_chains: bool = False

    def init(self, key: Key, data: Cells) -> BinaryGibbsState:
        """Labels at random, or drawn from a variational fit."""
        n_components, n_chains = self.model.n_components, self.n_chains
        priors = np.stack([np.array(self.model.priors)] * n_chains)
        state = BinaryGibbsState([], [], [], [], priors, self.no_draws(data))
        starts = starts_of(self.start, n_chains)
        found: list[Any] = [None] * n_chains

        def begin(chain: int) -> None:
            found[chain] = start_labels(key.for_chain(chain), data, self.model, starts[chain])

        self.engine.for_each(begin, range(n_chains))
        for labels, row_labels in found:
            row_counts: Counts = np.zeros((data.shape[0], n_components, 2), np.int32)
            column_counts = np.zeros((data.shape[1], n_components), np.int32)
            count_labels(data.ordered, labels, row_counts, column_counts)
            if self.model.kind == "dir-dir":
                of_rows = data.rows_of_cells() * n_components + row_labels
                flat = np.bincount(of_rows, minlength=data.shape[0] * n_components)
                row_counts = flat.reshape(data.shape[0], n_components).astype(np.int32)
            state.labels.append(labels)
            state.row_labels.append(row_labels)
            state.row_counts.append(row_counts)
            state.column_counts.append(column_counts)
        return state

    def no_draws(self, data: Cells) -> BinaryDraws:
        """Allocate storage for the draws of a round."""
        return BinaryDraws.empty(data, self.model.n_components, self.n_chains, self.n_draws, self.weighs_chains)

    @property
    def attempts(self) -> int:
        """Proposals after which a label is drawn from all weights, where sixteen of these cost about one proposal."""
        return 4 + self.model.n_components // 16

    def _sweep(self, key: Key, data: Cells, state: BinaryGibbsState, chain: int) -> None:
        self._sweep_labels(key, data, state, chain)
        if self.model.estimated:
            generator = key.for_stage("priors").generator()
            above = self._exceeding(data, state.row_counts[chain])
            state.priors[chain] = draw_priors(
                self._model_of(state, chain), generator, above, state.column_counts[chain]
            )

    def _exceeding(self, data: Cells, row_counts: Any) -> tuple[Exceeding, ...]:
        """How many counts of rows exceed 0, 1, 2 and so on."""
        return exceeding_rows(self.model, row_counts)

    def _model_of(self, state: BinaryGibbsState, chain: int) -> BinaryModel:
        """The model with the current priors of a chain."""
        return self.model.with_priors(state.priors[chain]) if self.model.estimated else self.model

    def _sweep_labels(self, key: Key, data: Cells, state: BinaryGibbsState, chain: int) -> None:
        model, attempts = self.model, self.attempts
        priors = self._model_of(state, chain).priors
        words = key.for_stage("gibbs").words
        counts = state.row_counts[chain], state.column_counts[chain]
        if model.kind == "dir-dir":
            concentrations = priors.concentration, priors.activation_concentration
            labels = state.labels[chain], state.row_labels[chain]
            sweep_dirichlet_dirichlet(data.ordered, concentrations, attempts, words, labels, *counts)
        else:
            given = priors.of_bits, priors.concentration
            sweep_beta_dirichlet(data.ordered, given, attempts, words, state.labels[chain], *counts)

    def keep(self, data: Cells, state: BinaryGibbsState) -> None:
        """Add the current labels of every chain to the kept draws."""
        models = [self._model_of(state, chain) for chain in range(self.n_chains)]
        counts = list(zip(models, map(np.asarray, state.row_counts), state.column_counts, strict=True))
        moments = [
            (row_moments(model, rows), dirichlet_moments(columns, model.priors.concentration))
            for model, rows, columns in counts
        ]
        joint = [log_joint_of_counts(*own) for own in counts]
        component_cells = np.stack([columns.sum(axis=0, dtype=np.int64) for columns in state.column_counts])
        state.draws.priors += state.priors
        learned = "concentration" in self.model.estimated
        totals = [float(own.priors.concentration.sum()) if learned else np.nan for own in models]
        leave_out = self._leaves_out(data, state, counts) if self.weighs_chains else None
        state.draws.keep(data, moments, component_cells, joint, totals, self.active_threshold, self.engine, leave_out)

    def _leaves_out(self, data: Cells, state: BinaryGibbsState, counts: Sequence[tuple[BinaryModel, Any, Any]]) -> Any:
        """What adds probabilities of left-out cells, as `BinaryDraws.keep` needs it."""
        by_rows = [np.empty_like(labels) for labels in state.labels]
        for labels, out in zip(state.labels, by_rows, strict=True):
            to_row_order(data.ordered, labels, out)

        def leave_out(chain: int, start: int, stop: int, probability: Floats, out: Floats) -> None:
            model, *own = counts[chain]
            priors, labels, span = model.priors, by_rows[chain], (start, stop, out)
            if model.kind == "dir-dir":
                given = priors.concentration, priors.activation_concentration
                both = labels, state.row_labels[chain]
                add_left_out_pairs(data.ordered, both, probability, tuple(own), given, *span)
            else:
                given = priors.of_bits, priors.concentration
                add_left_out(data.ordered, labels, probability, tuple(own), given, *span)

        return leave_out


def log_joint_of_counts(model: BinaryModel, row_counts: Counts, column_counts: Counts) -> float:
    """Log p(X, Z), with both factors integrated out (Eq. 23, 24; for Dir-Dir 54, 55), given the priors."""
    priors = model.priors
    total = _log_dirichlet_counts(column_counts, priors.concentration)
    if model.kind == "dir-dir":
        return total + _log_dirichlet_counts(row_counts, priors.activation_concentration)
    bits = log_rising(exceeding(row_counts[..., 1]), priors.alpha) + log_rising(
        exceeding(row_counts[..., 0]), priors.beta
    )
    return total + bits - log_rising(exceeding(row_counts.sum(axis=2)), priors.alpha + priors.beta)


def _log_dirichlet_counts(counts: Counts, concentration: Floats) -> float:
    sizes = exceeding(counts.sum(axis=1, keepdims=True))
    return log_rising(exceeding(counts), concentration) - log_rising(sizes, concentration.sum(keepdims=True))
