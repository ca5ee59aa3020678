"""Likelihood by draws of activations: from the prior, from the posterior, and along a path between the two."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.categories import multinomial
from partwise.kernels.continuous import gamma, log_dirichlet, log_gamma_variate
from partwise.kernels.jit import kernel
from partwise.kernels.streams import Stream, new_stream, seek

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@kernel
def gather_row(
    indices: NDArray[np.int32], dictionary: Floats, scale: Floats, first: int, size: int, token_weights: Floats
) -> None:
    """``token_weights[:size] = dictionary[indices[first : first + size]] * scale``."""
    for p in range(size):
        for k in range(scale.size):
            token_weights[p, k] = dictionary[indices[first + p], k] * scale[k]


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
        total = 0.0
        for k in range(n_components):
            weights[k] = token_weights[p, k] * point[k]
            total += weights[k]
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
    """``out[n, s] = X[n] @ log(dictionary @ h) - exposure @ h``, h drawn from the prior (L2R, Eq. 9)."""
    n_components = shape.size
    token_weights = np.empty((widest_row(indptr, start, stop), n_components))
    point = np.empty(n_components)
    ones = np.ones(n_components)
    stream = new_stream()
    for n in range(start, stop):
        first = indptr[n]
        size = indptr[n + 1] - first
        scale = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        gather_row(indices, dictionary, ones, first, size, token_weights)
        seek(stream, seed, stage_chain, iteration, n)
        for s in range(out.shape[1]):
            expected = 0.0
            for k in range(n_components):
                # A shape far below 1 makes most draws vanish; the smallest number keeps their logarithm finite.
                point[k] = max(math.exp(log_gamma_variate(stream, shape[k])) / rate[k], 1e-300)
                expected += point[k] * (1.0 / scale[k] - rate[k])
            out[n, s] = log_product(values, first, size, token_weights, point) - expected


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
    ones = np.ones(n_components)
    stream = new_stream()
    for n in range(start, stop):
        first = indptr[n]
        size = indptr[n + 1] - first
        scale = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        gather_row(indices, dictionary, ones, first, size, token_weights)
        seek(stream, seed, stage_chain, iteration, n)
        for k in range(n_components):
            point[k] = shape[k] / rate[k]
        for s in range(-burn_in, out.shape[1]):
            allocate(stream, values, first, size, token_weights, point, weights, drawn, totals)
            expected = 0.0
            for k in range(n_components):
                point[k] = max(gamma(stream, shape[k] + totals[k]) * scale[k], 1e-300)
                expected += point[k] * (1.0 / scale[k] - rate[k])
            if s >= 0:
                out[n, s] = log_product(values, first, size, token_weights, point) - expected


@kernel
def annealed_draws(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    dictionary: Floats,
    inverse_rates: Floats,
    shape: Floats,
    n_temperatures: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out[n, s]``: log weight of an annealed run for E prod_f (q_f . θ)^x_f, θ ~ Dirichlet(shape) (Neal 2001).

    Inverse temperature b has q_f^b m_f^(1 - b) in place of q_f, with m_f the largest of q_f, so the path begins at the
    prior; moves are Gibbs draws of the allocations of all tokens, then of θ. Where q_fk = 0, the path keeps 1e-12 m_f
    until its last step.
    """
    n_components = shape.size
    n_draws = out.shape[1]
    widest = widest_row(indptr, start, stop)
    token_weights = np.empty((widest, n_components))
    tempered = np.empty((widest, n_components))
    points = np.empty((n_draws, n_components))
    logs = np.empty(n_components)
    weights = np.empty(n_components)
    totals = np.empty(n_components)
    drawn = np.empty(n_components, np.int64)
    stream = new_stream()
    for n in range(start, stop):
        first = indptr[n]
        size = indptr[n + 1] - first
        gather_row(indices, dictionary, inverse_rates[min(n, inverse_rates.shape[0] - 1)], first, size, token_weights)
        seek(stream, seed, stage_chain, iteration, n)
        log_start = 0.0
        for p in range(size):
            largest = token_weights[p].max()
            log_start += values[first + p] * math.log(largest)
            for k in range(n_components):
                token_weights[p, k] /= largest
                tempered[p, k] = 1.0
        for s in range(n_draws):
            out[n, s] = log_start
            log_dirichlet(stream, shape, logs)
            for k in range(n_components):
                points[s, k] = math.exp(logs[k])
        for t in range(1, n_temperatures + 1):
            power = t / n_temperatures
            for s in range(n_draws):
                out[n, s] -= log_product(values, first, size, tempered, points[s])
            for p in range(size):
                for k in range(n_components):
                    weight = token_weights[p, k]
                    tempered[p, k] = weight if t == n_temperatures else max(weight, 1e-12) ** power
            for s in range(n_draws):
                out[n, s] += log_product(values, first, size, tempered, points[s])
                if t == n_temperatures:
                    continue
                allocate(stream, values, first, size, tempered, points[s], weights, drawn, totals)
                for k in range(n_components):
                    totals[k] += shape[k]
                log_dirichlet(stream, totals, logs)
                for k in range(n_components):
                    points[s, k] = math.exp(logs[k])
