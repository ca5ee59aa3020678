"""Sequential Monte Carlo over tokens: particles are labels of tokens with their counts, drawn, moved and resampled.

Annealed sequential Monte Carlo over all tokens at once: from independent labels to the allocation model.
"""

import math

import numpy as np

from partwise.kernels.arrays import Counts, Floats, Indices, Numbers, Starts, Words
from partwise.kernels.categories import categorical
from partwise.kernels.gamma_functions import log_gamma_difference
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
    """Draw a component for one token of particle s, add it to the counts, and return it with the sum of the weights."""
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
    """Add to the three counts that contain a label of particle s."""
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
    Gibbs sweeps over the tokens so far. The stages do not depend on the particles, so the exponential of the returned
    value is unbiased. The priors hold β_k in each row and α_f in each column. Counts (0 at first) and labels each hold
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


@kernel
def bridge_island(
    tokens: Places,
    concentrations: tuple[Floats, Floats],
    anchors: tuple[Floats, Floats],
    strengths: Floats,
    n_moves: int,
    words: Words,
    particles: LabelCounts,
    labels: Numbers,
    log_weights: Floats,
) -> tuple[float, int]:
    """``log Z_0 + sum over stages of log mean weight``, without the last stage, and the set of its particles.

    The stages are the model with priors Dirichlet(α + c A_.k) and Dirichlet(β + c B_n.), where c takes the values
    ``strengths``, falling to 0. Before the first stage (c = ∞) labels are independent, with probabilities proportional
    to a_fk b_nk: the anchors A and B, with columns and rows that sum to 1. A stage weighs particles by the ratio of its
    p(X, labels) to that of the stage before, resamples them and moves them by collapsed Gibbs sweeps. The weights of
    the last stage are left in ``log_weights``. Counts (0 at first) and labels each hold two sets of particles.
    """
    (token_rows, token_features), (sample_counts, feature_counts, component_counts) = tokens, particles
    (activation_concentration, dictionary_concentration), (sample_anchor, feature_anchor) = concentrations, anchors
    n_particles, n_tokens = labels.shape[1], labels.shape[2]
    n_components = activation_concentration.size
    column_sums = feature_anchor.sum(axis=0)
    row_sums = sample_anchor.sum(axis=1)
    weights = np.empty(n_components)
    stream = new_stream()
    seek_row(stream, words, 0)
    result = 0.0
    for i in range(n_tokens):
        n, f = token_rows[i], token_features[i]
        for k in range(n_components):
            weights[k] = feature_anchor[f, k] / column_sums[k] * sample_anchor[n, k] / row_sums[n]
        total = sum_of(weights)
        result += math.log(total)
        for s in range(n_particles):
            k = categorical(stream, weights, total)
            labels[0, s, i] = k
            sample_counts[0, s, n, k] += 1
            feature_counts[0, s, f, k] += 1
            component_counts[0, s, k] += 1
    now = 0
    whole = dictionary_concentration.sum()
    sample_prior, feature_prior = np.empty_like(sample_anchor), np.empty_like(feature_anchor)
    component_prior = np.empty(n_components)
    priors = sample_prior, feature_prior, component_prior
    for stage in range(strengths.size):
        for s in range(n_particles):
            particle = sample_counts[now, s], feature_counts[now, s], component_counts[now, s]
            if stage == 0:
                before = _log_independent(particle, sample_anchor, feature_anchor, row_sums, column_sums)
            else:
                before = _log_labels(particle, priors)
            log_weights[s] = -before
        strength = strengths[stage]
        for n in range(sample_prior.shape[0]):
            for k in range(n_components):
                sample_prior[n, k] = activation_concentration[k] + strength * sample_anchor[n, k]
        for f in range(feature_prior.shape[0]):
            for k in range(n_components):
                feature_prior[f, k] = dictionary_concentration[f] + strength * feature_anchor[f, k]
        for k in range(n_components):
            component_prior[k] = whole + strength * column_sums[k]
        for s in range(n_particles):
            particle = sample_counts[now, s], feature_counts[now, s], component_counts[now, s]
            log_weights[s] += _log_labels(particle, priors)
        if stage == strengths.size - 1:
            break
        log_mean = log_mean_weight(log_weights)
        result += log_mean
        now = resample(stream, log_weights, log_mean, n_tokens, now, particles, labels)
        counts = sample_counts[now], feature_counts[now], component_counts[now]
        move(stream, tokens, n_tokens, n_moves, priors, counts, labels[now])
    return result, now


@inner_kernel
def _log_independent(
    counts: LabelCounts, sample_anchor: Floats, feature_anchor: Floats, row_sums: Floats, column_sums: Floats
) -> float:
    """``(S_n+k * log(B / B_n+)).sum() + (S_+fk * log(A / A_+k)).sum()``: labels for c = ∞."""
    sample_counts, feature_counts, component_counts = counts
    total = 0.0
    for n in range(sample_anchor.shape[0]):
        for k in range(column_sums.size):
            total += sample_counts[n, k] * math.log(sample_anchor[n, k] / row_sums[n])
    for f in range(feature_anchor.shape[0]):
        for k in range(column_sums.size):
            total += feature_counts[f, k] * math.log(feature_anchor[f, k])
    for k in range(column_sums.size):
        total -= component_counts[k] * math.log(column_sums[k])
    return total


@inner_kernel
def _log_labels(counts: LabelCounts, priors: Priors) -> float:
    """Log p(X, labels) of ordered tokens: Dirichlet-multinomial in the rows, and in the components."""
    sample_counts, feature_counts, component_counts = counts
    sample_prior, feature_prior, component_prior = priors
    total = 0.0
    for n in range(sample_prior.shape[0]):
        length, mass = 0, 0.0
        for k in range(component_prior.size):
            mass += sample_prior[n, k]
            length += sample_counts[n, k]
            if sample_counts[n, k] > 0:
                total += log_gamma_difference(sample_prior[n, k], float(sample_counts[n, k]))
        total -= log_gamma_difference(mass, float(length))
    for f in range(feature_prior.shape[0]):
        for k in range(component_prior.size):
            if feature_counts[f, k] > 0:
                total += log_gamma_difference(feature_prior[f, k], float(feature_counts[f, k]))
    for k in range(component_prior.size):
        total -= log_gamma_difference(component_prior[k], float(component_counts[k]))
    return total


@kernel
def log_permanent(logs: Floats) -> float:
    """``logsumexp([logs[range(n), order].sum() for order in permutations(range(n))])``, 0 for n = 0.

    Goes through subsets of the columns, each with the sum over all ways to give its columns to the first rows: n 2^n
    steps.
    """
    n = logs.shape[0]
    sums = np.full(1 << n, -math.inf)
    sums[0] = 0.0
    for taken in range(1, 1 << n):
        row = -1
        for j in range(n):
            row += (taken >> j) & 1
        top = -math.inf
        for j in range(n):
            if (taken >> j) & 1:
                top = max(top, sums[taken ^ (1 << j)] + logs[row, j])
        if top > -math.inf:
            total = 0.0
            for j in range(n):
                if (taken >> j) & 1:
                    total += math.exp(sums[taken ^ (1 << j)] + logs[row, j] - top)
            sums[taken] = top + math.log(total)
    return float(sums[-1])
