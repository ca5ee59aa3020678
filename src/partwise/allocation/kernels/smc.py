"""Sequential Monte Carlo over all tokens of a matrix: particles are allocations of the tokens so far."""

from __future__ import annotations

import math

import numpy as np

from partwise.allocation.kernels.particles import draw_component, log_mean_weight, move, resample
from partwise.kernels.arrays import Counts, Floats, Indices, Numbers, Starts, Word
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, seek


@kernel
def smc_island(
    token_rows: Indices,
    token_features: Indices,
    sample_prior: Floats,
    feature_prior: Floats,
    stages: Starts,
    n_moves: int,
    seed: Word,
    stage_chain: Word,
    island: Word,
    sample_counts: Counts,
    feature_counts: Counts,
    component_counts: Counts,
    labels: Numbers,
) -> float:
    """``log E[prod_i u_i]``, u_i = Σ_k (α_f + S_fk) / (α_+ + S_k) * (β_k + S_nk) / (β_+ + S_n), counts so far.

    After each of the ``stages`` (numbers of tokens, the last being all) particles are resampled and moved by collapsed
    Gibbs sweeps over the tokens so far. When that happens does not depend on the particles, so the exponential of what
    is returned is unbiased. The priors hold β_k in each row and α_f in each column; counts, 0 at first, and labels are
    two sets of particles.
    """
    n_particles = labels.shape[1]
    component_prior = feature_prior.sum(axis=0)
    spread = sample_prior[0].sum()
    lengths = np.zeros(sample_prior.shape[0], np.int64)
    weights = np.empty(component_prior.size)
    log_weights = np.zeros(n_particles)
    stream = new_stream()
    seek(stream, seed, stage_chain, island, 0)
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
            particles = sample_counts, feature_counts, component_counts
            now = resample(stream, log_weights, log_mean, last, now, particles, labels)
            counts = sample_counts[now], feature_counts[now], component_counts[now]
            move(stream, token_rows, token_features, last, n_moves, priors, counts, labels[now])
    return result
