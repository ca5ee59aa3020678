"""Kernels of Gamma-Poisson factorization over one block of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.categories import categorical, multinomial
from partwise.kernels.continuous import gamma
from partwise.kernels.discrete import poisson
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, seek

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Gamma draws of tiny shapes underflow; a positive number keeps every weight of a cell from vanishing.
_SMALLEST_ACTIVATION = 1e-200


@kernel
def draw_activations(
    sample_counts: Floats,
    shape: Floats,
    inverse_rates: Floats,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out = rng.gamma(shape + sample_counts) * inverse_rates``: activations given allocation totals."""
    stream = new_stream()
    for n in range(start, stop):
        seek(stream, seed, stage_chain, iteration, n)
        inverse = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        for k in range(shape.size):
            draw = gamma(stream, shape[k] + sample_counts[n, k]) * inverse[k]
            out[n, k] = max(draw, _SMALLEST_ACTIVATION)


@kernel
def draw_allocations(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    activations: Floats,
    dictionary: Floats,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    sample_counts: Floats,
    feature_counts: Floats,
) -> None:
    """``c[n, f] = rng.multinomial(X[n, f], normalise(activations[n] * dictionary[f]))``, summed over f and over n.

    ``sample_counts[n]`` is set to the sum over features, ``feature_counts[f]`` grows by that over the block's rows.
    """
    n_components = dictionary.shape[1]
    # Up to about here drawing token by token is faster than a multinomial, which visits all components.
    most_single = 8 + n_components // 2
    weights = np.empty(n_components)
    drawn = np.empty(n_components, np.int64)
    stream = new_stream()
    for n in range(start, stop):
        seek(stream, seed, stage_chain, iteration, n)
        row = activations[n]
        counts = sample_counts[n]
        for k in range(n_components):
            counts[k] = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            total = 0.0
            for k in range(n_components):
                weights[k] = row[k] * dictionary[f, k]
                total += weights[k]
            count = values[p]
            if count <= most_single:
                for _ in range(count):
                    k = categorical(stream, weights, total)
                    counts[k] += 1.0
                    feature_counts[f, k] += 1.0
            else:
                multinomial(stream, count, weights, total, drawn)
                for k in range(n_components):
                    counts[k] += drawn[k]
                    feature_counts[f, k] += drawn[k]


@kernel
def draw_missing(
    missing_indptr: NDArray[np.int64],
    missing_indices: NDArray[np.int32],
    activations: Floats,
    dictionary: Floats,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    sample_counts: Floats,
    feature_counts: Floats,
) -> None:
    """``c[n, f] = rng.poisson(activations[n] * dictionary[f])`` in the missing cells, added to both sums."""
    stream = new_stream()
    for n in range(start, stop):
        seek(stream, seed, stage_chain, iteration, n)
        for p in range(missing_indptr[n], missing_indptr[n + 1]):
            f = missing_indices[p]
            for k in range(dictionary.shape[1]):
                count = poisson(stream, activations[n, k] * dictionary[f, k])
                sample_counts[n, k] += count
                feature_counts[f, k] += count


@kernel
def draw_dictionary(
    feature_counts: Floats,
    concentration: float,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out = rng.gamma(concentration + feature_counts)``: Dirichlet draws, up to the sums of their columns."""
    stream = new_stream()
    for f in range(start, stop):
        seek(stream, seed, stage_chain, iteration, f)
        for k in range(out.shape[1]):
            out[f, k] = max(gamma(stream, concentration + feature_counts[f, k]), _SMALLEST_ACTIVATION)


@kernel
def posterior_mean_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    dictionary: Floats,
    inverse_rates: Floats,
    shape: Floats,
    burn_in: int,
    n_draws: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out[n] = (shape + mean over draws of E[c_n+k | h]) * inverse_rates``: posterior mean of activations by Gibbs.

    All rows use the same stream, so that a row's result does not depend on where in a batch it stands.
    """
    n_components = shape.size
    weights = np.empty(n_components)
    point = np.empty(n_components)
    counts = np.empty(n_components)
    expected = np.empty(n_components)
    drawn = np.empty(n_components, np.int64)
    stream = new_stream()
    for n in range(start, stop):
        seek(stream, seed, stage_chain, np.uint64(0), 0)
        inverse = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        length = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            length += values[p]
        for k in range(n_components):
            counts[k] = length / n_components
            out[n, k] = 0.0
        for s in range(-burn_in, n_draws):
            for k in range(n_components):
                point[k] = max(gamma(stream, shape[k] + counts[k]) * inverse[k], _SMALLEST_ACTIVATION)
                counts[k] = 0.0
                expected[k] = 0.0
            for p in range(indptr[n], indptr[n + 1]):
                column = dictionary[indices[p]]
                total = 0.0
                for k in range(n_components):
                    weights[k] = point[k] * column[k]
                    total += weights[k]
                share = values[p] / total
                multinomial(stream, values[p], weights, total, drawn)
                for k in range(n_components):
                    expected[k] += share * weights[k]
                    counts[k] += drawn[k]
            if s >= 0:
                for k in range(n_components):
                    out[n, k] += expected[k]
        for k in range(n_components):
            out[n, k] = (shape[k] + out[n, k] / n_draws) * inverse[k]
