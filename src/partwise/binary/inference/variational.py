"""Mean-field variational Bayes of the augmented models, all samples at once or in batches.

Of Beta-Dir it is binary ICA (Kabán & Bingham 2008). In batches, the dictionary comes from running averages over batches
of samples (Hoffman et al. 2013).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, digamma, gammaln

from partwise.binary.inference.activations import activation_prior, row_counts_of
from partwise.binary.inference.cells import Cells, ExpectedCounts, expected_counts, expected_pair_counts, sum_of_others
from partwise.binary.model import BinaryModel
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.kernels.arrays import Floats

# Products of two weights must not underflow; what is smaller has no share in anything.
_SMALLEST = 1e-140
_FORGETTING = 0.7
_LOCAL_PASSES, _LOCAL_TOL = 100, 1e-4


@dataclass
class BinaryVariationalState:
    """Expected counts of labels, which are the parameters of the factors' distributions up to the priors.

    ``row_counts``: rows x components x bit; for Dir-Dir rows x components.
    """

    row_counts: Floats
    column_counts: Floats


@dataclass
class BinaryVariationalBayes:
    """q(Z) q(w) q(h), updated in turn; the evidence lower bound never falls.

    A step computes q(Z) for all cells from the factors (r proportional to exp(E log w + x E log h + (1 - x) E log(1 -
    h))), and both factors from it. Dir-Dir has a q for each pair of labels.
    """

    model: BinaryModel
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: Cells) -> BinaryVariationalState:
        """Counts that random factors would give: equal factors would stay equal for ever."""
        generator = key.for_stage("start").generator()
        n_components = self.model.n_components
        (n_rows, n_columns) = data.shape
        columns = generator.dirichlet(np.ones(n_components), size=n_columns)
        if self.model.kind == "dir-dir":
            rows = generator.dirichlet(np.ones(n_components), size=n_rows)
            return BinaryVariationalState(rows * data.row_sizes[:, None], columns * data.column_sizes[:, None])
        probability = generator.random((n_rows, n_components))
        share = (data.row_sizes / n_components)[:, None, None]
        rows = np.stack((1.0 - probability, probability), axis=2) * share
        return BinaryVariationalState(rows, columns * data.column_sizes[:, None])

    def step(
        self, key: Key, data: Cells, state: BinaryVariationalState
    ) -> tuple[BinaryVariationalState, Mapping[str, float]]:
        """One update of everything; the objective is the bound at the state that came in."""
        counts, log_scale = expected_under(self.model, data, state, self.engine)
        bound = counts.log_normaliser + log_scale - divergence(self.model, state)
        return BinaryVariationalState(counts.rows, counts.columns), {"objective": bound}


def expected_under(
    model: BinaryModel, data: Cells, state: BinaryVariationalState, engine: Engine
) -> tuple[ExpectedCounts, float]:
    """Expected counts under the factors' distributions, and the logarithm of what their weights were scaled by."""
    columns, scales = column_weights(model, state.column_counts)
    log_scale = float(scales @ data.column_sizes)
    if model.kind == "dir-dir":
        rows, row_scales = pair_row_weights(model, state.row_counts)
        return expected_pair_counts(data, rows, columns, engine), log_scale + float(row_scales @ data.row_sizes)
    return expected_counts(data, row_weights(model, state.row_counts), columns, engine), log_scale


def column_weights(model: BinaryModel, column_counts: Floats) -> tuple[Floats, Floats]:
    """Weights exp E log w, scaled so that the largest of each column is 1, and the logarithms of the scales."""
    return _weights(log_dirichlet_means(model.concentration + column_counts))


def pair_row_weights(model: BinaryModel, row_counts: Floats) -> tuple[Floats, Floats]:
    """The same of the rows of Dir-Dir."""
    return _weights(log_dirichlet_means(model.activation_concentration + row_counts))


def row_weights(model: BinaryModel, row_counts: Floats) -> Floats:
    """Weights exp E log(1 - h) of zeros and exp E log h of ones: bit x rows x components."""
    ones, zeros = model.alpha + row_counts[..., 1], model.beta + row_counts[..., 0]
    logs = digamma(np.stack((zeros, ones))) - digamma(ones + zeros)
    weights: Floats = np.maximum(np.exp(logs), _SMALLEST)
    return weights


def log_dirichlet_means(parameters: Floats) -> Floats:
    """E log w of Dirichlet rows."""
    means: Floats = digamma(parameters) - digamma(parameters.sum(axis=1, keepdims=True))
    return means


def _weights(logs: Floats) -> tuple[Floats, Floats]:
    """Exponentials of each row, scaled so that its largest is 1, and the logarithms of the scales."""
    largest = logs.max(axis=1)
    return np.maximum(np.exp(logs - largest[:, None]), _SMALLEST), largest


def divergence(model: BinaryModel, state: BinaryVariationalState) -> float:
    """KL(q || prior) of both factors."""
    total = _dirichlet_divergence(state.column_counts, model.concentration)
    if model.kind == "dir-dir":
        return total + _dirichlet_divergence(state.row_counts, model.activation_concentration)
    return total + _beta_divergence(state.row_counts, model.alpha, model.beta)


def _dirichlet_divergence(counts: Floats, concentration: float) -> float:
    n_rows, n_components = counts.shape
    parameters = concentration + counts
    prior = n_rows * (gammaln(n_components * concentration) - n_components * gammaln(concentration))
    posterior = gammaln(parameters.sum(axis=1)).sum() - gammaln(parameters).sum()
    return float(posterior - prior + (counts * log_dirichlet_means(parameters)).sum())


def _beta_divergence(counts: Floats, alpha: float, beta: float) -> float:
    ones, zeros = alpha + counts[..., 1], beta + counts[..., 0]
    both = digamma(ones + zeros)
    logs = counts[..., 1] * (digamma(ones) - both) + counts[..., 0] * (digamma(zeros) - both)
    return float((logs - betaln(ones, zeros) + betaln(alpha, beta)).sum())


@dataclass
class StochasticState:
    """Expected counts of the dictionary per sample seen, and how many batches were taken in.

    ``averages``: features x components, or, for Dir-Beta, features x components x bit.
    """

    averages: Floats
    n_batches: int = 0


@dataclass
class StochasticVariational:
    """Variational Bayes that improves the dictionary after every batch; a step is one pass over all samples.

    The t-th batch has weight (1 + t)^-0.7, and stands for all samples.
    """

    model: BinaryModel
    batch_size: int
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: BinaryMatrix) -> StochasticState:
        """A random dictionary."""
        return StochasticState(random_averages(key, self.model, data.shape[1]))

    def step(self, key: Key, data: BinaryMatrix, state: StochasticState) -> tuple[StochasticState, Mapping[str, float]]:
        """All samples once, in batches of random rows."""
        order = key.for_stage("batches").generator().permutation(data.shape[0])
        total, n_cells = 0.0, 0
        for start in range(0, data.shape[0], self.batch_size):
            batch = take_rows(data, np.sort(order[start : start + self.batch_size]))
            counts, log_normaliser = batch_counts(self.model, state.averages * data.shape[0], batch, self.engine)
            state.n_batches += 1
            weight = (1.0 + state.n_batches) ** -_FORGETTING
            state.averages = (1.0 - weight) * state.averages + weight * counts / batch.shape[0]
            total += log_normaliser
            n_cells += batch.shape[0] * batch.shape[1] - batch.n_missing
        return state, {"batch_fit": total / max(n_cells, 1)}


def absorb(model: BinaryModel, averages: Floats, n_seen: int, data: BinaryMatrix, engine: Engine) -> Floats:
    """Averages after a batch of a stream without end, of which ``n_seen`` samples came before."""
    size = data.shape[0]
    counts, _ = batch_counts(model, averages * max(n_seen, size), data, engine)
    weight = (1.0 + n_seen / size) ** -_FORGETTING
    moved: Floats = (1.0 - weight) * averages + weight * counts / size
    return moved


def random_averages(key: Key, model: BinaryModel, n_features: int) -> Floats:
    """A start: random shares of the components, or, for Dir-Beta, random probabilities."""
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


def take_rows(data: BinaryMatrix, rows: NDArray[Any]) -> BinaryMatrix:
    """Some samples, in the order given."""
    chosen, hidden = data.to_scipy()[rows], data.missing_matrix()[rows]
    return replace(
        data,
        shape=(rows.size, data.shape[1]),
        indptr=chosen.indptr.astype(np.int64),
        indices=chosen.indices.astype(np.int32),
        values=chosen.data,
        missing_indptr=hidden.indptr.astype(np.int64),
        missing_indices=hidden.indices.astype(np.int32),
        row_labels=None,
    )
