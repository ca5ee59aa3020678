"""Sequential Monte Carlo over the tokens of a row, with look-ahead to the tokens that are still to come."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.categories import categorical
from partwise.kernels.jit import kernel
from partwise.kernels.streams import Stream, new_stream, next_uniform, seek
from partwise.likelihood.kernels.variational import variational_counts

Floats = NDArray[np.float64]
Tokens = NDArray[np.int32]


@kernel
def shuffled_tokens(stream: Stream, values: NDArray[Any], tokens: Tokens) -> None:
    """``tokens[:] = rng.permutation(np.repeat(np.arange(len(values)), values))``: the cell of each token."""
    at = 0
    for p in range(values.size):
        for _ in range(values[p]):
            tokens[at] = p
            at += 1
    for i in range(tokens.size - 1, 0, -1):
        j = int(next_uniform(stream) * (i + 1))
        tokens[i], tokens[j] = tokens[j], tokens[i]


@kernel
def _log_gammas(concentration: Floats) -> float:
    total = 0.0
    for k in range(concentration.size):
        total += math.lgamma(concentration[k])
    return total


@kernel
def _extend(
    stream: Stream,
    tokens: Tokens,
    first: int,
    last: int,
    token_weights: Floats,
    expected: Floats,
    lookahead: float,
    shape: Floats,
    weights: Floats,
    concentration: Floats,
    labels: Tokens,
) -> float:
    """Draw the labels of tokens ``first`` to ``last`` of a particle; returns the log weight but for gamma functions."""
    n_components = shape.size
    log_weight = 0.0
    for i in range(first, last):
        p = tokens[i]
        total = 0.0
        for k in range(n_components):
            # The expected allocation of this token makes way for a real one.
            concentration[k] = max(concentration[k] - lookahead * expected[p, k], shape[k])
            weights[k] = token_weights[p, k] * concentration[k]
            total += weights[k]
        k = categorical(stream, weights, total)
        log_weight += math.log(total / concentration[k])
        concentration[k] += 1.0
        labels[i] = k
    return log_weight


@kernel
def _sweep(
    stream: Stream,
    tokens: Tokens,
    last: int,
    token_weights: Floats,
    weights: Floats,
    concentration: Floats,
    labels: Tokens,
) -> None:
    """One collapsed Gibbs sweep over the labels of the first ``last`` tokens of a particle."""
    n_components = weights.size
    for i in range(last):
        p = tokens[i]
        concentration[labels[i]] -= 1.0
        total = 0.0
        for k in range(n_components):
            weights[k] = token_weights[p, k] * concentration[k]
            total += weights[k]
        k = categorical(stream, weights, total)
        concentration[k] += 1.0
        labels[i] = k


@kernel
def _resample(
    stream: Stream,
    log_weights: Floats,
    top: float,
    total: float,
    n_labels: int,
    concentrations: Floats,
    labels: Tokens,
    new_concentrations: Floats,
    new_labels: Tokens,
) -> None:
    """Systematic resampling: particle s of the new ones is a copy of the one at quantile (s + u) / S of the weights."""
    n_particles = log_weights.size
    offset = next_uniform(stream)
    parent = -1
    reached = 0.0
    for s in range(n_particles):
        quantile = (s + offset) / n_particles * total
        while reached <= quantile and parent < n_particles - 1:
            parent += 1
            reached += math.exp(log_weights[parent] - top)
        new_concentrations[s] = concentrations[parent]
        new_labels[s, :n_labels] = labels[parent, :n_labels]


@kernel
def smc_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    dictionary: Floats,
    inverse_rates: Floats,
    shape: Floats,
    n_particles: int,
    n_stages: int,
    lookahead: float,
    resample_below: float,
    first_island: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    start: int,
    stop: int,
    out: Floats,
    ess: Floats,
) -> None:
    """``out[n, i] = log T[prod_f (q_f . y)^x_f]`` of each row, estimated by independent particle systems (islands) i.

    The target after t tokens is prod of their q times the Dirichlet-multinomial of their labels with concentration
    ``shape + lookahead * (expected allocations of the other tokens)``, so its first is known and its last is what is
    asked for; any expected allocations leave the estimate unbiased, good ones make its variance small.
    """
    n_components = shape.size
    longest, widest = 0, 0
    for n in range(start, stop):
        length = 0
        for p in range(indptr[n], indptr[n + 1]):
            length += values[p]
        longest = max(longest, length)
        widest = max(widest, indptr[n + 1] - indptr[n])
    token_weights = np.empty((widest, n_components))
    expected = np.empty((widest, n_components))
    expected_total = np.empty(n_components)
    weights = np.empty(n_components)
    tokens_buffer = np.empty(longest, np.int32)
    concentrations = np.empty((n_particles, n_components))
    new_concentrations = np.empty((n_particles, n_components))
    labels = np.empty((n_particles, longest), np.int32)
    new_labels = np.empty((n_particles, longest), np.int32)
    log_weights = np.empty(n_particles)
    log_gammas = np.empty(n_particles)
    stream = new_stream()
    for n in range(start, stop):
        first = indptr[n]
        size = indptr[n + 1] - first
        scale = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        length = 0
        for p in range(size):
            length += values[first + p]
            for k in range(n_components):
                token_weights[p, k] = dictionary[indices[first + p], k] * scale[k]
        tokens = tokens_buffer[:length]
        counts = values[first : first + size]
        if lookahead > 0.0:
            variational_counts(counts, token_weights[:size], shape, expected[:size], expected_total)
        else:
            expected[:size] = 0.0
            expected_total[:] = 0.0
        for island in range(out.shape[1]):
            seek(stream, seed, stage_chain, np.uint64(first_island + island), n)
            shuffled_tokens(stream, counts, tokens)
            log_z = 0.0
            for k in range(n_components):
                weights[k] = shape[k] + lookahead * expected_total[k]
                log_z -= math.lgamma(shape[k])
            log_z += _log_gammas(weights)
            for s in range(n_particles):
                concentrations[s] = weights
                log_weights[s] = 0.0
                log_gammas[s] = _log_gammas(weights)
            done = 0
            stages = min(length, n_stages)
            for stage in range(1, stages + 1):
                last = length * stage // stages
                top = -np.inf
                for s in range(n_particles):
                    gain = _extend(
                        stream,
                        tokens,
                        done,
                        last,
                        token_weights,
                        expected,
                        lookahead,
                        shape,
                        weights,
                        concentrations[s],
                        labels[s],
                    )
                    after = _log_gammas(concentrations[s])
                    log_weights[s] += gain + after - log_gammas[s]
                    log_gammas[s] = after
                    top = max(top, log_weights[s])
                done = last
                total, squares = 0.0, 0.0
                for s in range(n_particles):
                    weight = math.exp(log_weights[s] - top)
                    total += weight
                    squares += weight * weight
                ess[n, island] = total * total / squares
                if stage == stages or ess[n, island] > resample_below * n_particles:
                    continue
                log_z += top + math.log(total / n_particles)
                _resample(stream, log_weights, top, total, done, concentrations, labels, new_concentrations, new_labels)
                concentrations, new_concentrations = new_concentrations, concentrations
                labels, new_labels = new_labels, labels
                for s in range(n_particles):
                    log_weights[s] = 0.0
                    _sweep(stream, tokens, done, token_weights, weights, concentrations[s], labels[s])
                    log_gammas[s] = _log_gammas(concentrations[s])
            top = -np.inf
            for s in range(n_particles):
                top = max(top, log_weights[s])
            total = 0.0
            for s in range(n_particles):
                total += math.exp(log_weights[s] - top)
            out[n, island] = log_z + top + math.log(total / n_particles)
