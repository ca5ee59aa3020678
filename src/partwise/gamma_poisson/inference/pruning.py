"""Parts that the data do not need: pairs that are better merged, and small parts that are better removed."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.gamma_poisson.inference import m_steps
from partwise.gamma_poisson.inference.exact_em import ExactEM, ExactState, is_cheap
from partwise.gamma_poisson.inference.gibbs import Chain, GibbsEStep
from partwise.gamma_poisson.inference.vem import GammaVariationalState, MeanField, VariationalEM
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.kernels.arrays import Floats, Places
from partwise.likelihood.exact import exact, exact_cost
from partwise.likelihood.problem import LogLikelihood
from partwise.likelihood.smc import smc
from partwise.passes.side import cell_rates

Rows = Places

# Samples for judging merges, and multiply-adds for the exact likelihoods of one pair in one draw: about 0.2 s.
_MERGE_SAMPLES, _MOST_COST = 300, 5e8
# A merge must gain at least this many standard errors, a removal at least this many.
_MERGE_ERRORS, _REMOVAL_ERRORS = 3.0, 2.0
# Candidates, variational updates of each, and then iterations of stochastic EM, plain and averaged, if one is good.
_MOST_CANDIDATES, _UPDATES, _PLAIN, _AVERAGED = 5, 5, 25, 75
# Then iterations of exact EM, if these cost almost nothing.
_EXACT = 30
# Most samples and counts for estimating a likelihood, and the fewest samples.
_MOST_SAMPLES, _MOST_COUNTS, _FEWEST_SAMPLES = 200, 2**19, 20
# Total number of particles for about one second: counts x parts x particles.
_N_ISLANDS, _MOST_WORK = 4, 3e9


@dataclass(frozen=True)
class Merge:
    """Part ``absorbed`` goes into ``kept``, with a new column and shape; gain in nats, with its error."""

    kept: int
    absorbed: int
    column: Floats
    shape: float
    gain: float
    error: float


@dataclass(frozen=True)
class Merging:
    """Finds merges that increase the marginal likelihood.

    EM is slow if two parts share what one could hold: it took thousands of iterations for the last nats. A merge is one
    step. Given all other allocations, the sum c_jk of what two parts hold has the likelihood of a model with two parts
    before the merge, and of one part, a negative multinomial, after it. By Jensen's inequality

        log p(X | merged) - log p(X) >= E[log p(c_jk | merged) - log p(c_jk | both)],

    with draws of c_jk given X. Bounds of disjoint pairs add up. Both likelihoods are exact.
    """

    data: SparseData
    model: GammaPoissonModel
    estimate_shape: bool

    def find(self, key: Key, draws: list[Floats]) -> list[Merge]:
        """Disjoint merges that gain, best first, judged by draws of the activations from independent chains."""
        key = key.for_stage("merging")
        n_samples = self.data.shape[0]
        rows = np.sort(key.generator().permutation(n_samples)[:_MERGE_SAMPLES])
        some = replace(self, data=self.data.take(rows))
        draws = [activations[rows] for activations in draws]
        places = some._rows, some.data.indices
        cells = [cell_rates(activations, self.model.dictionary, *places) for activations in draws]
        found: list[Merge] = []
        for number, (kept, absorbed) in enumerate(self.candidates()):
            merge = some._judged(key.for_chain(number), [kept, absorbed], draws, cells, n_samples / rows.size)
            if merge is not None and merge.gain > _MERGE_ERRORS * merge.error:
                found.append(merge)
        chosen: list[Merge] = []
        taken: set[int] = set()
        for merge in sorted(found, key=lambda merge: -merge.gain):
            if not taken & {merge.kept, merge.absorbed}:
                chosen.append(merge)
                taken |= {merge.kept, merge.absorbed}
        return chosen

    def candidates(self) -> list[tuple[int, int]]:
        """Each non-empty part with the part most similar to it; the larger of the two first."""
        sums = self.model.dictionary.sum(axis=0)
        alive = np.flatnonzero(sums > 0)
        if alive.size < 2:
            return []
        roots = np.sqrt(self.model.dictionary[:, alive] / sums[alive])
        affinity = roots.T @ roots
        np.fill_diagonal(affinity, -1.0)
        # Expected counts of each part in a sample.
        share = sums * self.model.shape / self.model.rate
        pairs = np.unique(np.sort(np.column_stack((alive, alive[affinity.argmax(axis=1)])), axis=1), axis=0)
        smaller_first = share[pairs[:, 0]] < share[pairs[:, 1]]
        pairs[smaller_first] = pairs[smaller_first, ::-1]
        return list(map(tuple, pairs.tolist()))

    @cached_property
    def _rows(self) -> Rows:
        """The sample of each stored cell."""
        return np.repeat(np.arange(self.data.shape[0]), np.diff(self.data.indptr))

    def _judged(
        self, key: Key, pair: list[int], draws: list[Floats], cells: list[Floats], scale: float
    ) -> Merge | None:
        """The gain of a merge for all data, ``scale`` times as many as here; None if it costs too much to compute."""
        both = self.model.dictionary[:, pair], self.model.shape[pair], self.model.rate[pair]
        keys = (key.at((key.iteration << 8) + number) for number in range(len(draws)))
        held = [self._held(at, pair, *drawn) for at, *drawn in zip(keys, draws, cells, strict=True)]
        shape, rate = float(both[1][0]), both[2][0]
        if self.estimate_shape:
            totals = m_steps.ValueCounts(np.concatenate([counts.row_sums for counts in held]))
            shape = float(m_steps.profile_shapes([totals], np.array([shape]))[0])
        column = (both[0] * (both[1] / both[2])).sum(axis=1) * rate / shape
        if not exact_cost(held[0], *both).cheapest.sum() <= _MOST_COST:
            return None
        values = np.empty((len(held), self.data.shape[0]))
        for number, counts in enumerate(held):
            one = exact(counts, column[:, None], shape, rate, max_cost=np.inf)
            values[number] = one.values - exact(counts, *both, max_cost=np.inf).values
        noise = float(np.var(values, axis=0, ddof=1).sum()) / len(draws)
        return Merge(pair[0], pair[1], column, shape, *_in_all_data(values.mean(axis=0), noise, scale))

    def _held(self, key: Key, pair: list[int], activations: Floats, rates: Floats) -> SparseData:
        """A draw of what two parts hold together: c_nf ~ Binomial(x_nf, their share of the rate)."""
        data = self.data
        own = np.zeros(data.nnz)
        for k in pair:
            own += activations[self._rows, k] * self.model.dictionary[data.indices, k]
        counts = key.generator().binomial(data.values.astype(np.int64), np.minimum(own / rates, 1.0))
        return replace(data, values=counts).only(counts > 0)


@dataclass(frozen=True)
class BoundedFit:
    """A model with matching allocation totals, and its variational bound."""

    model: GammaPoissonModel
    sample_counts: Floats
    bound: float


@dataclass(frozen=True)
class Removing:
    """Finds small parts whose removal increases the marginal likelihood.

    The likelihood has a penalty for each part (GaP, Eq. 34), but EM takes thousands of iterations to empty a part that
    overlaps with others. Here its counts go to the other parts at once, which then adapt; then the next part follows.
    The variational bound says which parts are worth trying: the more parts share the counts, the further it is below
    the likelihood, so a removal that raises the likelihood raises the bound even more. Sequential Monte Carlo then
    decides between all models along the way.
    """

    data: SparseData
    engine: Engine
    n_jobs: int | None

    def find(self, key: Key, model: GammaPoissonModel, sample_counts: Floats) -> tuple[BoundedFit, float, float] | None:
        """The best of the smaller models, if it gains, and its gain in nats, with its error."""
        # Samples for estimating the likelihood. Nothing is removed if they have too many counts for that.
        order = key.for_stage("removal samples").generator().permutation(self.data.shape[0])[:_MOST_SAMPLES]
        rows = np.sort(order[np.cumsum(self.data.row_sums[order]) <= _MOST_COUNTS])
        if rows.size < min(order.size, _FEWEST_SAMPLES):
            return None
        path: list[BoundedFit] = []
        smaller = self._smaller(key, self._fitted(model, sample_counts))
        while smaller is not None:
            path.append(smaller)
            smaller = self._smaller(key, smaller)
        if not path:
            return None
        best = path[0], -np.inf, 0.0
        before = self._log_likelihood(key, rows, model)
        for tried in path:
            after = self._log_likelihood(key, rows, tried.model)
            noise = float(np.sum(before.std_errors**2 + after.std_errors**2))
            gain, error = _in_all_data(after.values - before.values, noise, self.data.shape[0] / rows.size)
            if gain > best[1]:
                best = tried, gain, error
        return best if best[1] > _REMOVAL_ERRORS * best[2] else None

    def _fitted(self, model: GammaPoissonModel, sample_counts: Floats) -> BoundedFit:
        mean_field = MeanField(self.data, self.engine)
        start = mean_field.posterior(model, sample_counts)
        posterior, bound = mean_field.fit(model, start, max_updates=2 * _UPDATES + 1)
        return BoundedFit(model, np.asarray(posterior.counts), bound)

    def _smaller(self, key: Key, present: BoundedFit) -> BoundedFit | None:
        """The model without the smallest part whose removal raises the bound."""
        model = present.model
        shares = model.dictionary.sum(axis=0) * model.shape / model.rate
        alive = np.flatnonzero(shares > 0)
        for k in alive[np.argsort(shares[alive])][: min(_MOST_CANDIDATES, alive.size - 1)]:
            state, bound = self._without(int(k), present)
            if bound > present.bound:
                return self._adapted(key.for_chain(alive.size), model, state, int(k))
        return None

    def _without(self, k: int, present: BoundedFit) -> tuple[GammaVariationalState, float]:
        """Let the other parts take over, in proportion to what each holds of a feature and of a sample.

        Return the state after some variational updates, and its bound.
        """
        model = present.model
        others = _taken_over(model.dictionary * (model.shape / model.rate), k)
        smaller = GammaPoissonModel(others * (model.rate / model.shape), model.shape, model.rate)
        mean_field = MeanField(self.data, self.engine)
        posterior = mean_field.posterior(smaller, _taken_over(present.sample_counts, k))
        state = GammaVariationalState(smaller.dictionary, model.shape.copy(), posterior)
        vem = VariationalEM(shape=model.shape, rate=model.rate, engine=self.engine)
        for number in range(1, _UPDATES + 1):
            vem.step(Key(0).at(number), self.data, state)
        return state, mean_field.update(vem.model(state), state.posterior, with_bound=True)[1]

    def _adapted(self, key: Key, model: GammaPoissonModel, state: GammaVariationalState, k: int) -> BoundedFit:
        """Stochastic EM, first plain, then with all draws averaged: noise would count against the smaller model."""
        shape, rate, n_samples = model.shape, model.rate, self.data.shape[0]
        dictionary = state.dictionary
        dictionary[:, model.dictionary.sum(axis=0) == 0] = 0.0
        dictionary[:, k] = 0.0
        chain = Chain(state.posterior.counts)
        sampler = GibbsEStep.smoothed(self.data, self.engine)
        statistic = np.zeros_like(dictionary)
        for number in range(1, _PLAIN + _AVERAGED + 1):
            at = key.for_stage("removal").at((key.iteration << 8) + number)
            averages = sampler.run(at, chain, GammaPoissonModel(dictionary, shape, rate), n_draws=1, burn_in=0)
            hidden = m_steps.expected_missing(self.data, dictionary, averages.activations, self.engine)
            statistic += (averages.feature_counts + hidden - statistic) / max(number - _PLAIN, 1)
            dictionary = m_steps.marginal_step(statistic, n_samples, shape, rate)
        smaller = GammaPoissonModel(dictionary, shape, rate)
        if is_cheap(self.data, smaller, self.n_jobs):
            exact_em = ExactEM(shape=shape, rate=rate, n_jobs=self.n_jobs, engine=self.engine)
            polished = ExactState(dictionary, shape)
            for number in range(1, _EXACT + 1):
                polished, _ = exact_em.step(Key(0).at(number), self.data, polished)
            smaller = exact_em.model(polished)
        return self._fitted(smaller, np.asarray(chain.sample_counts))

    def _log_likelihood(self, key: Key, rows: Rows, model: GammaPoissonModel) -> LogLikelihood:
        counts = self.data.take(rows)
        alive = model.dictionary.sum(axis=0) > 0
        particles = _MOST_WORK / (max(counts.total, 1.0) * np.count_nonzero(alive) * _N_ISLANDS)
        held = model.dictionary[:, alive], model.shape[alive], model.rate[alive]
        n_draws = int(np.clip(particles, 64, 2048))
        return smc(counts, *held, rng=key.seed, n_draws=n_draws, n_islands=_N_ISLANDS, n_jobs=self.n_jobs)


def _in_all_data(gains: Floats, noise: float, scale: float) -> tuple[float, float]:
    """The gain for all data, ``scale`` times as many as these samples, and its error from the variance of the sum."""
    variance = noise * scale**2
    if scale > 1:
        variance += scale**2 * gains.size * float(np.var(gains, ddof=1)) * (1.0 - 1.0 / scale)
    return scale * float(gains.sum()), float(np.sqrt(variance))


def _taken_over(counts: Floats, k: int) -> Floats:
    """Without column ``k``, the sums of the rows kept; a row of which the others held nothing goes to all of them."""
    sums = counts.sum(axis=1, keepdims=True)
    others = counts.copy()
    others[:, k] = 0.0
    others += 1e-6 * sums * (others.sum(axis=0) / others.sum())
    held = others.sum(axis=1, keepdims=True)
    return np.asarray(others * np.divide(sums, held, out=np.zeros_like(sums), where=sums > 0))
