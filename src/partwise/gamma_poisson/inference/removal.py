"""Components that the data do not need: whether the others, once they have taken over the counts, do better alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.gamma_poisson.inference import m_steps
from partwise.gamma_poisson.inference.exact_em import ExactEM, ExactState, is_cheap
from partwise.gamma_poisson.inference.gibbs import Chain, GibbsEStep
from partwise.gamma_poisson.inference.online import take_rows
from partwise.gamma_poisson.inference.vem import MeanField, VariationalEM, VariationalState
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.likelihood.problem import LogLikelihood
from partwise.likelihood.smc import smc

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# Candidates, variational updates of each, and then iterations of stochastic EM, plain and averaged, if one looks well.
_MOST_CANDIDATES, _UPDATES, _PLAIN, _AVERAGED = 5, 5, 25, 75
# Then iterations of exact EM, where these cost next to nothing.
_EXACT = 30
# Samples and counts that a likelihood is estimated of, at most, and the least number of samples.
_MOST_SAMPLES, _MOST_COUNTS, _FEWEST_SAMPLES = 200, 2**19, 20
# Particles in all, as many as about a second allows: counts x components x particles.
_N_ISLANDS, _MOST_WORK = 4, 3e9
# Removals must gain more than nothing by so many standard errors.
_ERRORS = 2.0


@dataclass(frozen=True)
class Removal:
    """The model without some components, allocation totals that go with it, and its gain in nats, with its error."""

    model: GammaPoissonModel
    sample_counts: Floats
    gain: float
    error: float


@dataclass(frozen=True)
class _Fitted:
    """A model with allocation totals that go with it, and its variational bound."""

    model: GammaPoissonModel
    sample_counts: Floats
    bound: float


@dataclass(frozen=True)
class Removing:
    """Finds small components whose removal increases the marginal likelihood.

    The likelihood has a penalty for each component (GaP, Eq. 34), but EM takes thousands of iterations to empty a
    component that overlaps with others. Here its counts go to the others at once, which then adapt; then the next one's
    do. The variational bound says which components are worth that: it is further below the likelihood the more
    components share the counts, so that a removal which gains likelihood gains even more of the bound. Sequential Monte
    Carlo decides between all models on the way.
    """

    data: SparseData
    engine: Engine
    n_jobs: int | None

    def find(self, key: Key, model: GammaPoissonModel, sample_counts: Floats) -> Removal | None:
        """The best of the smaller models, if it gains."""
        rows = self._rows(key)
        path: list[_Fitted] = []
        smaller = None if rows is None else self._smaller(key, self._fitted(model, sample_counts))
        while smaller is not None:
            path.append(smaller)
            smaller = self._smaller(key, smaller)
        if rows is None or not path:
            return None
        before = self._log_likelihood(key, rows, model)
        found = [
            Removal(tried.model, tried.sample_counts, *self._difference(before, after))
            for tried in path
            for after in [self._log_likelihood(key, rows, tried.model)]
        ]
        best = max(found, key=lambda removal: removal.gain)
        return best if best.gain > _ERRORS * best.error else None

    def _fitted(self, model: GammaPoissonModel, sample_counts: Floats) -> _Fitted:
        mean_field = MeanField(self.data, self.engine)
        start = mean_field.posterior(model, sample_counts)
        posterior, bound = mean_field.fit(model, start, max_updates=2 * _UPDATES + 1)
        return _Fitted(model, np.asarray(posterior.counts), bound)

    def _smaller(self, key: Key, present: _Fitted) -> _Fitted | None:
        """Without the smallest component whose removal raises the bound."""
        model = present.model
        shares = model.dictionary.sum(axis=0) * model.shape / model.rate
        alive = np.flatnonzero(shares > 0)
        for k in alive[np.argsort(shares[alive])][: min(_MOST_CANDIDATES, alive.size - 1)]:
            state = self._without(int(k), present)
            if self._bound(model, state) > present.bound:
                adapted = self._adapted(key.for_chain(alive.size), model, state, int(k))
                return self._fitted(*adapted)
        return None

    def _without(self, k: int, present: _Fitted) -> VariationalState:
        """The other components take over, each in proportion to what it holds of a feature, and of a sample."""
        model = present.model
        others = _taken_over(model.dictionary * (model.shape / model.rate), k)
        smaller = GammaPoissonModel(others * (model.rate / model.shape), model.shape, model.rate)
        posterior = MeanField(self.data, self.engine).posterior(smaller, _taken_over(present.sample_counts, k))
        return VariationalState(smaller.dictionary, model.shape.copy(), posterior)

    def _bound(self, model: GammaPoissonModel, state: VariationalState) -> float:
        """The variational bound after some updates, which change the state."""
        vem = VariationalEM(shape=model.shape, rate=model.rate, estimate_shape=False, start=None, engine=self.engine)
        for number in range(1, _UPDATES + 1):
            vem.step(Key(0).at(number), self.data, state)
        return MeanField(self.data, self.engine).update(vem.model(state), state.posterior, with_bound=True)[1]

    def _adapted(
        self, key: Key, model: GammaPoissonModel, state: VariationalState, k: int
    ) -> tuple[GammaPoissonModel, Floats]:
        """Stochastic EM, first plain and then with all draws averaged: noise would tell against the smaller model."""
        shape, rate, n_samples = model.shape, model.rate, self.data.shape[0]
        dictionary = state.dictionary
        dictionary[:, model.dictionary.sum(axis=0) == 0] = 0.0
        dictionary[:, k] = 0.0
        chain = Chain(state.posterior.counts)
        missing = self.data.n_missing > 0
        sampler = GibbsEStep(self.data, self.engine, expected=True, smooth=True, with_activations=missing)
        statistic = np.zeros_like(dictionary)
        for number in range(1, _PLAIN + _AVERAGED + 1):
            at = key.for_stage("removal").at((key.iteration << 8) + number)
            averages = sampler.run(at, chain, GammaPoissonModel(dictionary, shape, rate), n_draws=1, burn_in=0)
            hidden = m_steps.expected_missing(self.data, dictionary, averages.activations, self.engine)
            statistic += (averages.feature_counts + hidden - statistic) / max(number - _PLAIN, 1)
            dictionary = m_steps.marginal_step(statistic, n_samples, shape, rate)
        smaller = GammaPoissonModel(dictionary, shape, rate)
        if is_cheap(self.data, smaller, self.n_jobs):
            smaller = self._polished(smaller)
        return smaller, np.asarray(chain.sample_counts)

    def _polished(self, model: GammaPoissonModel) -> GammaPoissonModel:
        exact_em = ExactEM(
            shape=model.shape,
            rate=model.rate,
            estimate_shape=False,
            start=None,
            n_jobs=self.n_jobs,
            engine=self.engine,
        )
        state = ExactState(model.dictionary, model.shape)
        for number in range(1, _EXACT + 1):
            state, _ = exact_em.step(Key(0).at(number), self.data, state)
        return exact_em.model(state)

    def _rows(self, key: Key) -> Rows | None:
        """Samples whose likelihood is looked at; None if they have too many counts for that."""
        order = key.for_stage("removal samples").generator().permutation(self.data.shape[0])[:_MOST_SAMPLES]
        affordable = order[np.cumsum(self.data.row_sums[order]) <= _MOST_COUNTS]
        if affordable.size < min(order.size, _FEWEST_SAMPLES):
            return None
        return np.sort(affordable)

    def _log_likelihood(self, key: Key, rows: Rows, model: GammaPoissonModel) -> LogLikelihood:
        counts = take_rows(self.data, rows)
        alive = model.dictionary.sum(axis=0) > 0
        particles = _MOST_WORK / (max(counts.total, 1.0) * np.count_nonzero(alive) * _N_ISLANDS)
        return smc(
            counts,
            model.dictionary[:, alive],
            model.shape[alive],
            model.rate[alive],
            rng=key.seed,
            n_draws=int(np.clip(particles, 64, 2048)),
            n_islands=_N_ISLANDS,
            n_jobs=self.n_jobs,
        )

    def _difference(self, before: LogLikelihood, after: LogLikelihood) -> tuple[float, float]:
        """Of the log-likelihoods of all data, with its error."""
        gains = after.values - before.values
        scale = self.data.shape[0] / gains.size
        variance = scale**2 * float(np.sum(before.std_errors**2 + after.std_errors**2))
        if scale > 1:
            variance += scale**2 * gains.size * float(np.var(gains, ddof=1)) * (1.0 - 1.0 / scale)
        return scale * float(gains.sum()), float(np.sqrt(variance))


def _taken_over(counts: Floats, k: int) -> Floats:
    """Without column ``k``, the sums of the rows kept; a row of which the others held nothing goes to all of them."""
    sums = counts.sum(axis=1, keepdims=True)
    others = counts.copy()
    others[:, k] = 0.0
    others += 1e-6 * sums * (others.sum(axis=0) / others.sum())
    return np.asarray(
        others * np.divide(sums, others.sum(axis=1, keepdims=True), out=np.zeros_like(sums), where=sums > 0)
    )
