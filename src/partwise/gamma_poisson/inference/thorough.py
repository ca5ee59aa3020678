"""The most thorough algorithm: variational starts, then stochastic EM that becomes accurate enough to ignore noise."""

from copy import copy
from dataclasses import dataclass, field

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.run import Info
from partwise.gamma_poisson.inference import gibbs, m_steps, vem
from partwise.gamma_poisson.inference.exact_em import ExactEM, ExactState, is_cheap
from partwise.gamma_poisson.inference.pruning import Merging, Removing
from partwise.gamma_poisson.inference.starts import poisson_factors, with_noise
from partwise.gamma_poisson.inference.sweeps import GibbsSweeps
from partwise.gamma_poisson.model import GammaPoissonModel, MarginalEM, column_norms
from partwise.kernels.arrays import Floats
from partwise.passes.side import Side

# Most iterations of a Poisson factorization that serves as a start.
_START_ITERATIONS = 100
# Parts are merged or removed after this many iterations of sampling, then after four times as many, and so on.
_FIRST_MERGING, _FIRST_REMOVAL = 20, 80
# Share of the tolerance, for exact EM.
_CAUTION = 0.02
# Running means of quantities that one iteration cannot determine go back at least this far.
_SHORTEST_MEMORY = 10


@dataclass
class ThoroughState:
    """Parameters with their variational posterior, and later with the chains and running averages of the last phase."""

    phase: str
    dictionary: Floats
    shape: Floats
    posterior: vem.GammaPosterior
    bound: float
    old_dictionary: Floats
    old_shape: Floats
    statistic: Floats
    left: gibbs.Chain
    right: gibbs.Chain
    drift: gibbs.Drift
    n_averaged: int
    ledger: gibbs.GainLedger
    latest_gain: float = np.nan


@dataclass(kw_only=True)
class Thorough(MarginalEM):
    """Variational starts, then stochastic MCEM-C, then merges.

    1. One start per iteration: a Poisson factorization from random factors, then a few variational updates. The start
       with the best bound is kept.
    2. MCEM-C with one Rao-Blackwellised sweep of each of two independent chains per iteration. The statistic is
       averaged over more and more iterations: one more whenever noise costs more than a step gains.
       ``"remaining_gain"`` reports the larger of both, with its error, in nats per count. No clock decides when to
       stop.
    3. From time to time, and before it stops, parts are merged if that raises the likelihood (see `Merging`). Before
       it stops, small parts are removed if that does (see `Removing`). Then sampling continues.
    4. If an exact E-step costs almost nothing, exact EM takes the last steps, which are small and many, before any
       part is removed.

    The second phase starts where the first ended, with some noise added: variational posteriors, and even more so
    maximum-likelihood factors, empty entries of a dictionary that the marginal likelihood would fill.
    """

    n_starts: int
    tol: float
    n_jobs: int | None = field(compare=False)

    def init(self, key: Key, data: SparseData) -> ThoroughState:
        """Nothing yet: each start is an iteration."""
        nothing = np.zeros((data.shape[1], self.shape.size))
        counts = np.zeros((data.shape[0], self.shape.size))
        return ThoroughState(
            phase="starts",
            dictionary=nothing,
            shape=self.shape.copy(),
            posterior=vem.GammaPosterior(counts, self.shape.copy(), np.ones((1, self.shape.size))),
            bound=-np.inf,
            old_dictionary=nothing.copy(),
            old_shape=self.shape.copy(),
            statistic=nothing.copy(),
            left=gibbs.Chain(counts.copy()),
            right=gibbs.Chain(counts.copy()),
            drift=gibbs.Drift(),
            n_averaged=1,
            ledger=gibbs.GainLedger(-np.inf),
        )

    def step(self, key: Key, data: SparseData, state: ThoroughState) -> tuple[ThoroughState, Info]:
        """One iteration of the current phase."""
        if state.phase == "starts":
            return self._try_start(key, data, state)
        if state.phase == "exact":
            return self._exact_step(key, data, state)
        return self._stochastic_step(key, data, state)

    # Starts

    def _try_start(self, key: Key, data: SparseData, state: ThoroughState) -> tuple[ThoroughState, Info]:
        tried = self._start(key, data)
        # Ten updates, and the bound before the last of them.
        prior = {"shape": self.shape, "rate": self.rate}
        updates = vem.VariationalEM(**prior, estimate_shape=self.estimate_shape, engine=self.engine)
        bound = np.nan
        for number in range(1, vem.OBJECTIVE_EVERY + 1):
            tried, info = updates.step(Key(0).at(number), data, tried)
            bound = info.get("objective", bound)
        if not bound <= state.bound:
            state.dictionary, state.shape, state.posterior = tried.dictionary, tried.shape, tried.posterior
            state.bound = bound
        if self.start is not None or key.iteration >= self.n_starts:
            self._begin_sampling(key, data, state)
        return state, {"objective": state.bound, **column_norms(state.dictionary)}

    def _start(self, key: Key, data: SparseData) -> vem.GammaVariationalState:
        mean_field = vem.MeanField(data, self.engine)
        if self.start is not None:
            model = GammaPoissonModel(self.start.copy(), self.shape, self.rate)
            even = mean_field.posterior(model, mean_field.even_counts(self.shape.size))
            return vem.GammaVariationalState(model.dictionary, self.shape.copy(), mean_field.fit(model, even)[0])
        key, iterations = key.for_chain(key.iteration), _START_ITERATIONS
        dictionary, counts = poisson_factors(key, data, self.shape, self.rate, self.engine, max_iter=iterations)
        model = GammaPoissonModel(dictionary, self.shape, self.rate)
        return vem.GammaVariationalState(dictionary, self.shape.copy(), mean_field.posterior(model, counts))

    def _begin_sampling(self, key: Key, data: SparseData, state: ThoroughState) -> None:
        if self.start is None:
            state.dictionary = with_noise(key, data, state.dictionary, state.shape, self.rate)
        state.posterior, bound = vem.MeanField(data, self.engine).fit(self.model(state), state.posterior)
        counts = state.posterior.counts
        state.phase = "sampling"
        state.left, state.right = gibbs.Chain(copy(counts)), gibbs.Chain(copy(counts))
        state.ledger = gibbs.GainLedger(bound)
        self._begin_averaging(data, state)

    # Stochastic EM

    def _begin_averaging(self, data: SparseData, state: ThoroughState) -> None:
        """Reset all running means: the dictionary has jumped."""
        state.statistic = state.dictionary * (data.shape[0] * state.shape / self.rate)
        state.old_dictionary, state.old_shape = state.dictionary.copy(), state.shape.copy()
        state.drift, state.n_averaged, state.ledger.lower = gibbs.Drift(), 1, np.nan

    def _stochastic_step(self, key: Key, data: SparseData, state: ThoroughState) -> tuple[ThoroughState, Info]:
        old = GammaPoissonModel(state.old_dictionary, state.old_shape, self.rate)
        model = GammaPoissonModel(state.dictionary, state.shape, self.rate)
        first, left = self._draw(key.for_chain(1), data, state.left, model)
        second, right = self._draw(key.for_chain(2), data, state.right, model)
        state.drift.add(state.statistic, left, right, max(state.n_averaged, _SHORTEST_MEMORY))
        state.n_averaged = state.drift.averaged(state.n_averaged)
        weight = 1.0 / state.n_averaged
        averages = gibbs.Averages(
            feature_counts=0.5 * (first.feature_counts + second.feature_counts),
            sample_counts=gibbs.mean_rows(Side(data, self.engine), first.sample_counts, second.sample_counts, 0.5),
            activations=None,
            totals=[*first.totals, *second.totals],
        )
        shape = m_steps.moved_shapes(Side(data, self.engine), averages.totals, state.shape, weight)
        state.ledger.close(gibbs.expected_gain(data, self.engine, old, model, averages))
        state.statistic = (1.0 - weight) * state.statistic + weight * 0.5 * (left + right)
        dictionary = m_steps.marginal_step(state.statistic, data.shape[0], shape, self.rate)
        # The update was made from these draws, which flatters it by twice the noise that it absorbed.
        flattery = 2.0 * weight * state.drift.latest_noise
        new = GammaPoissonModel(dictionary, shape, self.rate)
        state.ledger.lower = gibbs.expected_gain(data, self.engine, model, new, averages) - flattery
        state.old_dictionary, state.old_shape = state.dictionary, state.shape
        state.dictionary, state.shape = dictionary, shape
        info = {**state.ledger.info, "noise": state.drift.noise / data.total}
        remaining = max(state.drift.gain + 2.0 * state.drift.error, state.drift.noise / state.n_averaged)
        remaining /= data.total
        settled = state.drift.n_seen >= 2 * _SHORTEST_MEMORY
        done = settled and remaining <= self.tol
        due = done or _due(state.drift.n_seen, _FIRST_REMOVAL)
        fewer = (due or _due(state.drift.n_seen, _FIRST_MERGING)) and self._merge(key, data, state)
        if due and not fewer and is_cheap(data, self.model(state), self.n_jobs):
            # Before any removal: a part that has not converged yet would be misjudged.
            state.phase, state.bound, state.latest_gain = "exact", np.nan, np.nan
            return state, {**info, **column_norms(state.dictionary)}
        fewer = fewer or (due and self._remove(key, data, state))
        if settled and not fewer:
            info["remaining_gain"] = remaining
        return state, {**info, **column_norms(state.dictionary)}

    def _merge(self, key: Key, data: SparseData, state: ThoroughState) -> bool:
        """Merge parts if that gains; return whether there were any."""
        model = self.model(state)
        inverse = vem.MeanField(data, self.engine).rates(model, inverse=True)
        sweeps = GibbsSweeps(data, self.engine)
        draws = []
        for number, chain in ((3, state.left), (4, state.right)):
            drawn = sweeps.activations(key.for_chain(number), chain.sample_counts, state.shape, inverse)
            draws.append(np.asarray(drawn))
        merges = Merging(data, model, self.estimate_shape).find(key, draws)
        for merge in merges:
            state.dictionary[:, merge.kept], state.shape[merge.kept] = merge.column, merge.shape
            state.dictionary[:, merge.absorbed] = 0.0
            for chain in (state.left, state.right):
                chain.sample_counts = np.array(chain.sample_counts)
                chain.sample_counts[:, merge.kept] += chain.sample_counts[:, merge.absorbed]
                chain.sample_counts[:, merge.absorbed] = 0.0
            state.ledger.objective += merge.gain
            state.ledger.variance += merge.error**2
        if merges:
            self._begin_averaging(data, state)
        return bool(merges)

    def _remove(self, key: Key, data: SparseData, state: ThoroughState) -> bool:
        """Remove a part if that gains; return whether there was one."""
        counts = 0.5 * (np.asarray(state.left.sample_counts) + np.asarray(state.right.sample_counts))
        found = Removing(data, self.engine, self.n_jobs).find(key, self.model(state), counts)
        if found is None:
            return False
        smaller, gain, error = found
        state.dictionary = smaller.model.dictionary
        state.left, state.right = gibbs.Chain(smaller.sample_counts), gibbs.Chain(smaller.sample_counts.copy())
        state.ledger.objective += gain
        state.ledger.variance += error**2
        self._begin_averaging(data, state)
        return True

    def _exact_step(self, key: Key, data: SparseData, state: ThoroughState) -> tuple[ThoroughState, Info]:
        """Exact EM, once for the dictionary and once for shapes. How fast gains shrink predicts what is left."""
        prior = {"shape": self.shape, "rate": self.rate}
        algorithm = ExactEM(**prior, estimate_shape=self.estimate_shape, n_jobs=self.n_jobs, engine=self.engine)
        # Odd iterations update the dictionary and even ones the shapes. They gain at different rates, so do one of
        # each.
        fitted, info = algorithm.step(key.at(2 * key.iteration - 1), data, ExactState(state.dictionary, state.shape))
        if self.estimate_shape:
            fitted, _ = algorithm.step(key.at(2 * key.iteration), data, fitted)
        state.dictionary, state.shape = fitted.dictionary, fitted.shape
        gain, before = info["objective"] - state.bound, state.latest_gain
        state.bound, state.latest_gain = info["objective"], gain
        report = {**info, "objective_error": 0.0}
        if 0 <= gain < before:
            # Gains fall more slowly near the optimum, so the predicted rest must be much smaller than the tolerance.
            remaining = gain * before / (before - gain) / data.total
            done = remaining <= _CAUTION * self.tol
            if done and self._remove(key, data, state):
                state.phase = "sampling"
            elif done or remaining > self.tol:
                report["remaining_gain"] = remaining
        return state, report

    def _draw(
        self, key: Key, data: SparseData, chain: gibbs.Chain, model: GammaPoissonModel
    ) -> tuple[gibbs.Averages, Floats]:
        """One sweep of a chain: its averages, and its statistic with what missing cells add."""
        sampler = gibbs.GibbsEStep.smoothed(data, self.engine, with_totals=self.estimate_shape)
        averages = sampler.run(key, chain, model, n_draws=1, burn_in=0)
        missing = m_steps.expected_missing(data, model.dictionary, averages.activations, self.engine)
        return averages, averages.feature_counts + missing


def _due(n_seen: int, first: int) -> bool:
    """Whether ``n_seen`` is ``first`` times a power of four."""
    ratio, rest = divmod(n_seen, first)
    return rest == 0 and ratio > 0 and ratio & (ratio - 1) == 0 and ratio.bit_length() % 2 == 1
