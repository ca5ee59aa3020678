"""Monte Carlo EM for the marginal likelihood, as published (Filstroff, Lumbreras & Févotte 2018), and SAEM."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.gamma_poisson.inference import m_steps
from partwise.gamma_poisson.inference.gibbs import Averages, Chain, GainLedger, GibbsEStep, expected_gain
from partwise.gamma_poisson.inference.starts import even_dictionary, poisson_factors, with_noise
from partwise.gamma_poisson.inference.vem import MeanField
from partwise.gamma_poisson.model import GammaPoissonModel, MarginalEM, column_norms
from partwise.kernels.arrays import Floats
from partwise.passes.side import Side


@dataclass
class MonteCarloState:
    """Parameters, those before the last update, their statistic, the state of the sampler, and the gain so far."""

    dictionary: Floats
    shape: Floats
    old_dictionary: Floats
    old_shape: Floats
    statistic: Floats
    chain: Chain
    ledger: GainLedger


@dataclass(kw_only=True)
class MonteCarloEM(MarginalEM):
    """Gibbs sampling given the dictionary, then a new dictionary from averages over the draws.

    Parameters
    ----------
    m_step
        ``"c"``: w = (b / a) mean c (Eq. 48), with activations integrated out. ``"ch"``: Σ c / Σ h (Eq. 41). ``"h"``:
        the same with expected allocations (Eq. 42).
    e_step
        ``"sampled"``: average the draws. ``"rao-blackwell"``: average conditional expectations.
    draws, burn_in
        Sweeps per iteration to average over, and sweeps before them. The sampler is never restarted.
    """

    m_step: str
    e_step: str
    draws: int
    burn_in: int

    def init(self, key: Key, data: SparseData) -> MonteCarloState:
        """A dictionary (for MCEM the even one of Eq. 51), and the variational bound from which gains are counted."""
        dictionary = self._first_dictionary(key, data) if self.start is None else self.start.copy()
        model = GammaPoissonModel(dictionary, self.shape, self.rate)
        mean_field = MeanField(data, self.engine)
        chain = Chain(mean_field.even_counts(self.shape.size))
        _, bound = mean_field.fit(model, mean_field.posterior(model, chain.sample_counts))
        return MonteCarloState(
            dictionary=dictionary,
            shape=self.shape.copy(),
            old_dictionary=dictionary.copy(),
            old_shape=self.shape.copy(),
            statistic=np.zeros_like(dictionary),
            chain=chain,
            ledger=GainLedger(bound),
        )

    def step(self, key: Key, data: SparseData, state: MonteCarloState) -> tuple[MonteCarloState, Mapping[str, float]]:
        """One E-step and one M-step; reports the objective of the dictionary before them."""
        old = GammaPoissonModel(state.old_dictionary, state.old_shape, self.rate)
        present = GammaPoissonModel(state.dictionary, state.shape, self.rate)
        smooth = self.e_step == "rao-blackwell"
        sampler = GibbsEStep(
            data,
            self.engine,
            expected=smooth or self.m_step == "h",
            smooth=smooth,
            with_activations=self.m_step != "c" or data.n_missing > 0,
            with_totals=self.estimate_shape,
        )
        averages = sampler.run(key, state.chain, present, n_draws=self.draws, burn_in=self.burn_in)
        if averages.before is not None:
            state.ledger.close(expected_gain(data, self.engine, old, present, averages.before))
        weight = self._weight(key.iteration)
        shape = m_steps.moved_shapes(Side(data, self.engine), averages.totals, state.shape, weight)
        fresh = averages.feature_counts
        if self.m_step == "c":
            fresh = fresh + m_steps.expected_missing(data, present.dictionary, averages.activations, self.engine)
        state.statistic = fresh if weight == 1.0 else (1.0 - weight) * state.statistic + weight * fresh
        dictionary = self._dictionary(data, averages, state.statistic, shape)
        new = GammaPoissonModel(dictionary, shape, self.rate)
        if averages.before is not None:
            state.ledger.lower = expected_gain(data, self.engine, present, new, averages.before)
        state.old_dictionary, state.old_shape = state.dictionary, state.shape
        state.dictionary, state.shape = dictionary, shape
        return state, {**(state.ledger.info if averages.before is not None else {}), **column_norms(dictionary)}

    def _dictionary(self, data: SparseData, averages: Averages, counts: Floats, shape: Floats) -> Floats:
        if self.m_step == "c":
            return m_steps.marginal_step(counts, data.shape[0], shape, self.rate)
        totals = Side(data, self.engine).totals(averages.activations)
        exposure = Side(data.transposed, self.engine).exposure(averages.activations, totals=totals)
        return m_steps.conditional_step(counts, exposure)

    def _first_dictionary(self, key: Key, data: SparseData) -> Floats:
        return even_dictionary(data, self.shape, self.rate)

    def _weight(self, iteration: int) -> float:
        """Weight of the new draws against the earlier ones: plain Monte Carlo EM forgets the latter."""
        return 1.0


@dataclass(kw_only=True)
class StochasticApproximationEM(MonteCarloEM):
    """MCEM-C with a statistic Σ_n c_nfk that is a running average over iterations (Kuhn & Lavielle 2004).

    Parameters
    ----------
    exploration
        Number of first iterations with weight 1, which forget the start.
    decay
        After them, the i-th iteration has weight i^-decay; between 1/2 and 1.
    """

    exploration: int = 50
    decay: float = 0.7

    def _first_dictionary(self, key: Key, data: SparseData) -> Floats:
        first = poisson_factors(key, data, self.shape, self.rate, self.engine)[0]
        return with_noise(key, data, first, self.shape, self.rate)

    def _weight(self, iteration: int) -> float:
        return float(max(iteration - self.exploration, 1) ** -self.decay)
