"""Variational Bayes as in LDA: Dirichlet posteriors of both factors, independent of the allocations; also online."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from partwise.allocation.inference.labels import first_feature_counts
from partwise.allocation.inference.learning import EVERY, maximised
from partwise.allocation.model import AllocationModel, Concentrations, log_dirichlet_constant
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, aligned
from partwise.kernels.arrays import Floats
from partwise.passes.kernels import expected_counts
from partwise.passes.side import Side
from partwise.poisson.inference.state import Start

_BATCH_UPDATES, _BATCH_TOL = 100, 1e-4


@dataclass
class AllocationVariationalState:
    """Expected allocation totals of samples and of features. With β and α added, they are the parameters of q."""

    sample_counts: Any
    feature_counts: Floats
    dictionary_concentration: Floats
    activation_concentration: Floats


@dataclass
class AllocationVariationalBayes:
    """A step updates q(h), then q(w), each with the best allocations q(S) given the other. The bound never falls."""

    model: AllocationModel
    engine: Engine = field(compare=False)
    start: Start = "random"

    def init(self, key: Key, data: SparseData) -> AllocationVariationalState:
        """Features from KL-NMF, and each row spread evenly: parts that KL-NMF emptied in a row may return."""
        even = Side(data, self.engine).even_counts(self.model.n_components)
        counts = first_feature_counts(key, data, self.model, self.start, self.engine)
        return AllocationVariationalState(even, counts, *self.model.concentrations)

    def step(
        self, key: Key, data: SparseData, state: AllocationVariationalState
    ) -> tuple[AllocationVariationalState, Mapping[str, float]]:
        """Update each factor once, and sometimes the concentrations; report the bound of log p(X) in between."""
        model = self.present(state)
        weights = _mean_exponents(model.dictionary_posterior(state.feature_counts), 0)
        samples, features = Side(data, self.engine), Side(data.transposed, self.engine)
        before = samples.place(state.sample_counts)
        (divergence, _, mean_logs), (state.sample_counts, shares) = _update_samples(samples, model, before, weights)
        fresh, logs = features.expected_counts(weights, shares, with_logs=True)
        other = model.dictionary_posterior(state.feature_counts).T
        divergence += _divergence(other, model.dictionary_concentration)
        objective = logs + model.log_known(data) - divergence + model.log_prior_of_concentrations
        if model.estimated and key.iteration % EVERY == 0:
            # The bound uses q(w) from the earlier counts, for which the new concentrations are best.
            known = data.shape[0], mean_logs, float(_mean_logs(other, 1).sum())
            state.dictionary_concentration, state.activation_concentration = maximised(model, *known)
        state.feature_counts = fresh
        return state, {"objective": objective}

    def present(self, state: AllocationVariationalState) -> AllocationModel:
        """The model with the current concentrations."""
        return self.model.with_concentrations(
            Concentrations(state.dictionary_concentration, state.activation_concentration)
        )


def absorb(model: AllocationModel, averages: Floats, n_seen: int, data: SparseData, engine: Engine) -> Floats:
    """Add a batch (Hoffman et al. 2010): expected feature counts of an average sample so far.

    The weight of a batch is its share of the samples seen, but larger at first: (t + 1)^-0.7 for the t-th sample.
    """
    n_batch = data.shape[0]
    weights = _mean_exponents(model.dictionary_posterior(averages * max(n_seen, n_batch)), 0)
    side = Side(data, engine)
    counts = side.even_counts(model.n_components)
    for _ in range(_BATCH_UPDATES):
        (_, change, _), (counts, shares) = _update_samples(side, model, counts, weights)
        if change <= _BATCH_TOL * data.total:
            break
    found, _logs = Side(data.transposed, engine).expected_counts(weights, shares)
    rate = max(n_batch / (n_seen + n_batch), (1.0 + n_seen / n_batch) ** -0.7)
    return np.asarray((1.0 - rate) * averages + rate * found / n_batch)


def _update_samples(
    samples: Side, model: AllocationModel, sample_counts: Any, weights: Floats
) -> tuple[Any, tuple[Any, ...]]:
    """Σ of q(h)'s divergences, of changes of expected counts, and of E[log share]; these, and exp E[log share]."""
    shared, made = (aligned(weights), model.activation_concentration), [Made((model.n_components,))] * 2
    return samples.map_rows(_update_rows, *shared, reads=[sample_counts], makes=made)


def _update_rows(
    block: Block, before: Floats, counts: Floats, shares: Floats, weights: Floats, concentration: Floats
) -> tuple[float, float, Floats]:
    own = counts[block.rows]
    spread = _mean_exponents(concentration + before[block.rows], 1)
    expected_counts(block.own_cells, spread, weights, False, 0, block.n_rows, own)
    posterior = concentration + own
    shares[block.rows] = _mean_exponents(posterior, 1)
    change = float(np.abs(own - before[block.rows]).sum())
    return _divergence(posterior, concentration), change, _mean_logs(posterior, 1).sum(axis=0)


def _mean_exponents(parameters: Floats, axis: int) -> Floats:
    """Of Dirichlet distributions along an axis: exp E[log share], kept above 0."""
    return np.ascontiguousarray(np.exp(np.maximum(_mean_logs(parameters, axis), -300.0)))


def _mean_logs(parameters: Floats, axis: int) -> Floats:
    return np.asarray(digamma(parameters) - digamma(parameters.sum(axis=axis, keepdims=True)))


def _divergence(parameters: Floats, prior: Floats) -> float:
    """Σ over rows of KL(Dirichlet(row) || Dirichlet(prior))."""
    totals = parameters.sum(axis=1)
    constants = gammaln(totals) - gammaln(parameters).sum(axis=1) - log_dirichlet_constant(prior)
    logs = _mean_logs(parameters, 1)
    return float(constants.sum() + ((parameters - prior) * logs).sum())
