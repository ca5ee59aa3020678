"""Variational Bayes in batches: the dictionary is a running average over batches (Hoffman et al. 2013)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from partwise.binary.inference.activations import activation_prior, row_counts_of
from partwise.binary.inference.cells import Cells, expected_counts, expected_pair_counts, sum_of_others
from partwise.binary.inference.learning import learn
from partwise.binary.inference.variational import column_weights, log_dirichlet_means, row_weights
from partwise.binary.model import BinaryModel
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.kernels.arrays import Floats

_FORGETTING = 0.7
_LOCAL_PASSES, _LOCAL_TOL = 100, 1e-4


@dataclass
class StochasticState:
    """Expected counts of the dictionary per sample seen, parameters of the priors, and the number of batches so far.

    ``averages``: features x parts, or, for Dir-Beta, features x parts x bit.
    """

    averages: Floats
    priors: Floats
    n_batches: int = 0


@dataclass
class StochasticVariational:
    """Variational Bayes that improves the dictionary after every batch. A step is one pass over all samples.

    The t-th batch has weight (1 + t)^-0.7 and represents all samples.
    """

    model: BinaryModel
    batch_size: int
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: BinaryMatrix) -> StochasticState:
        """A random dictionary, or one from drawn labels of some samples if priors are learned."""
        some = key.for_stage("first").generator().permutation(data.shape[0])[: self.batch_size]
        return StochasticState(*first_averages(key, self.model, data.take(np.sort(some))))

    def step(self, key: Key, data: BinaryMatrix, state: StochasticState) -> tuple[StochasticState, Mapping[str, float]]:
        """All samples once, in batches of random rows."""
        model = self.model.with_priors(state.priors)
        order = key.for_stage("batches").generator().permutation(data.shape[0])
        total, n_cells = 0.0, 0
        for start in range(0, data.shape[0], self.batch_size):
            batch = data.take(np.sort(order[start : start + self.batch_size]))
            counts, log_normaliser = batch_counts(model, state.averages * data.shape[0], batch, self.engine)
            state.n_batches += 1
            weight = (1.0 + state.n_batches) ** -_FORGETTING
            state.averages = (1.0 - weight) * state.averages + weight * counts / batch.shape[0]
            total += log_normaliser
            n_cells += batch.shape[0] * batch.shape[1] - batch.n_missing
        return state, {"batch_fit": total / max(n_cells, 1)}


def absorb(model: BinaryModel, averages: Floats, n_seen: int, data: BinaryMatrix, engine: Engine) -> Floats:
    """Averages after a batch of an endless stream, with ``n_seen`` samples before it."""
    size = data.shape[0]
    counts, _ = batch_counts(model, averages * max(n_seen, size), data, engine)
    weight = (1.0 + n_seen / size) ** -_FORGETTING
    return np.asarray((1.0 - weight) * averages + weight * counts / size)


def first_averages(key: Key, model: BinaryModel, data: BinaryMatrix) -> tuple[Floats, Floats]:
    """Initial averages and priors: random or, if priors are estimated, from labels drawn for these samples."""
    if not model.estimated:
        return random_averages(key, model, data.shape[1]), np.array(model.priors)
    found = learn(key, Cells.of(data, model.kind), model)
    return (found.row_counts if model.kind == "dir-beta" else found.column_counts) / data.shape[0], found.priors


def random_averages(key: Key, model: BinaryModel, n_features: int) -> Floats:
    """A start: random shares of the parts, or, for Dir-Beta, random probabilities."""
    generator = key.for_stage("start").generator()
    n_components = model.n_components
    if model.kind == "dir-beta":
        probability = generator.random((n_features, n_components))
        return np.stack((1.0 - probability, probability), axis=2) / n_components
    return generator.dirichlet(np.ones(n_components), size=n_features)


def batch_counts(model: BinaryModel, counts: Floats, data: BinaryMatrix, engine: Engine) -> tuple[Floats, float]:
    """Expected counts of the dictionary in a batch, whose activations are fitted first; and Σ log normalisers."""
    weights, prior = dictionary_weights(model, counts), activation_prior(model)
    given = weights, model.kind != "beta-dir", *prior
    local = row_counts_of(Cells.of(data), given, engine, by_mean_logs=True, max_iter=_LOCAL_PASSES, tol=_LOCAL_TOL)
    cells = Cells.of(data, model.kind)
    if model.kind == "beta-dir":
        found = expected_counts(cells, row_weights(model, local), weights[1], engine)
        return found.columns, found.log_normaliser
    activations = np.exp(log_dirichlet_means(prior[0] + local.sum(axis=2)))
    if model.kind == "dir-dir":
        found = expected_pair_counts(cells, activations, weights[1], engine)
        return found.columns, found.log_normaliser
    found = expected_counts(cells, weights, activations, engine)
    return found.rows, found.log_normaliser


def dictionary_weights(model: BinaryModel, counts: Floats) -> Floats:
    """Weights of zeros and ones in every feature, from the distribution of the dictionary."""
    if model.kind == "dir-beta":
        return row_weights(model, counts)
    columns, scales = column_weights(model, counts)
    columns = columns * np.exp(scales)[:, None]
    return np.stack((columns if model.kind == "beta-dir" else sum_of_others(columns), columns))
