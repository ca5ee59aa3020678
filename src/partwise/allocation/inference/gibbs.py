"""Collapsed Gibbs sampling of the labels of all tokens: exact, serial within a chain, chains in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.allocation.inference.draws import Draws
from partwise.allocation.inference.labels import check_tokens, guide_counts, label_type, padded_width, sweep
from partwise.allocation.model import AllocationModel, SamplePrior
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Ragged, first_tokens, row_blocks
from partwise.poisson.inference.state import Start

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]


@dataclass
class GibbsState:
    """Labels of all tokens and their counts, chain by chain, allocations of missing cells, and what was kept.

    Arrays with one row per sample are lists of one array per chain, which may be on workers. Counts hold those of the
    missing cells too; ``feature_counts`` are padded with zeros to whole lanes.
    """

    labels: list[Any]
    sample_counts: list[Any]
    feature_counts: Counts
    component_counts: NDArray[np.int64]
    missing: Counts
    draws: Draws


@dataclass
class CollapsedGibbs:
    """A step is a sweep of every chain, over tokens in order; given the lengths this is LDA's sampler.

    Missing cells are filled in by data augmentation: given all allocations the factors and lengths have closed
    posteriors (Eq. 6), and given these the allocations of a missing cell are independent Poisson draws (Eq. 5).
    """

    model: AllocationModel
    burn_in: int
    n_draws: int
    thin: int
    n_chains: int
    active_threshold: float
    engine: Engine = field(compare=False)
    start: Start = "random"

    name = "gibbs"

    @property
    def n_sweeps(self) -> int:
        """Sweeps of a whole run."""
        return self.burn_in + self.n_draws * self.thin

    def init(self, key: Key, data: SparseData) -> GibbsState:
        """Tokens take labels one after the other, each given those before it, and the counts of KL-NMF besides."""
        check_tokens(data, f"inference={self.name!r}")
        model, (n_samples, n_features), n_chains = self.model, data.shape, self.n_chains
        n_components = model.n_components
        state = GibbsState(
            labels=[np.full(int(data.total), n_components, label_type(n_components)) for _ in range(n_chains)],
            sample_counts=[np.zeros((n_samples, n_components), np.int32) for _ in range(n_chains)],
            feature_counts=np.zeros((n_chains, n_features, padded_width(n_components)), np.int32),
            component_counts=np.zeros((n_chains, n_components), np.int64),
            missing=np.zeros((n_chains, data.n_missing, n_components), np.int32),
            draws=Draws.empty(data.shape, n_components, n_chains, self.n_draws),
        )

        keys = [key.for_chain(chain).for_stage("init") for chain in range(n_chains)]
        guides = [guide_counts(own, data, model, self.start, self.engine) for own in keys]

        def one(chain: int) -> None:
            by_feature, by_component = guides[chain]
            state.feature_counts[chain, :, :n_components] += by_feature
            state.component_counts[chain] += by_component
            self._collapsed(keys[chain], data, state, chain, (0, n_samples))
            state.feature_counts[chain, :, :n_components] -= by_feature
            state.component_counts[chain] -= by_component

        self.engine.for_each(one, range(n_chains))
        return state

    def step(self, key: Key, data: SparseData, state: GibbsState) -> tuple[GibbsState, Mapping[str, float]]:
        """One sweep; after the burn-in every ``thin``-th is kept."""
        self._sweeps(key, data, state)
        if data.n_missing:
            for chain in range(self.n_chains):
                self._impute(key.for_chain(chain).for_stage("missing"), data, state, chain)
        after = key.iteration - self.burn_in
        if after <= 0 or after % self.thin or state.draws.n_kept == self.n_draws:
            return state, {}
        self.keep(data, state)
        at = state.draws.n_kept - 1
        names = ("log_joint", "n_active", "evenness")
        return state, {name: float(getattr(state.draws, name)[:, at].mean()) for name in names}

    def keep(self, data: SparseData, state: GibbsState) -> None:
        """Add the present labels of every chain to what is kept."""
        log_factorials = float(gammaln(data.values + 1.0).sum())
        draws, blocks = state.draws, self._blocks(data)
        for chain in range(self.n_chains):
            log_samples, (draws.activations[chain],) = self._rows_engine.map_rows(
                _keep_rows,
                data,
                blocks,
                self.model.sample_prior,
                reads=[state.sample_counts[chain]],
                changes=[draws.activations[chain]],
            )
            by_feature = state.feature_counts[chain, :, : self.model.n_components].astype(np.float64)
            draws.keep(chain, self.model, by_feature, self.active_threshold)
            hidden = float(gammaln(state.missing[chain].sum(axis=1) + 1.0).sum())
            draws.log_joint[chain, draws.n_kept] = self.model.log_labels(
                log_samples, by_feature, log_factorials + hidden
            )
        draws.n_kept += 1

    @property
    def _rows_engine(self) -> Engine:
        """Where the arrays with one row per sample are: here, as a sweep is serial."""
        return self.engine.here

    def _blocks(self, data: SparseData) -> list[tuple[int, int]]:
        """Blocks of rows that are worked on in parallel."""
        return row_blocks(data.indptr)

    def _sweeps(self, key: Key, data: SparseData, state: GibbsState) -> None:
        rows = (0, data.shape[0])

        def one(chain: int) -> None:
            self._collapsed(key.for_chain(chain).for_stage("gibbs"), data, state, chain, rows)

        self.engine.for_each(one, range(self.n_chains))

    def _collapsed(self, key: Key, data: SparseData, state: GibbsState, chain: int, rows: tuple[int, int]) -> None:
        counts = state.sample_counts[chain], state.feature_counts[chain], state.component_counts[chain]
        sweep(key, data, self.model, rows, state.labels[chain], *counts)

    def _impute(self, key: Key, data: SparseData, state: GibbsState, chain: int) -> None:
        """Draw factors and lengths given all allocations, and allocations of the missing cells given these."""
        model, rng = self.model, key.generator()
        n_components = model.n_components
        sample_counts, feature_counts = state.sample_counts[chain], state.feature_counts[chain, :, :n_components]
        weights = rng.standard_gamma(model.dictionary_posterior(feature_counts))
        shares = rng.standard_gamma(model.activation_posterior(sample_counts))
        shape, rate = model.length_posterior(sample_counts.sum(axis=1))
        activations = shares * (rng.gamma(shape) / rate / shares.sum(axis=1))[:, None]
        rows = np.repeat(np.arange(data.shape[0]), np.diff(data.missing_indptr))
        drawn = rng.poisson(activations[rows] * (weights / weights.sum(axis=0))[data.missing_indices]).astype(np.int32)
        change = drawn - state.missing[chain]
        np.add.at(sample_counts, rows, change)
        np.add.at(feature_counts, data.missing_indices, change)
        state.component_counts[chain] += change.sum(axis=0)
        state.missing[chain] = drawn


@dataclass
class RowwiseGibbs(CollapsedGibbs):
    """Base of samplers whose rows are swept in parallel, on workers where there are some."""

    @property
    def _rows_engine(self) -> Engine:
        return self.engine

    def _sweeps(self, key: Key, data: SparseData, state: GibbsState) -> None:
        blocks = self._blocks(data)
        for chain in range(self.n_chains):
            labels = self.engine.place(Ragged(state.labels[chain], first_tokens), data, blocks)
            sample_counts = state.sample_counts[chain]
            if not data.n_missing:
                # Allocations of missing cells are drawn here, from one stream, and change the counts.
                sample_counts = self.engine.place(sample_counts, data, blocks)
                state.draws.activations[chain] = self.engine.place(state.draws.activations[chain], data, blocks)
            function, shared = self._prepare(key.for_chain(chain), data, state, chain)
            sums, (state.labels[chain], state.sample_counts[chain]) = self.engine.map_rows(
                function, data, blocks, *shared, changes=[Ragged(labels, first_tokens), sample_counts]
            )
            self._finish(data, state, chain, sums)

    def _prepare(
        self, key: Key, data: SparseData, state: GibbsState, chain: int
    ) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function that sweeps a block of rows, and what all blocks share."""
        raise NotImplementedError

    def _finish(self, data: SparseData, state: GibbsState, chain: int, sums: Any) -> None:
        """Take over what the function has summed."""
        raise NotImplementedError


def _keep_rows(block: Block, sample_counts: Counts, kept: Floats, prior: SamplePrior) -> float:
    counts = sample_counts[block.rows].astype(np.float64)
    kept[block.rows] += prior.expected_activations(counts)
    return prior.log_counts(counts)
