"""p(X) by particles: annealed from independent labels around a short run of Gibbs sampling, or token by token."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.allocation.inference.labels import TokenLabels
from partwise.allocation.kernels.bridge import bridge_island, log_permanent
from partwise.allocation.kernels.particles import smc_island
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.sampling.draws import label_type

# Stages are closer together towards the end, where the priors let go: 1 / (1 + strength) grows as this power.
_SPACING = 0.7
# Stages over tokens are close together at first, where a token changes most: their ends grow as this power.
_TOKEN_SPACING = 2.0
_MOST_ALIKE = 14
_NEGLIGIBLE = -36.0


def annealed_island(
    key: Key, data: SparseData, model: AllocationModel, n_particles: int, n_stages: int, n_moves: int, n_pilot: int
) -> float:
    """Log of an unbiased estimate of the probability of the tokens in order, given the lengths.

    Labels start from independent draws around what a run of Gibbs sampling has found (`bridge_island`). All orders of
    the components are one solution, and a run finds one of them: the estimate is of Σ_z g(z) Σ_σ p(X, σz), where g(z) =
    q(z) / Σ_σ q(σz) is the share of this order among all by the independent labels' q. That is p(X) whatever q is.
    """
    sample_anchor, feature_anchor = anchors(key.for_stage("pilot"), data, model, n_pilot)
    tokens, (particles, labels) = tokens_of(data), no_particles(data, model.n_components, n_particles)
    sample_counts, feature_counts, _ = particles
    log_weights = np.empty(n_particles)
    strengths = (np.arange(1, n_stages + 1) / n_stages) ** -_SPACING - 1.0
    priors = model.activation_concentration, model.dictionary_concentration
    anchored = priors, (sample_anchor, feature_anchor), strengths
    words = key.for_stage("bridge").words
    reached, last = bridge_island(tokens, *anchored, n_moves, words, particles, labels, log_weights)
    log_shares = np.log(sample_anchor / sample_anchor.sum(axis=1, keepdims=True))
    log_parts = np.log(feature_anchor / feature_anchor.sum(axis=0))
    for s in range(n_particles):
        by_sample = sample_counts[last, s].astype(np.float64)
        exchanged = by_sample.T @ log_shares + feature_counts[last, s].astype(np.float64).T @ log_parts
        log_weights[s] += _log_orders(model, by_sample) - log_all_orders(exchanged)
    return float(reached + np.logaddexp.reduce(log_weights) - np.log(n_particles))


def token_island(
    key: Key, island: int, data: SparseData, model: AllocationModel, n_particles: int, n_stages: int, n_moves: int
) -> float:
    """Log of an unbiased estimate of the probability of the tokens in order, one token after the other."""
    n_tokens, n_components = int(data.total), model.n_components
    # In random order: few tokens of all samples are a small problem of the same kind, on which particles still move.
    order = key.generator().permutation(n_tokens)
    rows, features = tokens_of(data)
    tokens = rows[order], features[order]
    stages = np.unique(np.ceil(n_tokens * (np.arange(1, n_stages + 1) / n_stages) ** _TOKEN_SPACING)).astype(np.int64)
    sample_prior = model.activation_posterior(np.zeros((data.shape[0], n_components)))
    feature_prior = model.dictionary_posterior(np.zeros((data.shape[1], n_components)))
    seed, stage_chain, _ = key.words
    words, particles = (seed, stage_chain, np.uint64(island)), no_particles(data, n_components, n_particles)
    return smc_island(tokens, sample_prior, feature_prior, stages, n_moves, words, *particles)


def tokens_of(data: SparseData) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Row and feature of each token."""
    rows = np.repeat(np.arange(data.shape[0], dtype=np.int32), data.row_sums.astype(np.int64))
    return rows, np.repeat(data.indices, data.values.astype(np.int64))


def no_particles(data: SparseData, n_components: int, n_particles: int) -> tuple[Any, Any]:
    """Two sets of particles without labels: counts of samples, features and components, and labels."""
    n_samples, n_features = data.shape
    sizes = (n_samples, n_components), (n_features, n_components), (n_components,)
    counts = tuple(np.zeros((2, n_particles, *size), np.int32) for size in sizes)
    return counts, np.zeros((2, n_particles, int(data.total)), label_type(n_components))


def anchors(key: Key, data: SparseData, model: AllocationModel, n_sweeps: int) -> tuple[Floats, Floats]:
    """Posterior means of Dirichlet parameters, of samples and of features, over the second half of some sweeps."""
    n_components = model.n_components
    chain = TokenLabels.none_yet(data, n_components, 1)
    by_sample, by_feature = np.zeros((data.shape[0], n_components)), np.zeros((data.shape[1], n_components))
    n_kept = -(-n_sweeps // 2)
    for iteration in range(n_sweeps):
        chain.sweep(key.at(iteration), data, model, 0)
        if iteration >= n_sweeps - n_kept:
            by_sample += chain.sample_counts[0]
            by_feature += chain.feature_counts[0][:, :n_components]
    return model.activation_posterior(by_sample / n_kept), model.dictionary_posterior(by_feature / n_kept)


def _log_orders(model: AllocationModel, sample_counts: Floats) -> float:
    """Log Σ_σ p(X, σz) / p(X, z): only the activations' concentrations tell orders apart."""
    beta = model.activation_concentration
    if np.ptp(beta) == 0:
        return float(gammaln(beta.size + 1.0))
    return log_all_orders(np.stack([gammaln(b + sample_counts).sum(axis=0) for b in beta], axis=1))


def log_all_orders(logs: Floats) -> float:
    """``log perm(exp(logs)) - trace(logs)``: the sum over all orders beside the present one.

    Components that could change places only at a cost of e^-36, all that others may gain by it included, stay.
    """
    relative = logs - np.diag(logs)[:, None]
    np.fill_diagonal(relative, -np.inf)
    leaving = np.logaddexp.reduce(relative, axis=1)
    most = np.logaddexp(0.0, leaving)
    alike = np.flatnonzero(leaving + most.sum() - most >= _NEGLIGIBLE)
    if alike.size > _MOST_ALIKE:
        raise InvalidInputError(
            f"method='annealed' cannot tell {alike.size} components apart, more than {_MOST_ALIKE}: use fewer"
            " components, or method='smc'."
        )
    np.fill_diagonal(relative, 0.0)
    return log_permanent(np.ascontiguousarray(relative[np.ix_(alike, alike)]))
