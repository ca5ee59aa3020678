"""Mean-field variational posterior of activations and allocations, and its bound of the log-likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.passes.kernels import expected_counts
from partwise.passes.side import Side, own_exposure, ready

Floats = NDArray[np.float64]

# exp E[log h] of tiny shapes underflows; a positive number keeps every rate from vanishing.
_SMALLEST = 1e-200


@dataclass
class GammaPosterior:
    """q(h_nk) = Gamma(prior_k + counts_nk, rate_nk).

    Attributes
    ----------
    counts
        Expected allocation totals, samples x components; they may be on workers.
    prior
        Shapes of the prior, one per component.
    rate
        Samples x components, or a single row where all samples share it.
    """

    counts: Any
    prior: Floats
    rate: Any


@dataclass(frozen=True)
class MeanField:
    """Updates of the posterior of some data under a model, and the evidence lower bound."""

    data: SparseData
    engine: Engine

    @cached_property
    def _samples(self) -> Side:
        return Side(self.data, self.engine)

    def rates(self, model: GammaPoissonModel, *, inverse: bool = False) -> Any:
        """b_k + Σ over observed f of w_fk, or 1 over that: a single row where nothing is missing."""
        totals = model.dictionary.sum(axis=0)
        if not self.data.n_missing:
            return np.atleast_2d(1.0 / (model.rate + totals) if inverse else model.rate + totals)
        shared, made = (model.dictionary, totals, model.rate, inverse), [Made(totals.shape)]
        return self._samples.map_rows(_rates, *shared, makes=made, stay=True)[1][0]

    def posterior(self, model: GammaPoissonModel, counts: Any) -> GammaPosterior:
        """The posterior of the activations given allocation totals."""
        return GammaPosterior(counts, model.shape, self.rates(model))

    def update(
        self, model: GammaPoissonModel, posterior: GammaPosterior, *, with_bound: bool = False
    ) -> tuple[GammaPosterior, float, Floats]:
        """Best allocations given the activations' posterior, then best activations given these.

        Returns
        -------
        posterior, bound, totals
            The new posterior, the bound in between (nan if not asked for), and the sums of the new counts over samples.
        """
        rates = self.rates(model)
        shared = ready(model.dictionary), posterior.prior, model.shape, model.rate, with_bound
        arrays = [self._samples.place(posterior.counts), posterior.rate, rates]
        (bound, totals), (counts,) = self._samples.map_rows(
            _update, *shared, reads=arrays, makes=[Made(model.shape.shape)]
        )
        fresh = GammaPosterior(counts, model.shape, rates)
        return fresh, float(bound) - self._log_factorials if with_bound else np.nan, totals

    def feature_counts(self, model: GammaPoissonModel, posterior: GammaPosterior) -> tuple[Floats, Floats]:
        """Σ_n of the expected allocations given the activations' posterior, and Σ_n E[log h_nk]."""
        mean_logs, (geometric,) = self._samples.map_rows(_geometric_means, posterior.prior, **_of(posterior))
        features = Side(self.data.transposed, self.engine)
        return features.expected_counts(model.dictionary, geometric)[0], mean_logs

    def means(self, posterior: GammaPosterior) -> tuple[Any, Floats]:
        """E[h_nk], and its sums over samples."""
        totals, (means,) = self._samples.map_rows(_means, posterior.prior, **_of(posterior))
        return means, totals

    def fit(
        self, model: GammaPoissonModel, posterior: GammaPosterior, *, tol: float = 1e-4, max_updates: int = 100
    ) -> tuple[GammaPosterior, float]:
        """Update until the bound grows by less than ``tol`` nats a count in ten updates; posterior and bound."""
        total = max(self.data.total, 1.0)
        last = -np.inf
        for number in range(max_updates):
            posterior, bound, _ = self.update(model, posterior, with_bound=number % 10 == 0)
            if bound - last < tol * total:
                return posterior, bound
            if number % 10 == 0:
                last = bound
        return posterior, last

    @property
    def _log_factorials(self) -> float:
        values = self.data.values
        if not self.data.is_integer or values.max(initial=0) > 2**20:
            return float(gammaln(values + 1.0).sum())
        times = np.bincount(values)
        return float(times @ gammaln(np.arange(times.size) + 1.0))


def _of(posterior: GammaPosterior) -> dict[str, Any]:
    """What a function of blocks reads of a posterior, and the array that it makes."""
    return {"reads": [posterior.counts, posterior.rate], "makes": [Made(posterior.prior.shape)]}


def _rates(block: Block, out: Floats, dictionary: Floats, totals: Floats, prior_rate: Floats, inverse: bool) -> float:
    rates = prior_rate + own_exposure(block, dictionary, totals)
    out[block.rows] = 1.0 / rates if inverse else rates
    return 0.0


def _mean_log(shape: Floats, rate: Floats) -> Floats:
    return np.asarray(psi(shape) - np.log(rate))


def _geometric(mean_log: Floats) -> Floats:
    """Exp E[log h_nk], which takes the place of h_nk in the shares of an allocation."""
    return np.maximum(np.exp(mean_log), _SMALLEST)


def _geometric_means(block: Block, counts: Floats, rate: Floats, out: Floats, prior: Floats) -> Floats:
    mean_log = _mean_log(prior + counts[block.rows], block.own(rate))
    out[block.rows] = _geometric(mean_log)
    return np.asarray(mean_log.sum(axis=0))


def _means(block: Block, counts: Floats, rate: Floats, out: Floats, prior: Floats) -> Floats:
    out[block.rows] = (prior + counts[block.rows]) / block.own(rate)
    return np.asarray(out[block.rows].sum(axis=0))


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
    mean_log = _mean_log(shape, own_rate)
    span = 0, block.n_rows
    bound = expected_counts(*block.own_cells, _geometric(mean_log), dictionary, with_bound, *span, own)
    if with_bound:
        # Beside Σ x log(rate): E[log p(h)] - E[log q(h)] - Σ expected counts. The caller adds -Σ log x!.
        prior = prior_shape * np.log(prior_rate) - gammaln(prior_shape) + (prior_shape - 1.0) * mean_log
        entropy = shape - np.log(own_rate) + gammaln(shape) + (1.0 - shape) * psi(shape)
        bound += float((prior - block.own(new_rate) * (shape / own_rate) + entropy).sum())
    return bound, np.asarray(own.sum(axis=0))
