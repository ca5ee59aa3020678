"""Collapsed Gibbs sampling of the labels of all tokens: exact; chains and, in large data, squares in parallel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from partwise.allocation.inference.labels import TokenLabels, check_tokens, guide_counts
from partwise.allocation.inference.learning import (
    ACTIVATION,
    EVERY,
    EVERY_SWEEPS,
    check_row_lengths,
    draw_concentrations,
)
from partwise.allocation.inference.squares import label_by_halves, number_of_squares, sweep_squares
from partwise.allocation.kernels.collapsed import draw_missing_cells, keep_rows
from partwise.allocation.model import MANY_COMPONENTS, AllocationModel, Concentrations, SamplePrior
from partwise.contract.given_parts import seeded_order
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, first_tokens, row_blocks
from partwise.kernels.arrays import Counts, Floats
from partwise.poisson.inference.state import Start
from partwise.sampling.draws import KeptDraws
from partwise.sampling.gibbs import GibbsSampler

# Sum of the concentrations of activations at the start, for many parts: this many tokens, or this share of a row. Long
# rows need many parts at first. Otherwise the parts that come first keep most of them.
_FIRST_TOTAL, _FIRST_SHARE = 20.0, 1 / 16


@dataclass
class AllocationDraws(KeptDraws):
    """Sums over draws of conditional means of the factors, by chain, and numbers of each draw.

    ``activations`` is a list of one array per chain, which may be on workers. Among the numbers, ``n_active`` counts
    parts with a noticeable share, and ``evenness`` is the chance that two random tokens come from different parts.
    """

    names: ClassVar[tuple[str, ...]] = ("log_joint", "n_active", "evenness")

    dictionary: Floats
    activations: list[Any]
    component_tokens: Floats
    dictionary_concentration: Floats
    activation_concentration: Floats

    @classmethod
    def empty(cls, shape: tuple[int, int], n_components: int, n_chains: int, n_draws: int) -> AllocationDraws:
        """Allocate storage for ``n_draws`` draws from ``n_chains`` chains."""
        n_samples, n_features = shape
        return cls(
            numbers=cls.no_numbers(n_chains, n_draws),
            n_kept=0,
            dictionary=np.zeros((n_chains, n_features, n_components)),
            activations=[np.zeros((n_samples, n_components)) for _ in range(n_chains)],
            component_tokens=np.zeros((n_chains, n_components)),
            dictionary_concentration=np.zeros((n_chains, n_features)),
            activation_concentration=np.zeros((n_chains, n_components)),
        )


@dataclass
class AllocationGibbsState(TokenLabels):
    """Labels and counts, including those of missing cells; allocations of missing cells; kept draws."""

    missing: list[Counts]
    dictionary_concentration: list[Floats]
    activation_concentration: list[Floats]
    draws: AllocationDraws

    def concentrations(self, chain: int) -> Concentrations:
        """The labels and counts of one chain."""
        return Concentrations(self.dictionary_concentration[chain], self.activation_concentration[chain])


@dataclass
class AllocationCollapsedGibbs(GibbsSampler[SparseData, AllocationGibbsState]):
    """A step is a sweep of every chain over all tokens. Given the lengths, this is LDA's sampler.

    Missing cells are handled by data augmentation: given all allocations, factors and lengths have closed-form
    posteriors (Eq. 6). Given these, the allocations of a missing cell are independent Poisson draws (Eq. 5).
    """

    name: ClassVar[str] = "gibbs"

    model: AllocationModel
    start: Start = "random"
    seeds: Floats | None = None

    def init(self, key: Key, data: SparseData) -> AllocationGibbsState:
        """Tokens get labels one after the other, each given those before it and the counts of KL-NMF.

        With many parts there is no KL-NMF: sweeps achieve more in the same time. Learned concentrations then start so
        small that few parts share a row.
        """
        check_tokens(data, f"inference={self.name!r}")
        check_row_lengths(self.model, data.row_sums)
        model, n_components, chains = self.model, self.model.n_components, range(self.n_chains)
        state = AllocationGibbsState.none_yet(
            data,
            n_components,
            self.n_chains,
            missing=[np.zeros((data.n_missing, n_components), np.int32) for _ in chains],
            dictionary_concentration=[model.dictionary_concentration.copy() for _ in chains],
            activation_concentration=[model.activation_concentration.copy() for _ in chains],
            draws=self.no_draws(data),
        )
        keys = [key.for_chain(chain).for_stage("init") for chain in chains]
        known = self.seeds
        if model.n_fixed:
            known = np.pad(model.fixed, ((0, 0), (0, n_components - model.n_fixed)))
        if n_components >= MANY_COMPONENTS and known is None and isinstance(self.start, str) and self.start == "random":
            if ACTIVATION in model.estimated:
                whole = max(_FIRST_TOTAL, _FIRST_SHARE * data.total / data.shape[0])
                state.activation_concentration = [np.full(n_components, whole / n_components) for _ in chains]
            label_by_halves(keys, data, [self.present(state, chain) for chain in chains], state, self.engine.here)
            return state
        guides = [guide_counts(own, data, model, self.start, self.engine) for own in keys]
        if known is not None:
            orders = [seeded_order(known, counts.astype(np.float64)) for counts, _ in guides]
            guides = [(counts[:, k].copy(), sums[k]) for (counts, sums), k in zip(guides, orders, strict=True)]

        def one(chain: int) -> None:
            by_feature, by_component = guides[chain]
            if self.seeds is not None:
                # Tokens that keep their labels act as a Dirichlet prior: their counts are added to its concentrations.
                state.feature_counts[chain][:, :n_components] += self.seeds.astype(np.int32)
                state.component_counts[chain] += self.seeds.sum(axis=0).astype(np.int64)
            state.feature_counts[chain][:, :n_components] += by_feature
            state.component_counts[chain] += by_component
            state.sweep(keys[chain], data, model, chain)
            state.feature_counts[chain][:, :n_components] -= by_feature
            state.component_counts[chain] -= by_component

        self.engine.for_each(one, chains)
        return state

    def no_draws(self, data: SparseData) -> AllocationDraws:
        """Allocate storage for the draws of a round."""
        return AllocationDraws.empty(data.shape, self.model.n_components, self.n_chains, self.n_draws)

    def sweep_all(self, key: Key, data: SparseData, state: AllocationGibbsState) -> None:
        """Sweep every chain once, then draw its missing cells, all in place."""
        number = 1 if self.rows_in_parallel else number_of_squares(data, self.model.n_components)
        if number > 1:
            keys = [key.for_chain(chain) for chain in range(self.n_chains)]
            models = [self.present(state, chain) for chain in range(self.n_chains)]
            sweep_squares(keys, data, models, state, number, self._own_engine)
        else:
            super().sweep_all(key, data, state)
        if data.n_missing:
            for chain in range(self.n_chains):
                self._impute(key.for_chain(chain).for_stage("missing"), data, state, chain)
        # If learned too early, small concentrations of the dictionary freeze many parts.
        many = self.model.n_components >= MANY_COMPONENTS
        if self.model.estimated and key.iteration % (EVERY if many else EVERY_SWEEPS) == 0:
            for chain in range(self.n_chains):
                counts = state.sample_counts[chain], state.feature_counts[chain]
                drawn = draw_concentrations(
                    key.for_chain(chain), data, self.present(state, chain), self._own_engine, *counts
                )
                state.dictionary_concentration[chain], state.activation_concentration[chain] = drawn

    def present(self, state: AllocationGibbsState, chain: int) -> AllocationModel:
        """The model with the current concentrations of a chain."""
        return self.model.with_concentrations(state.concentrations(chain))

    @property
    def _own_engine(self) -> Engine:
        # A serial sweep needs its arrays in this process.
        return self.engine if self.rows_in_parallel else self.engine.here

    def _sweep(self, key: Key, data: SparseData, state: AllocationGibbsState, chain: int) -> None:
        state.sweep(key.for_stage("gibbs"), data, self.present(state, chain), chain)

    def keep(self, data: SparseData, state: AllocationGibbsState) -> None:
        """Add the current labels of every chain to the kept draws."""
        draws, blocks = state.draws, self._blocks(data)
        log_factorials = float(gammaln(data.values + 1.0).sum())
        log_joint, shares = np.empty(self.n_chains), np.empty((self.n_chains, self.model.n_components))
        for chain in range(self.n_chains):
            model = self.present(state, chain)
            changes, reads = [draws.activations[chain]], [state.sample_counts[chain]]
            log_samples, (draws.activations[chain],) = self._own_engine.map_rows(
                _keep_rows, data, blocks, model.sample_prior, reads=reads, changes=changes
            )
            by_feature = state.feature_counts[chain][:, : self.model.n_components]
            tokens = by_feature.sum(axis=0, dtype=np.float64)
            self._keep_dictionary(model, by_feature, tokens, draws.dictionary[chain])
            if self.seeds is not None:
                tokens = tokens - self.seeds.sum(axis=0)
            shares[chain] = tokens / max(float(tokens.sum()), 1.0)
            draws.dictionary_concentration[chain] += model.dictionary_concentration
            draws.activation_concentration[chain] += model.activation_concentration
            draws.component_tokens[chain] += tokens
            hidden = float(gammaln(state.missing[chain].sum(axis=1) + 1.0).sum())
            log_joint[chain] = model.log_labels(log_samples, by_feature, log_factorials + hidden)
        n_active = np.count_nonzero(shares >= self.active_threshold, axis=1)
        draws.record(log_joint=log_joint, n_active=n_active, evenness=1.0 - np.square(shares).sum(axis=1))

    def _keep_dictionary(self, model: AllocationModel, by_feature: Counts, tokens: Floats, kept: Floats) -> None:
        """Add the dictionary's conditional mean, a few features at a time. All at once would be another large array."""
        alpha = model.dictionary_concentration
        whole = alpha.sum() + tokens

        def some_features(block: tuple[int, int]) -> None:
            rows = slice(*block)
            mean = (alpha[rows, None] + by_feature[rows]) / whole
            mean[:, : model.n_fixed] = model.fixed[rows]
            kept[rows] += mean

        self.engine.for_each(some_features, row_blocks(np.arange(alpha.size + 1), 2**17 // tokens.size + 1))

    def _blocks(self, data: SparseData) -> list[tuple[int, int]]:
        """Blocks of rows that are processed in parallel."""
        return row_blocks(data.indptr)

    def _impute(self, key: Key, data: SparseData, state: AllocationGibbsState, chain: int) -> None:
        """Draw factors and lengths given all allocations, and then allocations of the missing cells given these."""
        model, rng = self.present(state, chain), key.generator()
        _, sample_counts, feature_counts, component_counts = state.of_chain(chain)
        # For features without missing cells only the sum is needed, which is a gamma draw, too.
        features = np.unique(data.missing_indices)
        shapes = model.dictionary_posterior(feature_counts[:, : model.n_components])
        weights = rng.standard_gamma(shapes[features])
        rest = rng.standard_gamma(np.delete(shapes, features, axis=0).sum(axis=0))
        dictionary = np.zeros(shapes.shape)
        dictionary[features] = weights / (weights.sum(axis=0) + rest)
        shares = rng.standard_gamma(model.activation_posterior(sample_counts))
        shape, rate = model.length_posterior(sample_counts.sum(axis=1))
        activations = shares * (rng.gamma(shape) / rate / shares.sum(axis=1))[:, None]
        missing = data.missing_indptr, data.missing_indices
        counts = state.missing[chain], sample_counts, feature_counts, component_counts
        draw_missing_cells(missing, activations, model.with_fixed(dictionary), key.for_stage("cells").words, counts)

    def _sweep_tokens_by_blocks(
        self, function: Any, data: SparseData, state: AllocationGibbsState, chain: int, shared: tuple[Any, ...]
    ) -> Any:
        """Sweep the rows of a chain in parallel, on workers if there are any; return the sum of the results."""
        blocks = self._blocks(data)
        if not data.n_missing:
            # Allocations of missing cells are drawn here, from one stream, and change the counts.
            for own in (state.sample_counts, state.draws.activations):
                own[chain] = self.engine.place(own[chain], data, blocks)
        arrays = state.labels, state.sample_counts
        return self._sweep_blocks(function, data, blocks, shared, *arrays, chain, first_tokens)


def _keep_rows(block: Block, sample_counts: Counts, kept: Floats, prior: SamplePrior) -> float:
    beta, lengths = prior.concentration, (prior.length_shape, prior.length_rate)
    log_gammas, sums = gammaln(beta), np.empty(block.stop - block.start)
    total = keep_rows(sample_counts[block.rows], beta, lengths, log_gammas, kept[block.rows], sums)
    return prior.log_lengths(sums) + total + float(log_gammas.sum()) * sums.size
