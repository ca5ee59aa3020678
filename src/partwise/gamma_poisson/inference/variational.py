"""Mean-field variational posterior of activations and allocations, and its bound of the log-likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.poisson.inference.passes import Side

Floats = NDArray[np.float64]

# exp E[log h] of tiny shapes underflows; a positive number keeps every rate from vanishing.
_SMALLEST = 1e-200


@dataclass
class GammaPosterior:
    """q(h_nk) = Gamma(shape_nk, rate_nk); the rate has a single row where all samples share it."""

    shape: Floats
    rate: Floats

    @property
    def mean(self) -> Floats:
        """E[h_nk]."""
        return self.shape / self.rate

    @property
    def mean_log(self) -> Floats:
        """E[log h_nk]."""
        return psi(self.shape) - np.log(self.rate)  # type: ignore[no-any-return]  # SciPy has no types

    @property
    def geometric_mean(self) -> Floats:
        """Exp E[log h_nk], which takes the place of h_nk in the shares of an allocation."""
        return np.maximum(np.exp(self.mean_log), _SMALLEST)


@dataclass(frozen=True)
class MeanField:
    """Updates of the posterior of some data under a model, and the evidence lower bound."""

    data: SparseData
    engine: Engine

    def rates(self, model: GammaPoissonModel) -> Floats:
        """b_k + Σ over observed f of w_fk."""
        exposure = Side(self.data, self.engine).exposure(model.dictionary, stay=True)
        return model.rate + exposure  # type: ignore[no-any-return]  # an array, or one of the engine's

    def update(
        self, model: GammaPoissonModel, posterior: GammaPosterior, *, with_bound: bool = False
    ) -> tuple[GammaPosterior, float]:
        """Best allocations given the activations' posterior, then best activations given these; bound in between."""
        samples = Side(self.data, self.engine)
        posterior = GammaPosterior(samples.place(posterior.shape), posterior.rate)
        means = posterior.geometric_mean
        counts, logs = samples.expected_counts(means, model.dictionary, with_logs=with_bound)
        rates = self.rates(model)
        bound = logs + self._rest_of_bound(model, posterior, rates) if with_bound else np.nan
        return GammaPosterior(model.shape + counts, rates), bound

    def feature_counts(self, model: GammaPoissonModel, posterior: GammaPosterior) -> Floats:
        """Σ_n of the expected allocations given the activations' posterior."""
        means = posterior.geometric_mean
        return Side(self.data.transposed, self.engine).expected_counts(model.dictionary, means)[0]

    def fit(
        self, model: GammaPoissonModel, posterior: GammaPosterior, *, tol: float = 1e-4, max_updates: int = 100
    ) -> tuple[GammaPosterior, float]:
        """Update until the bound grows by less than ``tol`` nats a count in ten updates; posterior and bound."""
        total = max(self.data.total, 1.0)
        last = -np.inf
        for number in range(max_updates):
            posterior, bound = self.update(model, posterior, with_bound=number % 10 == 0)
            if bound - last < tol * total:
                return posterior, bound
            if number % 10 == 0:
                last = bound
        return posterior, last

    def _rest_of_bound(self, model: GammaPoissonModel, posterior: GammaPosterior, rates: Floats) -> float:
        """All but Σ x log(rate): E[log p(h)] - E[log q(h)] - Σ expected counts - Σ log x!."""
        shape, mean_log = posterior.shape, posterior.mean_log
        prior = model.shape * np.log(model.rate) - gammaln(model.shape) + (model.shape - 1.0) * mean_log
        entropy = shape - np.log(posterior.rate) + gammaln(shape) + (1.0 - shape) * psi(shape)
        terms = prior - rates * posterior.mean + entropy
        return float(terms.sum()) - self._log_factorials

    @property
    def _log_factorials(self) -> float:
        values = self.data.values
        if not self.data.is_integer or values.max(initial=0) > 2**20:
            return float(gammaln(values + 1.0).sum())
        times = np.bincount(values)
        return float(times @ gammaln(np.arange(times.size) + 1.0))
