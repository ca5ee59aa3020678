"""Variational EM: deterministic, with an objective that bounds the log-likelihood and never falls."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, psi, xlogy

from partwise.contract.given_parts import seeded_order
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.run import Info
from partwise.core.weights import Weights
from partwise.engines.blocks import Block, Made, aligned
from partwise.gamma_poisson.inference import m_steps
from partwise.gamma_poisson.inference.starts import poisson_factors, with_noise
from partwise.gamma_poisson.model import GammaPoissonModel, MarginalEM, column_norms
from partwise.kernels.arrays import Floats
from partwise.passes.batches import expected_in_groups
from partwise.passes.kernels import expected_counts
from partwise.passes.side import Side, Totals, own_exposure, own_totals

# exp E[log h] of tiny shapes underflows; a positive floor keeps every rate above 0.
_SMALLEST = 1e-200


@dataclass
class GammaPosterior:
    """q(h_nk) = Gamma(prior_k + counts_nk, rate_nk).

    Attributes
    ----------
    counts
        Expected allocation totals, samples x parts; may be on workers.
    prior
        Shapes of the prior, one per part.
    rate
        Samples x parts, or a single row if all samples share it.
    """

    counts: Any
    prior: Floats
    rate: Any


@dataclass(frozen=True, eq=False)
class MeanField(Side):
    """The samples' side, with updates of their posterior under a model, and the evidence lower bound."""

    def rates(self, model: GammaPoissonModel, *, inverse: bool = False) -> Any:
        """b_k + Σ over observed f of w_fk, or its inverse: a single row if nothing is missing."""
        totals = self.column_totals(model.dictionary)
        if not self.data.n_missing and self.data.weights is None:
            return np.atleast_2d(1.0 / (model.rate + totals) if inverse else model.rate + totals)
        shared, made = (model.dictionary, totals, model.rate, inverse), [Made(model.rate.shape)]
        return self.map_rows(_rates, *shared, makes=made, stay=True)[1][0]

    def posterior(self, model: GammaPoissonModel, counts: Any) -> GammaPosterior:
        """The posterior of the activations given allocation totals."""
        return GammaPosterior(counts, model.shape, self.rates(model))

    def update(
        self, model: GammaPoissonModel, posterior: GammaPosterior, *, with_bound: bool = False
    ) -> tuple[GammaPosterior, float, Floats]:
        """The best allocations given the activations' posterior, then the best activations given these.

        Returns
        -------
        posterior, bound, totals
            The new posterior, the bound in between (nan if not requested), and the sums of the new counts over samples.
        """
        rates = self.rates(model)
        shared = aligned(model.dictionary), posterior.prior, model.shape, model.rate, with_bound
        arrays = [self.place(posterior.counts), posterior.rate, rates]
        (bound, totals), (counts,) = self.map_rows(_update, *shared, reads=arrays, makes=[Made(model.shape.shape)])
        fresh = GammaPosterior(counts, model.shape, rates)
        return fresh, float(bound) - _log_factorials(self.data) if with_bound else np.nan, totals

    def feature_counts(self, model: GammaPoissonModel, posterior: GammaPosterior) -> tuple[Floats, Floats]:
        """Σ_n of the expected allocations given the activations' posterior, and Σ_n E[log h_nk]."""
        reads, made = [posterior.counts, posterior.rate], [Made(posterior.prior.shape)]
        mean_logs, (geometric,) = self.map_rows(_geometric_means, posterior.prior, reads=reads, makes=made)
        return Side(self.data.transposed, self.engine).expected_counts(model.dictionary, geometric)[0], mean_logs

    def means(self, posterior: GammaPosterior) -> tuple[Any, Floats]:
        """E[h_nk], and its sums over samples."""
        reads, made = [posterior.counts, posterior.rate], [Made(posterior.prior.shape)]
        totals, (means,) = self.map_rows(_means, posterior.prior, self.data.weights, reads=reads, makes=made)
        return means, totals

    def fit(
        self, model: GammaPoissonModel, posterior: GammaPosterior, *, tol: float = 1e-4, max_updates: int = 100
    ) -> tuple[GammaPosterior, float]:
        """Update until the bound grows by less than ``tol`` nats per count in ten updates. Posterior and bound."""
        total = max(self.data.total, 1.0)
        last = -np.inf
        for number in range(max_updates):
            posterior, bound, _ = self.update(model, posterior, with_bound=number % 10 == 0)
            if bound - last < tol * total:
                return posterior, bound
            if number % 10 == 0:
                last = bound
        return posterior, last


def _log_factorials(data: SparseData) -> float:
    if not data.is_integer or data.values.max(initial=0) > 2**20:
        return float(gammaln(data.values + 1.0).sum())
    times = np.bincount(data.values)
    return float(times @ gammaln(np.arange(times.size) + 1.0))


def _rates(block: Block, out: Floats, dictionary: Floats, totals: Totals, prior_rate: Floats, inverse: bool) -> None:
    rates = prior_rate + own_exposure(block, dictionary, totals)
    out[block.rows] = 1.0 / rates if inverse else rates


def _log_means(shape: Floats, rate: Floats) -> tuple[Floats, Floats]:
    """E[log h_nk] and its exponential, which replaces h_nk in the shares of an allocation."""
    mean_log = np.asarray(psi(shape) - np.log(rate))
    return mean_log, np.maximum(np.exp(mean_log), _SMALLEST)


def _geometric_means(block: Block, counts: Floats, rate: Floats, out: Floats, prior: Floats) -> Floats:
    mean_log, out[block.rows] = _log_means(prior + counts[block.rows], block.own(rate))
    return np.asarray(mean_log.sum(axis=0))


def _means(block: Block, counts: Floats, rate: Floats, out: Floats, prior: Floats, weights: Weights) -> Floats:
    out[block.rows] = (prior + counts[block.rows]) / block.own(rate)
    return own_totals(block, out[block.rows], weights)


def _update(
    block: Block,
    counts: Floats,
    rate: Floats,
    new_rate: Floats,
    out: Floats,
    dictionary: Floats,
    posterior_prior: Floats,
    prior_shape: Floats,
    prior_rate: Floats,
    with_bound: bool,
) -> tuple[float, Floats]:
    shape, own_rate, own = posterior_prior + counts[block.rows], block.own(rate), out[block.rows]
    mean_log, geometric = _log_means(shape, own_rate)
    bound = expected_counts(block.own_cells, geometric, dictionary, with_bound, 0, block.n_rows, own)
    if with_bound:
        # Besides Σ x log(rate): E[log p(h)] - E[log q(h)] - Σ expected counts. The caller adds -Σ log x!.
        prior = prior_shape * np.log(prior_rate) - gammaln(prior_shape) + (prior_shape - 1.0) * mean_log
        entropy = shape - np.log(own_rate) + gammaln(shape) + (1.0 - shape) * psi(shape)
        bound += float((prior - block.own(new_rate) * (shape / own_rate) + entropy).sum())
    return bound, np.asarray(own.sum(axis=0))


OBJECTIVE_EVERY = 10


@dataclass
class GammaVariationalState:
    """Dictionary and shapes, and the posterior of activations."""

    dictionary: Floats
    shape: Floats
    posterior: GammaPosterior


@dataclass(kw_only=True)
class VariationalEM(MarginalEM):
    """Coordinate ascent on the evidence lower bound (Dikmen & Févotte 2012), with a faster M-step.

    Given the allocations, the dictionary and the activations' rates are updated together: w = (b / a) mean c, as in
    MCEM-C. The dictionary alone would move in small steps. If cells are missing or have weights, there is no closed
    form, and the dictionary is updated alone.
    """

    seeds: Floats | None = None
    fixed: Floats | None = None

    def init(self, key: Key, data: SparseData) -> GammaVariationalState:
        """A Poisson factorization with some noise, or the given dictionary with each sample's total spread evenly."""
        mean_field = MeanField(data, self.engine)
        if self.start is None:
            dictionary, counts = poisson_factors(key, data, self.shape, self.rate, self.engine)
            dictionary = with_noise(key, data, dictionary, self.shape, self.rate)
            if self.seeds is not None or self.fixed is not None:
                known = np.zeros(dictionary.shape) if self.seeds is None else self.seeds.copy()
                if self.fixed is not None:
                    known[:, : self.fixed.shape[1]] = self.fixed
                order = seeded_order(known, dictionary)
                sizes, given = dictionary[:, order].sum(axis=0), known.sum(axis=0)
                shares = known / np.where(given > 0, given, 1.0)
                # Half of a known part starts at its known value, so that no other part takes it.
                dictionary = np.where(given > 0, (dictionary[:, order] + shares * sizes) / 2.0, dictionary[:, order])
                counts = np.ascontiguousarray(np.asarray(counts)[:, order])
        else:
            dictionary, counts = self.start.copy(), mean_field.even_counts(self.shape.size)
        model = GammaPoissonModel(dictionary, self.shape, self.rate)
        return GammaVariationalState(dictionary, self.shape.copy(), mean_field.posterior(model, counts))

    def step(self, key: Key, data: SparseData, state: GammaVariationalState) -> tuple[GammaVariationalState, Info]:
        """Update allocations, activations, allocations again, dictionary, rates. Every tenth time, report the bound."""
        mean_field, model = MeanField(data, self.engine), self.model(state)
        due = key.iteration % OBJECTIVE_EVERY == 0
        posterior, bound, totals = mean_field.update(model, state.posterior, with_bound=due)
        counts, mean_logs = mean_field.feature_counts(model, posterior)
        if self.seeds is not None:
            # A Dirichlet prior on a part's shares: proportions move towards the seeds, and its total does not.
            totals_of_parts = counts.sum(axis=0)
            counts = counts + self.seeds
            counts *= totals_of_parts / np.maximum(counts.sum(axis=0), m_steps.SMALLEST_ENTRY)
            shares = model.dictionary / np.maximum(model.dictionary.sum(axis=0), m_steps.SMALLEST_ENTRY)
            bound += float(xlogy(self.seeds, np.maximum(shares, m_steps.SMALLEST_ENTRY)).sum())  # of the seeds' prior
        if self.fixed is not None:
            held_parts = slice(self.fixed.shape[1])
            counts[:, held_parts] = self.fixed * counts[:, held_parts].sum(axis=0)
        n_samples = data.shape[0]
        mean_log = mean_logs / n_samples
        if data.n_missing or data.weights is not None:
            means, sums = mean_field.means(posterior)
            exposure = Side(data.transposed, self.engine).exposure(means, totals=sums)
            dictionary = m_steps.conditional_step(counts, exposure)
        else:
            dictionary = m_steps.marginal_step(counts, n_samples, model.shape, self.rate)
            # The best rates given the allocations, jointly with the dictionary.
            rate = self.rate * (posterior.prior + totals / n_samples) / state.shape
            mean_log += np.log(posterior.rate[0]) - np.log(rate)
            posterior.rate = np.atleast_2d(rate)
        if self.estimate_shape:
            # The maximum of the bound over a_k: ψ(a_k) = log b_k + mean_n E[log h_nk].
            state.shape = m_steps.shape_of_mean_log(np.log(self.rate) + mean_log)
        held = (data.column_sums > 0)[:, None]
        state.dictionary = np.where(held, np.maximum(dictionary, m_steps.SMALLEST_ENTRY), dictionary)
        state.posterior = posterior
        return state, {**({"objective": bound} if due else {}), **column_norms(state.dictionary)}

    def expected_in_groups(self, data: SparseData, state: GammaVariationalState) -> Floats:
        """Expected totals of each feature in each batch, without batch factors."""
        mean_field = MeanField(data, self.engine)
        return expected_in_groups(mean_field, mean_field.means(state.posterior)[0], state.dictionary)
