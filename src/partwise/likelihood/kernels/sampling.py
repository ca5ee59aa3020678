"""Likelihood by draws of activations, from the prior and from the posterior."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.categories import categorical, multinomial
from partwise.kernels.continuous import gamma
from partwise.kernels.jit import kernel
from partwise.kernels.streams import Stream, new_stream, seek

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Activations of components without tokens underflow where shapes are tiny; they must not vanish from Gibbs sampling.
SMALLEST = 1e-300


@kernel
def gather_weights(indices: NDArray[np.int32], dictionary: Floats, first: int, size: int, out: Floats) -> None:
    """``out[:size] = dictionary[indices[first : first + size]]``."""
    for p in range(size):
        for k in range(dictionary.shape[1]):
            out[p, k] = dictionary[indices[first + p], k]


@kernel
def widest_row(indptr: NDArray[np.int64], start: int, stop: int) -> int:
    """``np.diff(indptr[start : stop + 1]).max()``."""
    widest = 0
    for n in range(start, stop):
        widest = max(widest, indptr[n + 1] - indptr[n])
    return widest


@kernel
def log_product(values: NDArray[Any], first: int, size: int, token_weights: Floats, point: Floats) -> float:
    """``values[first : first + size] @ np.log(token_weights[:size] @ point)``."""
    total = 0.0
    for p in range(size):
        rate = 0.0
        for k in range(point.size):
            rate += token_weights[p, k] * point[k]
        total += values[first + p] * math.log(rate)
    return total


@kernel
def allocate(
    stream: Stream,
    values: NDArray[Any],
    first: int,
    size: int,
    token_weights: Floats,
    point: Floats,
    weights: Floats,
    drawn: Counts,
    totals: Floats,
) -> None:
    """``totals = sum(rng.multinomial(x, normalise(w * point)) for x, w in cells)``: a draw of the allocation totals."""
    n_components = point.size
    for k in range(n_components):
        totals[k] = 0.0
    for p in range(size):
        for k in range(n_components):
            weights[k] = token_weights[p, k] * point[k]
        # In a loop of its own, as all sums are: in one that stores, their order may depend on the arrays' addresses.
        total = 0.0
        for k in range(n_components):
            total += weights[k]
        if values[first + p] == 1:  # most cells are: the same draw without a loop over components
            totals[categorical(stream, weights, total)] += 1.0
            continue
        multinomial(stream, values[first + p], weights, total, drawn)
        for k in range(n_components):
            totals[k] += drawn[k]


@kernel
def prior_draws(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    dictionary: Floats,
    inverse_rates: Floats,
    shape: Floats,
    rate: Floats,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out[n, s] = X[n] @ log(dictionary @ h) - exposure @ h``, h drawn from the prior (L2R, Eq. 9).

    -inf where tiny shapes make activations underflow that would have to explain a count.
    """
    n_components = shape.size
    token_weights = np.empty((widest_row(indptr, start, stop), n_components))
    point = np.empty(n_components)
    stream = new_stream()
    for n in range(start, stop):
        first = indptr[n]
        size = indptr[n + 1] - first
        scale = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        gather_weights(indices, dictionary, first, size, token_weights)
        seek(stream, seed, stage_chain, iteration, n)
        for s in range(out.shape[1]):
            expected = 0.0
            for k in range(n_components):
                point[k] = gamma(stream, shape[k]) / rate[k]
                expected += point[k] * (1.0 / scale[k] - rate[k])
            out[n - start, s] = log_product(values, first, size, token_weights, point) - expected


@kernel
def posterior_draws(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    dictionary: Floats,
    inverse_rates: Floats,
    shape: Floats,
    rate: Floats,
    burn_in: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """As `prior_draws`, with h from a Gibbs chain on the posterior, after ``burn_in`` sweeps (L2R, Eq. 15 and 16)."""
    n_components = shape.size
    token_weights = np.empty((widest_row(indptr, start, stop), n_components))
    point = np.empty(n_components)
    weights = np.empty(n_components)
    totals = np.empty(n_components)
    drawn = np.empty(n_components, np.int64)
    stream = new_stream()
    for n in range(start, stop):
        first = indptr[n]
        size = indptr[n + 1] - first
        scale = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        gather_weights(indices, dictionary, first, size, token_weights)
        seek(stream, seed, stage_chain, iteration, n)
        for k in range(n_components):
            point[k] = shape[k] / rate[k]
        for s in range(-burn_in, out.shape[1]):
            allocate(stream, values, first, size, token_weights, point, weights, drawn, totals)
            expected = 0.0
            for k in range(n_components):
                point[k] = max(gamma(stream, shape[k] + totals[k]) * scale[k], SMALLEST)
                expected += point[k] * (1.0 / scale[k] - rate[k])
            if s >= 0:
                out[n - start, s] = log_product(values, first, size, token_weights, point) - expected
