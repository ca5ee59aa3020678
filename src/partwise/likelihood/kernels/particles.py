"""Parts of a particle filter: the order of the tokens, weights, and resampling."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.inner import inner_kernel
from partwise.kernels.streams import Stream, next_uniform
from partwise.likelihood.kernels.lanes import Labels, Places
from partwise.likelihood.kernels.rows import Floats, Integers

# Its powers make good lattice rules of 32 to 1,024 points, and repeat after a quarter of these.
_KOROBOV = np.uint64(27)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@inner_kernel
def spread_tokens(
    stream: Stream, counts: Integers, n_features: int, n_tokens: int, places: Places, starts: Places, out: Places
) -> None:
    """``out = sorted(tokens, key=lambda f, i: (i + offset[f]) / counts[f])``: each feature is evenly spread.

    The offsets are random, so all orders have the same chance for features of one token. Sorted by counting, in as many
    places as there are tokens.
    """
    for place in range(n_tokens + 1):
        starts[place] = 0
    token = 0
    for f in range(n_features):
        offset = next_uniform(stream)
        for i in range(counts[f]):
            places[token] = min(int((i + offset) / counts[f] * n_tokens), n_tokens - 1)
            starts[places[token] + 1] += 1
            token += 1
    for place in range(n_tokens):
        starts[place + 1] += starts[place]
    token = 0
    for f in range(n_features):
        for _ in range(counts[f]):
            out[starts[places[token]]] = f
            starts[places[token]] += 1
            token += 1


@inner_kernel
def lattice_multiplier(i: int, n_particles: int) -> np.uint64:
    """``27**i`` for the first tokens, whose draws then are a lattice rule in all of them together, else 0."""
    multiplier = _ONE if 4 * i < n_particles else _ZERO
    for _ in range(min(i, n_particles)):
        multiplier *= _KOROBOV
    return multiplier


@inner_kernel
def log_mean_weight(log_weights: Floats, first: int, size: int) -> tuple[float, float]:
    """``w = log_weights[first : first + size]; logsumexp(w) - log(size)``, and the effective sample size."""
    top = -math.inf
    for s in range(first, first + size):
        top = max(top, log_weights[s])
    total, squares = 0.0, 0.0
    for s in range(first, first + size):
        weight = math.exp(log_weights[s] - top)
        total += weight
        squares += weight * weight
    return top + math.log(total / size), total * total / squares


@inner_kernel
def choose_parents(stream: Stream, log_weights: Floats, log_mean: float, first: int, size: int, out: Integers) -> None:
    """``out = np.searchsorted(np.cumsum(np.exp(log_weights - log_mean)), np.arange(size) + rng.random(), "right")``.

    Systematic resampling: a lane has as many children as its weight over the mean, rounded up or down.
    """
    place = next_uniform(stream)
    parent = first
    reached = math.exp(log_weights[parent] - log_mean)
    for s in range(size):
        while reached <= place + s and parent < first + size - 1:
            parent += 1
            reached += math.exp(log_weights[parent] - log_mean)
        out[first + s] = parent


@inner_kernel
def copy_lanes(
    parents: Integers, n_components: int, n_tokens: int, rests: Floats, copied: Labels, counts: Floats, labels: Labels
) -> None:
    """``counts[:] = counts[:, parents]; labels[:n_tokens] = labels[:n_tokens, parents]``."""
    n_lanes = parents.size
    for k in range(n_components):
        for s in range(n_lanes):
            rests[s] = counts[k, parents[s]]
        for s in range(n_lanes):
            counts[k, s] = rests[s]
    for i in range(n_tokens):
        for s in range(n_lanes):
            copied[s] = labels[i, parents[s]]
        for s in range(n_lanes):
            labels[i, s] = copied[s]
