"""The default: several variational starts, then stochastic EM whose accuracy grows until noise does not matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partwise.core.convergence import SmallChange
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.engines.base import Engine
from partwise.gamma_poisson.inference import m_steps
from partwise.gamma_poisson.inference.gain import Ledger, expected_gain
from partwise.gamma_poisson.inference.gibbs import Averages, Chain, GibbsEStep
from partwise.gamma_poisson.inference.report import column_norms
from partwise.gamma_poisson.inference.shapes import profile_shapes
from partwise.gamma_poisson.inference.starts import perturbed_dictionary
from partwise.gamma_poisson.inference.variational import GammaPosterior, MeanField
from partwise.gamma_poisson.inference.vem import OBJECTIVE_EVERY, VariationalEM, VariationalState
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.poisson.inference.coordinate import CoordinateDescent

Floats = NDArray[np.float64]

# Of the Poisson factorizations that serve as starts: nats a count and iteration, and most iterations.
_START_TOL, _START_ITERATIONS = 1e-5, 100
# Share of random noise in the dictionary that sampling starts from: what a start has emptied may grow again.
_MIXED = 0.1
# Running means of what cannot be told from one iteration go back this far at least.
_SHORTEST_MEMORY = 10


@dataclass
class Drift:
    """What a whole EM step would still gain, and what noise in its draws would cost, both in nats.

    Two chains that know nothing of each other give the statistic s of the last dictionary twice: s + d + e and
    s + d + e', with the same drift d. To second order an EM step gains Σ d² / 2s, of which Σ (d + e)(d + e') / 2s is an
    unbiased estimate, and noise e costs Σ e² / 2s, of which Σ (e - e')² / 4s is one.
    """

    gain: float = 0.0
    variance: float = 0.0
    noise: float = 0.0
    latest_noise: float = 0.0
    n_seen: int = 0

    def add(self, statistic: Floats, left: Floats, right: Floats, memory: int) -> None:
        """Take in the averages of the two chains over an iteration; running means go back ``memory`` iterations."""
        inverse = np.divide(0.5, statistic, out=np.zeros_like(statistic), where=statistic > 0)
        gain = float(np.sum((left - statistic) * (right - statistic) * inverse))
        # The mean of both chains is used, whose noise is half of that of each.
        self.latest_noise = float(np.sum(np.square(left - right) * inverse)) / 4.0
        self.n_seen += 1
        weight = 1.0 / min(self.n_seen, memory)
        surprise = gain - self.gain
        self.gain += weight * surprise
        self.variance = (1.0 - weight) * (self.variance + weight * surprise**2)
        self.noise += weight * (self.latest_noise - self.noise)

    def most_gain(self, memory: int) -> float:
        """An upper limit of the gain of a step: two standard errors above its running mean."""
        return self.gain + 2.0 * float(np.sqrt(self.variance / max(min(self.n_seen, memory) - 1, 1)))


@dataclass
class AutoState:
    """Parameters with their variational posterior, and then with the chains and running averages of the last phase."""

    phase: str
    dictionary: Floats
    shape: Floats
    posterior: GammaPosterior
    bound: float
    old_dictionary: Floats
    old_shape: Floats
    statistic: Floats
    left: Chain
    right: Chain
    drift: Drift
    n_averaged: int
    ledger: Ledger


@dataclass
class Auto:
    """Variational starts, then stochastic MCEM-C.

    1. One start an iteration: Poisson factorization from random factors, then a few variational updates. The one with
       the best bound is kept.
    2. MCEM-C with one Rao-Blackwellised sweep of each of two independent chains an iteration. The statistic is averaged
       over more and more iterations, one more whenever noise costs more than a step gains. ``"remaining_gain"`` reports
       the larger of both, with its error, in nats a count: no clock decides when to stop.

    The second phase does not start where the first ended, but with some noise added: variational posteriors, and
    maximum-likelihood factors even more, empty entries of a dictionary that the marginal likelihood would fill.
    """

    shape: Floats
    rate: Floats
    estimate_shape: bool
    start: Floats | None
    n_starts: int
    tol: float
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> AutoState:
        """Nothing yet: each start is an iteration."""
        nothing = np.zeros((data.shape[1], self.shape.size))
        counts = np.zeros((data.shape[0], self.shape.size))
        return AutoState(
            "starts",
            nothing,
            self.shape.copy(),
            GammaPosterior(counts, np.ones((1, self.shape.size))),
            -np.inf,
            nothing.copy(),
            self.shape.copy(),
            nothing.copy(),
            Chain(counts.copy()),
            Chain(counts.copy()),
            Drift(),
            1,
            Ledger(-np.inf),
        )

    def step(self, key: Key, data: SparseData, state: AutoState) -> tuple[AutoState, Mapping[str, float]]:
        """One iteration of the phase that the state is in."""
        if state.phase == "starts":
            return self._try_start(key, data, state)
        return self._stochastic_step(key, data, state)

    def model(self, state: AutoState) -> GammaPoissonModel:
        """Dictionary, shapes and rates of a state."""
        return GammaPoissonModel(state.dictionary, state.shape, self.rate)

    # Starts

    def _try_start(self, key: Key, data: SparseData, state: AutoState) -> tuple[AutoState, Mapping[str, float]]:
        tried, bound = self._updated(data, self._start(key, data))
        if not bound <= state.bound:
            state.dictionary, state.shape, state.posterior = tried.dictionary, tried.shape, tried.posterior
            state.bound = bound
        if self.start is not None or key.iteration >= self.n_starts:
            self._begin_sampling(key, data, state)
        return state, {"objective": state.bound, **column_norms(state.dictionary)}

    def _start(self, key: Key, data: SparseData) -> VariationalState:
        mean_field = MeanField(data, self.engine)
        if self.start is not None:
            vem = VariationalEM(self.shape, self.rate, self.estimate_shape, self.start, self.engine)
            begun = vem.init(key, data)
            model = GammaPoissonModel(begun.dictionary, begun.shape, self.rate)
            begun.posterior, _ = mean_field.fit(model, begun.posterior)
            return begun
        factors = run(
            CoordinateDescent(self.shape.size, "random", self.engine),
            data,
            key=key.for_stage("starts").for_chain(key.iteration),
            max_iter=_START_ITERATIONS,
            convergence=SmallChange(_START_TOL, data.total, patience=2),
            progress=False,
        ).state
        # Columns of its dictionary sum to 1, and activations are expected counts.
        dictionary = factors.dictionary * (factors.activations.mean(axis=0) * self.rate / self.shape)
        model = GammaPoissonModel(dictionary, self.shape, self.rate)
        posterior = GammaPosterior(self.shape + factors.activations, mean_field.rates(model))
        return VariationalState(dictionary, self.shape.copy(), posterior)

    def _updated(self, data: SparseData, state: VariationalState) -> tuple[VariationalState, float]:
        """Ten updates, and the bound before the last of them."""
        vem = VariationalEM(self.shape, self.rate, self.estimate_shape, None, self.engine)
        info: Mapping[str, float] = {}
        for number in range(1, OBJECTIVE_EVERY + 1):
            state, info = vem.step(Key(0).at(number), data, state)
        return state, info["objective"]

    def _begin_sampling(self, key: Key, data: SparseData, state: AutoState) -> None:
        if self.start is None:
            noise = perturbed_dictionary(key.for_stage("mixed"), data, state.shape, self.rate)
            state.dictionary = (1.0 - _MIXED) * state.dictionary + _MIXED * noise
        mean_field = MeanField(data, self.engine)
        state.posterior, bound = mean_field.fit(self.model(state), state.posterior)
        counts = state.posterior.shape - state.shape
        state.phase = "sampling"
        state.left, state.right = Chain(counts), Chain(counts.copy())
        state.statistic = state.dictionary * (data.shape[0] * state.shape / self.rate)
        state.old_dictionary, state.old_shape = state.dictionary.copy(), state.shape.copy()
        state.ledger = Ledger(bound)

    # Stochastic EM

    def _stochastic_step(self, key: Key, data: SparseData, state: AutoState) -> tuple[AutoState, Mapping[str, float]]:
        old = GammaPoissonModel(state.old_dictionary, state.old_shape, self.rate)
        model = GammaPoissonModel(state.dictionary, state.shape, self.rate)
        draws = [self._draw(key.for_chain(number), data, chain, model) for number, chain in self._chains(state)]
        left, right = (self._statistic(data, model, averages) for averages in draws)
        memory = max(state.n_averaged, _SHORTEST_MEMORY)
        state.drift.add(state.statistic, left, right, memory)
        if state.drift.gain < state.drift.noise / state.n_averaged:
            state.n_averaged += 1
        weight = 1.0 / state.n_averaged
        averages = _both(*draws)
        shape = state.shape
        if averages.totals is not None:
            shape = shape ** (1.0 - weight) * profile_shapes(averages.totals, shape) ** weight
        state.ledger.close(self._gain(data, old, model, averages))
        state.statistic = (1.0 - weight) * state.statistic + weight * 0.5 * (left + right)
        dictionary = m_steps.marginal_step(state.statistic, data.shape[0], shape, self.rate)
        # The update was made from these draws, which flatters it by twice the noise that it took over.
        flattery = 2.0 * weight * state.drift.latest_noise
        state.ledger.lower = (
            self._gain(data, model, GammaPoissonModel(dictionary, shape, self.rate), averages) - flattery
        )
        state.old_dictionary, state.old_shape = state.dictionary, state.shape
        state.dictionary, state.shape = dictionary, shape
        remaining = max(state.drift.most_gain(memory), state.drift.noise / state.n_averaged)
        info = {**state.ledger.info, "noise": state.drift.noise / data.total}
        if state.drift.n_seen >= 2 * _SHORTEST_MEMORY:
            info["remaining_gain"] = remaining / data.total
        return state, {**info, **column_norms(dictionary)}

    def _chains(self, state: AutoState) -> list[tuple[int, Chain]]:
        return [(1, state.left), (2, state.right)]

    def _draw(self, key: Key, data: SparseData, chain: Chain, model: GammaPoissonModel) -> Averages:
        sampler = GibbsEStep(data, self.engine, expected=True, smooth=True)
        return sampler.run(key, chain, model, n_draws=1, burn_in=0, with_totals=self.estimate_shape)

    def _statistic(self, data: SparseData, model: GammaPoissonModel, averages: Averages) -> Floats:
        missing = m_steps.expected_missing(data, model.dictionary, averages.activations, self.engine)
        return averages.feature_counts + missing

    def _gain(self, data: SparseData, old: GammaPoissonModel, new: GammaPoissonModel, averages: Averages) -> float:
        return expected_gain(
            data, self.engine, old, new, averages.feature_counts, averages.sample_counts, averages.totals
        )


def _both(left: Averages, right: Averages) -> Averages:
    """Averages over the draws of two chains."""
    totals = None
    if left.totals is not None and right.totals is not None:
        totals = np.concatenate([left.totals, right.totals])
    return Averages(
        0.5 * (left.feature_counts + right.feature_counts),
        0.5 * (left.sample_counts + right.sample_counts),
        0.5 * (left.activations + right.activations),
        totals,
    )
