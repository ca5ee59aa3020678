"""Sequential Monte Carlo over all tokens of a matrix: particles are allocations of the tokens so far."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.categories import categorical
from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.kernels.streams import Stream, new_stream, next_uniform, seek

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]


@inner_kernel
def _draw(
    stream: Stream,
    n: int,
    f: int,
    s: int,
    dictionary_concentration: Floats,
    whole: float,
    activation_concentration: Floats,
    sample_counts: Counts,
    feature_counts: Counts,
    component_counts: Counts,
    weights: Floats,
) -> tuple[int, float]:
    """A component for one token of particle s given its counts, which then hold it, and the sum of the weights."""
    for k in range(activation_concentration.size):
        weights[k] = (
            (dictionary_concentration[f] + feature_counts[s, f, k])
            / (whole + component_counts[s, k])
            * (activation_concentration[k] + sample_counts[s, n, k])
        )
    total = 0.0
    for k in range(activation_concentration.size):
        total += weights[k]
    k = categorical(stream, weights, total)
    sample_counts[s, n, k] += 1
    feature_counts[s, f, k] += 1
    component_counts[s, k] += 1
    return k, total


@kernel
def smc_island(
    token_rows: NDArray[np.int32],
    token_features: NDArray[np.int32],
    shape: tuple[int, int],
    dictionary_concentration: Floats,
    activation_concentration: Floats,
    n_particles: int,
    stages: NDArray[np.int64],
    n_moves: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    island: np.uint64,
    labels: NDArray[Any],
) -> float:
    """``log E[prod_i u_i]``, u_i = Σ_k (α_f + S_fk) / (α_+ + S_k) * (β_k + S_nk) / (β_+ + S_n), counts so far.

    After each of the ``stages`` (numbers of tokens, the last being all) particles are resampled and moved by collapsed
    Gibbs sweeps over the tokens so far. When that happens does not depend on the particles, so the exponential of what
    is returned is unbiased. ``labels`` is room for two sets of particles x tokens.
    """
    n_samples, n_features = shape
    n_components = activation_concentration.size
    whole, spread = 0.0, 0.0
    for f in range(n_features):
        whole += dictionary_concentration[f]
    for k in range(n_components):
        spread += activation_concentration[k]
    sample_counts = np.zeros((2, n_particles, n_samples, n_components), np.int32)
    feature_counts = np.zeros((2, n_particles, n_features, n_components), np.int32)
    component_counts = np.zeros((2, n_particles, n_components), np.int32)
    weights = np.empty(n_components)
    log_weights = np.zeros(n_particles)
    stream = new_stream()
    seek(stream, seed, stage_chain, island, 0)
    now = 0
    first = 0
    result = 0.0
    lengths = np.zeros(n_samples, np.int64)
    for stage in range(stages.size):
        last = stages[stage]
        by_sample, by_feature = sample_counts[now], feature_counts[now]
        by_component, own = component_counts[now], labels[now]
        for i in range(first, last):
            n, f = token_rows[i], token_features[i]
            for s in range(n_particles):
                k, total = _draw(
                    stream,
                    n,
                    f,
                    s,
                    dictionary_concentration,
                    whole,
                    activation_concentration,
                    by_sample,
                    by_feature,
                    by_component,
                    weights,
                )
                own[s, i] = k
                log_weights[s] += math.log(total / (spread + lengths[n]))
            lengths[n] += 1
        top = -math.inf
        for s in range(n_particles):
            top = max(top, log_weights[s])
        mean = 0.0
        for s in range(n_particles):
            mean += math.exp(log_weights[s] - top) / n_particles
        result += top + math.log(mean)
        first = last
        if stage == stages.size - 1:
            break
        # Systematic resampling into the other set of arrays.
        place = next_uniform(stream)
        parent = 0
        reached = math.exp(log_weights[0] - top) / mean
        other = 1 - now
        for s in range(n_particles):
            while reached <= place + s and parent < n_particles - 1:
                parent += 1
                reached += math.exp(log_weights[parent] - top) / mean
            sample_counts[other, s] = by_sample[parent]
            feature_counts[other, s] = by_feature[parent]
            component_counts[other, s] = by_component[parent]
            for i in range(last):
                labels[other, s, i] = own[parent, i]
        now = other
        by_sample, by_feature = sample_counts[now], feature_counts[now]
        by_component, own = component_counts[now], labels[now]
        for s in range(n_particles):
            log_weights[s] = 0.0
            for _ in range(n_moves):
                for i in range(last):
                    n, f = token_rows[i], token_features[i]
                    k = int(own[s, i])
                    by_sample[s, n, k] -= 1
                    by_feature[s, f, k] -= 1
                    by_component[s, k] -= 1
                    k, _total = _draw(
                        stream,
                        n,
                        f,
                        s,
                        dictionary_concentration,
                        whole,
                        activation_concentration,
                        by_sample,
                        by_feature,
                        by_component,
                        weights,
                    )
                    own[s, i] = k
    return result
