"""Likelihood by draws of activations, from the prior and from the posterior."""

import math

import numpy as np

from partwise.kernels.categories import categorical, multinomial
from partwise.kernels.continuous import gamma
from partwise.kernels.jit import inner_kernel, kernel
from partwise.kernels.streams import Stream, new_stream, seek
from partwise.kernels.sums import longest_row
from partwise.likelihood.kernels.rows import Floats, Integers, RowModel, Words

# With tiny shapes, activations of components without tokens underflow; Gibbs sampling must not lose them.
SMALLEST = 1e-300


@inner_kernel
def begin_row(model: RowModel, n: int, words: Words, stream: Stream, out: Floats) -> tuple[int, int]:
    """Go to the stream of row n, and ``out[: stop - first] = dictionary[indices[first:stop]]``; returns first, stop."""
    first, stop = model.indptr[n], model.indptr[n + 1]
    for p in range(first, stop):
        for k in range(model.dictionary.shape[1]):
            out[p - first, k] = model.dictionary[model.indices[p], k]
    seek(stream, words[0], words[1], words[2], n)
    return first, stop


@kernel
def log_product(counts: Integers, token_weights: Floats, point: Floats) -> float:
    """``counts @ np.log(token_weights[:counts.size] @ point)``."""
    total = 0.0
    for p in range(counts.size):
        rate = 0.0
        for k in range(point.size):
            rate += token_weights[p, k] * point[k]
        total += counts[p] * math.log(rate)
    return total


@kernel
def allocate(
    stream: Stream,
    counts: Integers,
    token_weights: Floats,
    point: Floats,
    weights: Floats,
    drawn: Integers,
    totals: Floats,
) -> None:
    """``totals = sum(rng.multinomial(x, normalise(w * point)) for x, w in cells)``: a draw of the allocation totals."""
    n_components = point.size
    for k in range(n_components):
        totals[k] = 0.0
    for p in range(counts.size):
        for k in range(n_components):
            weights[k] = token_weights[p, k] * point[k]
        # In a separate loop, as all sums: in a loop that stores, their order may depend on the arrays' addresses.
        total = 0.0
        for k in range(n_components):
            total += weights[k]
        if counts[p] == 1:  # most cells are: the same draw without a loop over components
            totals[categorical(stream, weights, total)] += 1.0
            continue
        multinomial(stream, counts[p], weights, total, drawn)
        for k in range(n_components):
            totals[k] += drawn[k]


@kernel
def activation_draws(
    model: RowModel, given_counts: bool, burn_in: int, words: Words, start: int, stop: int, out: Floats
) -> None:
    """``out[n, s] = X[n] @ log(dictionary @ h) - exposure @ h`` for draws h of the activations.

    They come from the prior (L2R, Eq. 9). ``out`` is -inf if tiny shapes make the activations that have to explain a
    count underflow. With ``given_counts`` they come from a Gibbs chain on the posterior, after ``burn_in`` sweeps (L2R,
    Eq. 15 and 16), and ``out`` has the opposite sign, because the harmonic mean averages inverse likelihoods.
    """
    shape, rate = model.shape, model.rate
    n_components = shape.size
    token_weights = np.empty((longest_row(model.indptr, start, stop), n_components))
    point, weights, totals = np.empty(n_components), np.empty(n_components), np.empty(n_components)
    drawn = np.empty(n_components, np.int64)
    stream = new_stream()
    for n in range(start, stop):
        scale = model.inverse_rates[min(n, model.inverse_rates.shape[0] - 1)]
        first, end = begin_row(model, n, words, stream, token_weights)
        counts = model.values[first:end]
        for k in range(n_components):
            point[k] = shape[k] / rate[k]
        for s in range(-burn_in, out.shape[1]):
            if model.stop[0]:
                return
            if given_counts:
                allocate(stream, counts, token_weights, point, weights, drawn, totals)
            expected = 0.0
            for k in range(n_components):
                if given_counts:
                    point[k] = max(gamma(stream, shape[k] + totals[k]) * scale[k], SMALLEST)
                else:
                    point[k] = gamma(stream, shape[k]) / rate[k]
                expected += point[k] * (1.0 / scale[k] - rate[k])
            if s >= 0:
                value = log_product(counts, token_weights, point) - expected
                out[n - start, s] = -value if given_counts else value
