"""Annealed sequential Monte Carlo over all tokens at once: from independent labels to the allocation model."""

from __future__ import annotations

import math

import numpy as np

from partwise.allocation.kernels.particles import LabelCounts, Places, Priors, log_mean_weight, move, resample
from partwise.kernels.arrays import Floats, Numbers, Words
from partwise.kernels.categories import categorical
from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.jit import inner_kernel, kernel
from partwise.kernels.streams import new_stream, seek_row
from partwise.kernels.sums import sum_of


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

    The stages are the model with priors Dirichlet(α + c A_.k) and Dirichlet(β + c B_n.), c being ``strengths``, falling
    to 0; before them, as for c = ∞, labels are independent, with probabilities proportional to a_fk b_nk, the anchors
    A and B with columns and rows that sum to 1. A stage weighs particles by the ratio of its p(X, labels) to that of
    the stage before, resamples them and moves them by collapsed Gibbs sweeps. The weights of the last stage are left in
    ``log_weights``. Counts, 0 at first, and labels are two sets of particles.
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
    """Log p(X, labels) of tokens in order: Dirichlet-multinomial in the rows, and in the components."""
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

    By subsets of the columns, each having the sum over all ways in which the first rows can take them: n 2^n steps.
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
