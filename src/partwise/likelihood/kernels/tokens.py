"""Tokens of a row: their order, where they are expected to belong, and the particles that take them."""

import math

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.jit import inner_kernel, kernel
from partwise.kernels.streams import Stream, next_uniform
from partwise.likelihood.kernels.lanes import Labels, Places
from partwise.likelihood.kernels.mode import Mode, find_mode, narrowness
from partwise.likelihood.kernels.rows import Floats, Integers, OpenRow, RowBuffers

# An order of the tokens in which every stretch of a document looks like the whole.

_GOLDEN = 0.6180339887498949


@inner_kernel
def in_turn(counts: Integers, n_features: int, out: Integers | NDArray[np.int32]) -> None:
    """``out = np.repeat(np.arange(n_features), counts)``: good enough for short documents."""
    token = 0
    for f in range(n_features):
        for _ in range(counts[f]):
            out[token] = f
            token += 1


@inner_kernel
def _kind(weights: Floats, f: int, n_components: int) -> float:
    """A number that is close for similar features: the strongest component, then the weight of the others."""
    best = 0
    sharpness = 0.0
    for k in range(n_components):
        sharpness += weights[f, k]
        if weights[f, k] > weights[f, best]:
            best = k
    return best * (n_components + 1.0) + sharpness


@kernel
def interleave(
    weights: Floats, counts: Integers, n_features: int, n_components: int, first: int, out: Integers
) -> None:
    """``out[first:] = sorted(tokens, key=place)``: the i-th token of feature f has its place at (i + offset_f) / x_f.

    The feature of rank r by kind is offset by the fractional part of r times the golden ratio. So similar features are
    spread apart, even if each has a single token. Sorting takes far less time than one step of the lattice per token.
    """
    kinds, ranked = np.empty(n_features), np.empty(n_features, np.int64)
    for f in range(n_features):
        kind = _kind(weights, f, n_components)
        i = f
        while i > 0 and kinds[i - 1] > kind:
            kinds[i] = kinds[i - 1]
            ranked[i] = ranked[i - 1]
            i -= 1
        kinds[i] = kind
        ranked[i] = f
    n_tokens = 0
    places, left = np.empty(n_features), np.empty(n_features, np.int64)
    for rank in range(n_features):
        f = ranked[rank]
        left[f] = counts[f]
        n_tokens += counts[f]
        places[f] = ((rank + 0.5) * _GOLDEN) % 1.0 / counts[f] if counts[f] > 0 else math.inf
    for token in range(first, first + n_tokens):
        best = 0
        for f in range(1, n_features):
            if places[f] < places[best]:
                best = f
        out[token] = best
        left[best] -= 1
        places[best] = places[best] + 1.0 / counts[best] if left[best] > 0 else math.inf


# Where the tokens of a row are expected to belong, and how far that can be trusted.

# Found by search over three very different corpora: 5 tokens at K = 5, 90 at K = 5, 1,400 at K = 50.
_TRUST = 1.75
_MOST_TRUST = 0.7
# A start may be this many times narrower than the posterior, in variance, in its worst direction. If columns of the
# dictionary are nearly dependent, or shapes are tiny, particles do not recover what a narrower start leaves out: all
# estimates are too low, and agree. Few components need little guidance, so they take little risk.
# Documents of real corpora have 1 to 1.5 at K = 5 and 1.5 to 3 at K = 50.
_MOST_NARROWNESS = 1.1
_GUIDED_COMPONENTS = 6
_MORE_NARROWNESS = 0.015  # for each component beyond these
_LIMIT_OF_NARROWNESS = 4.0
_NARROWNESS_ROUNDS = 12
_MOST_CUTS = 6


@inner_kernel
def information(row: RowBuffers, size: OpenRow, mode: Mode) -> float:
    """``(counts @ ((r - p)**2).sum(1)) / (counts @ (1 - 2 * r @ p + p @ p))`` with r allocations, p shares at the mode.

    How much tokens tell about the mixing proportions, as a share of what they would tell with known allocations.
    """
    n_components = size.n_components
    square = 0.0
    for k in range(n_components):
        square += mode.shares[k] * mode.shares[k]
    known, told = 0.0, 0.0
    for f in range(size.n_features):
        product, length = 0.0, 0.0
        for k in range(n_components):
            product += mode.allocated[f, k] * mode.shares[k]
            length += mode.allocated[f, k] * mode.allocated[f, k]
        known += row.counts[f] * (1.0 - 2.0 * product + square)
        told += row.counts[f] * (length - 2.0 * product + square)
    return told / known if known > 0.0 else 0.0


@inner_kernel
def look_ahead(
    row: RowBuffers, size: OpenRow, shapes: Floats, lookahead: float, mode: Mode, totals: Floats, out: Floats
) -> None:
    """``out = lookahead * r**1.5``: the weight of a token still to come, with r its allocation at the posterior mode.

    If ``lookahead`` is negative, one that suits the row is chosen. The power reduces uncertain allocations more than
    certain ones. A Dirichlet distribution that treats all expected allocations as certain is narrower than the
    posterior, and a start that is too narrow costs more than one that is too broad. ``shapes`` are those of the start;
    ``totals`` is a buffer.
    """
    n_open = size.n_components
    if lookahead == 0.0:
        for f in range(size.n_features):
            for k in range(n_open):
                out[f, k] = 0.0
        return
    find_mode(row, size, shapes, mode)
    for k in range(n_open):
        totals[k] = 0.0
    for f in range(size.n_features):
        for k in range(n_open):
            out[f, k] = mode.allocated[f, k] * math.sqrt(mode.allocated[f, k])
            totals[k] += row.counts[f] * out[f, k]
    if lookahead < 0.0:
        lookahead = min(_TRUST * information(row, size, mode), _MOST_TRUST)
        most = min(_MOST_NARROWNESS + _MORE_NARROWNESS * max(n_open - _GUIDED_COMPONENTS, 0), _LIMIT_OF_NARROWNESS)
        for k in range(n_open):
            totals[k] *= lookahead
        for _ in range(_MOST_CUTS):
            narrow, of_shapes, of_ahead = narrowness(n_open, shapes, totals, mode, _NARROWNESS_ROUNDS)
            if narrow <= most:
                break
            cut = min(max(most - of_shapes, 0.0) / of_ahead, 0.9)
            lookahead *= cut
            for k in range(n_open):
                totals[k] *= cut
    for f in range(size.n_features):
        for k in range(n_open):
            out[f, k] *= lookahead


# Parts of a particle filter: the order of the tokens, weights, and resampling.

# Its powers make good lattice rules of 32 to 1,024 points, and repeat after a quarter of these.
_KOROBOV = np.uint64(27)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@inner_kernel
def spread_tokens(
    stream: Stream, counts: Integers, n_features: int, n_tokens: int, places: Places, starts: Places, out: Places
) -> None:
    """``out = sorted(tokens, key=lambda f, i: (i + offset[f]) / counts[f])``: each feature is evenly spread.

    The offsets are random, so for features with one token all orders are equally likely. This is a counting sort with
    one place per token.
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
