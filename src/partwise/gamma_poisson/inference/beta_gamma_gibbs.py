"""Gibbs sampler of beta-Gamma Poisson factor analysis (Zhou, Hannah, Dunson & Carin 2012)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.gamma_poisson.inference.sweeps import GibbsSweeps
from partwise.kernels.arrays import Floats
from partwise.passes.side import Side
from partwise.sampling.agreement import agreement
from partwise.sampling.draws import KeptDraws


@dataclass
class BetaGammaDraws(KeptDraws):
    """For each draw, the number of active parts, and the probability that two tokens come from different parts."""

    names: ClassVar[tuple[str, ...]] = ("n_used", "evenness")
    discrete: ClassVar[tuple[str, ...]] = ("n_used",)


@dataclass
class BetaGammaState:
    """The last draw, and sums over the kept draws."""

    sample_counts: Any
    dictionary: Floats
    probability: Floats
    dictionary_sum: Floats
    probability_sum: Floats
    counts_sum: Floats
    draws: BetaGammaDraws


@dataclass
class BetaGammaGibbs:
    """φ_k ~ Dirichlet(η), h_nk ~ Gamma(r, scale p_k / (1 - p_k)), p_k ~ Beta(κ ε, κ (1 - ε)).

    A step draws h, then the allocations, then φ, then p with h integrated out: p is drawn right before the next h.
    Missing cells are drawn, too, so that the conditionals of φ and p keep their form.
    """

    n_components: int
    dictionary_concentration: float
    shape: float
    concentration: float
    base_probability: float
    n_draws: int
    burn_in: int
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> BetaGammaState:
        """Dictionary columns near the features' frequencies, and each row's total spread evenly."""
        noise = key.for_stage("init").generator().exponential(size=(data.shape[1], self.n_components))
        dictionary = (data.column_sums[:, None] + 1.0) * (noise + 0.1)
        dictionary /= dictionary.sum(axis=0)
        counts = Side(data, self.engine).even_counts(self.n_components)
        even = np.full(self.n_components, data.total / self.n_components)
        probability = self._draw_probability(key, even, data.shape[0])
        zeros = np.zeros(self.n_components)
        draws = BetaGammaDraws(BetaGammaDraws.no_numbers(1, self.n_draws), 0)
        return BetaGammaState(counts, dictionary, probability, np.zeros_like(dictionary), zeros, zeros.copy(), draws)

    def step(self, key: Key, data: SparseData, state: BetaGammaState) -> tuple[BetaGammaState, Mapping[str, float]]:
        """One sweep; after the burn-in, the draws are summed."""
        sweeps = GibbsSweeps(data, self.engine)
        shapes = np.full(self.n_components, self.shape)
        # 1 / (rate + 1) with rate = (1 - p) / p and columns that sum to 1.
        counts = Side(data, self.engine).place(state.sample_counts)
        activations = sweeps.activations(key, counts, shapes, state.probability[None, :])
        state.sample_counts, feature_counts = sweeps.allocations(key, activations, state.dictionary, impute=True)
        state.dictionary = sweeps.dirichlet_dictionary(key, feature_counts, self.dictionary_concentration)
        totals = feature_counts.sum(axis=0)
        state.probability = self._draw_probability(key, totals, data.shape[0])
        info = {"n_used": float(np.count_nonzero(totals))}
        if key.iteration > self.burn_in:
            state.dictionary_sum += state.dictionary
            state.probability_sum += state.probability
            state.counts_sum += totals
            shares = totals / max(float(totals.sum()), 1.0)
            state.draws.record(n_used=info["n_used"], evenness=1.0 - float(np.square(shares).sum()))
            if state.draws.n_kept == self.n_draws:
                info |= agreement(state.draws)
        return state, info

    def _draw_probability(self, key: Key, totals: Floats, n_samples: int) -> Floats:
        successes = self.concentration * self.base_probability + totals
        failures = self.concentration * (1.0 - self.base_probability) + n_samples * self.shape
        drawn = key.for_stage("probability").generator().beta(successes, failures)
        # Beta draws with a tiny first parameter underflow to 0, and the rate would be infinite.
        return np.clip(drawn, 1e-12, 1.0 - 1e-12)
