"""Sweeps with the dictionary given: rows are independent, so they run in parallel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.kernels.collapsed import LANES, find_component, last_positive
from partwise.kernels.categories import categorical
from partwise.kernels.continuous import gamma
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, next_uniform, seek

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Counts = NDArray[np.int32]

# Gamma draws of tiny shapes underflow; a positive number keeps every weight of a token from vanishing.
_SMALLEST = 1e-30


@kernel
def draw_weights(
    feature_counts: Counts,
    concentration: Floats,
    n_components: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out = rng.gamma(concentration[:, None] + feature_counts)``: Dirichlet draws, up to the sums of columns."""
    stream = new_stream()
    for f in range(start, stop):
        seek(stream, seed, stage_chain, iteration, f)
        for k in range(n_components):
            out[f, k] = max(gamma(stream, concentration[f] + feature_counts[f, k]), _SMALLEST)


@kernel
def sweep_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    first_tokens: NDArray[np.int64],
    dictionary: Singles,
    activation_concentration: Floats,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    labels: NDArray[Any],
    sample_counts: Counts,
    feature_counts: Counts,
) -> None:
    """``k = rng.choice(K, p=normalise(w_fk * (β_k + S_nk)))`` for each token of each row, without the token itself.

    Labels and ``sample_counts`` change in place (a label of K stands for none yet); ``feature_counts`` grows by the
    new labels. The dictionary has zeros appended up to a multiple of ``LANES`` components, and is in single precision,
    of which a sweep reads twice as much in the same time; sums are in double precision.
    """
    n_components = activation_concentration.size
    n_padded = dictionary.shape[1]
    n_levels = n_padded // LANES
    shares = np.zeros(n_padded)
    weights = np.empty(n_padded)
    running = np.empty((n_levels, LANES))
    stream = new_stream()
    for n in range(start, stop):
        seek(stream, seed, stage_chain, iteration, n)
        for k in range(n_components):
            shares[k] = activation_concentration[k] + sample_counts[n, k]
        i = first_tokens[n]
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            row = dictionary[f]
            for _ in range(values[p]):
                old = int(labels[i])
                if old < n_components:
                    shares[old] -= 1.0
                a = b = c = d = e = g = h = o = 0.0
                for j in range(n_levels):
                    k = LANES * j
                    a += row[k] * shares[k]
                    b += row[k + 1] * shares[k + 1]
                    c += row[k + 2] * shares[k + 2]
                    d += row[k + 3] * shares[k + 3]
                    e += row[k + 4] * shares[k + 4]
                    g += row[k + 5] * shares[k + 5]
                    h += row[k + 6] * shares[k + 6]
                    o += row[k + 7] * shares[k + 7]
                    running[j, 0] = a
                    running[j, 1] = b
                    running[j, 2] = c
                    running[j, 3] = d
                    running[j, 4] = e
                    running[j, 5] = g
                    running[j, 6] = h
                    running[j, 7] = o
                total = ((a + b) + (c + d)) + ((e + g) + (h + o))
                new = find_component(running, n_levels, total, next_uniform(stream))
                if new < 0:
                    for k in range(n_components):
                        weights[k] = row[k] * shares[k]
                    new = last_positive(weights, n_components)
                shares[new] += 1.0
                labels[i] = new
                feature_counts[f, new] += 1
                i += 1
        # Not counted anew from the labels: counts may hold those of missing cells too, which have none.
        for k in range(n_components):
            sample_counts[n, k] = np.int32(shares[k] - activation_concentration[k] + 0.5)


@kernel
def mean_sample_counts(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    dictionary: Floats,
    activation_concentration: Floats,
    burn_in: int,
    n_draws: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out[n] = mean over draws of S_n+k``, by collapsed Gibbs sampling given the dictionary.

    Averages are of each token's probabilities, which have less noise than its draws. All rows use the same stream, so
    that a row's result does not depend on where in a batch it stands.
    """
    n_components = activation_concentration.size
    most = 0
    for n in range(start, stop):
        length = 0
        for p in range(indptr[n], indptr[n + 1]):
            length += values[p]
        most = max(most, length)
    labels = np.empty(most, np.uint32)
    shares = np.empty(n_components)
    weights = np.empty(n_components)
    stream = new_stream()
    for n in range(start, stop):
        seek(stream, seed, stage_chain, np.uint64(0), 0)
        for k in range(n_components):
            shares[k] = activation_concentration[k]
            out[n, k] = 0.0
        for s in range(-burn_in - 1, n_draws):
            i = 0
            for p in range(indptr[n], indptr[n + 1]):
                f = indices[p]
                for _ in range(values[p]):
                    if s >= -burn_in:  # the sweep before gives tokens their first labels
                        shares[labels[i]] -= 1.0
                    for k in range(n_components):
                        weights[k] = dictionary[f, k] * shares[k]
                    total = 0.0
                    for k in range(n_components):
                        total += weights[k]
                    if s >= 0:
                        scale = 1.0 / (total * n_draws)
                        for k in range(n_components):
                            out[n, k] += scale * weights[k]
                    new = categorical(stream, weights, total)
                    shares[new] += 1.0
                    labels[i] = new
                    i += 1
