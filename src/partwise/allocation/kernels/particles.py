"""Sequential Monte Carlo over tokens: particles are labels of tokens with their counts, drawn, moved and resampled."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.arrays import Counts, Floats, Indices, Numbers, Starts, Words
from partwise.kernels.categories import categorical
from partwise.kernels.jit import inline_kernel, inner_kernel, kernel
from partwise.kernels.streams import Stream, new_stream, next_uniform, seek_row
from partwise.kernels.sums import sum_of

# In the order of samples, features and components: what priors and labels add to each.
Priors = tuple[Floats, Floats, Floats]
LabelCounts = tuple[Counts, Counts, Counts]
# The row and the feature of each token.
Places = tuple[Indices, Indices]


@inner_kernel
def draw_component(
    stream: Stream, n: int, f: int, s: int, priors: Priors, counts: LabelCounts, weights: Floats
) -> tuple[int, float]:
    """A component for one token of particle s given its counts, which then hold it, and the sum of the weights."""
    sample_prior, feature_prior, component_prior = priors
    sample_counts, feature_counts, component_counts = counts
    for k in range(component_prior.size):
        weights[k] = (
            (feature_prior[f, k] + feature_counts[s, f, k])
            / (component_prior[k] + component_counts[s, k])
            * (sample_prior[n, k] + sample_counts[s, n, k])
        )
    total = sum_of(weights)
    k = categorical(stream, weights, total)
    _count(counts, s, n, f, k, 1)
    return k, total


@inline_kernel
def _count(counts: LabelCounts, s: int, n: int, f: int, k: int, change: int) -> None:
    """Add to the three counts that a label of particle s has a part in."""
    sample_counts, feature_counts, component_counts = counts
    sample_counts[s, n, k] += change
    feature_counts[s, f, k] += change
    component_counts[s, k] += change


@kernel
def move(
    stream: Stream, tokens: Places, n_tokens: int, n_moves: int, priors: Priors, counts: LabelCounts, labels: Numbers
) -> None:
    """``n_moves`` collapsed Gibbs sweeps of every particle over the first tokens, in place."""
    token_rows, token_features = tokens
    weights = np.empty(priors[2].size)
    for s in range(labels.shape[0]):
        for _ in range(n_moves):
            for i in range(n_tokens):
                n, f = token_rows[i], token_features[i]
                _count(counts, s, n, f, int(labels[s, i]), -1)
                labels[s, i], _total = draw_component(stream, n, f, s, priors, counts, weights)


@kernel
def log_mean_weight(log_weights: Floats) -> float:
    """``logsumexp(log_weights) - log(len(log_weights))``."""
    top = -math.inf
    for s in range(log_weights.size):
        top = max(top, log_weights[s])
    mean = 0.0
    for s in range(log_weights.size):
        mean += math.exp(log_weights[s] - top) / log_weights.size
    return top + math.log(mean)


@kernel
def resample(
    stream: Stream, log_weights: Floats, log_mean: float, n_tokens: int, now: int, counts: LabelCounts, labels: Numbers
) -> int:
    """Systematic resampling from one of two sets of particles into the other, whose number is returned."""
    sample_counts, feature_counts, component_counts = counts
    n_particles = log_weights.size
    place = next_uniform(stream)
    parent = 0
    reached = math.exp(log_weights[0] - log_mean)
    other = 1 - now
    for s in range(n_particles):
        while reached <= place + s and parent < n_particles - 1:
            parent += 1
            reached += math.exp(log_weights[parent] - log_mean)
        sample_counts[other, s] = sample_counts[now, parent]
        feature_counts[other, s] = feature_counts[now, parent]
        component_counts[other, s] = component_counts[now, parent]
        labels[other, s, :n_tokens] = labels[now, parent, :n_tokens]
    return other


@kernel
def smc_island(
    tokens: Places,
    sample_prior: Floats,
    feature_prior: Floats,
    stages: Starts,
    n_moves: int,
    words: Words,
    particles: LabelCounts,
    labels: Numbers,
) -> float:
    """``log E[prod_i u_i]``, u_i = Σ_k (α_f + S_fk) / (α_+ + S_k) * (β_k + S_nk) / (β_+ + S_n), counts so far.

    After each of the ``stages`` (numbers of tokens, the last being all) particles are resampled and moved by collapsed
    Gibbs sweeps over the tokens so far. When that happens does not depend on the particles, so the exponential of what
    is returned is unbiased. The priors hold β_k in each row and α_f in each column; counts, 0 at first, and labels are
    two sets of particles.
    """
    (token_rows, token_features), (sample_counts, feature_counts, component_counts) = tokens, particles
    n_particles = labels.shape[1]
    component_prior = feature_prior.sum(axis=0)
    spread = sample_prior[0].sum()
    lengths = np.zeros(sample_prior.shape[0], np.int64)
    weights = np.empty(component_prior.size)
    log_weights = np.zeros(n_particles)
    stream = new_stream()
    seek_row(stream, words, 0)
    priors = sample_prior, feature_prior, component_prior
    now = 0
    first = 0
    result = 0.0
    for stage in range(stages.size):
        last = stages[stage]
        for s in range(n_particles):
            log_weights[s] = 0.0
        counts = sample_counts[now], feature_counts[now], component_counts[now]
        own = labels[now]
        for i in range(first, last):
            n, f = token_rows[i], token_features[i]
            for s in range(n_particles):
                k, total = draw_component(stream, n, f, s, priors, counts, weights)
                own[s, i] = k
                log_weights[s] += math.log(total / (spread + lengths[n]))
            lengths[n] += 1
        log_mean = log_mean_weight(log_weights)
        result += log_mean
        first = last
        if stage < stages.size - 1:
            now = resample(stream, log_weights, log_mean, last, now, particles, labels)
            counts = sample_counts[now], feature_counts[now], component_counts[now]
            move(stream, tokens, last, n_moves, priors, counts, labels[now])
    return result
