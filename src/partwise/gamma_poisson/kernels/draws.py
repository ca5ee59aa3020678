"""Draws of activations, dictionaries and allocations, given each other."""

import numpy as np

from partwise.kernels.arrays import Cells, Floats, LongCounts, Missing, Words
from partwise.kernels.categories import multinomial, poisson_parts
from partwise.kernels.continuous import gamma
from partwise.kernels.jit import kernel
from partwise.kernels.lanes import LANES as LANES
from partwise.kernels.lanes import last_positive, running_sums
from partwise.kernels.streams import new_stream, next_uniform, seek_row

# Gamma draws of tiny shapes underflow; a positive number keeps every weight of a cell from vanishing.
SMALLEST = 1e-200


@kernel
def draw_activations(
    sample_counts: Floats, shape: Floats, inverse_rates: Floats, words: Words, first_row: int, out: Floats
) -> None:
    """``out = rng.gamma(shape + sample_counts) * inverse_rates``: activations given allocation totals."""
    stream = new_stream()
    for n in range(out.shape[0]):
        seek_row(stream, words, first_row + n)
        inverse = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        for k in range(shape.size):
            draw = gamma(stream, shape[k] + sample_counts[n, k]) * inverse[k]
            out[n, k] = max(draw, SMALLEST)


@kernel
def draw_dictionary(feature_counts: Floats, concentration: float, words: Words, first: int, out: Floats) -> None:
    """``out = rng.gamma(concentration + feature_counts)``: Dirichlet draws before columns are normalised."""
    stream = new_stream()
    for f in range(out.shape[0]):
        seek_row(stream, words, first + f)
        for k in range(out.shape[1]):
            out[f, k] = max(gamma(stream, concentration + feature_counts[f, k]), SMALLEST)


# Draws of allocations given activations, or given each other.


@kernel
def draw_allocations(
    cells: Cells, factor: Floats, other: Floats, words: Words, first_row: int, counts: tuple[LongCounts, LongCounts]
) -> None:
    """``c[n, f] = rng.multinomial(X[n, f], normalise(factor[n] * other[f]))``, summed over f and over n.

    Sets ``own_counts[n]`` to the sum over columns, and adds the sum over the block's rows to ``other_counts[f]``. Both
    factors are padded with zeros to a multiple of ``LANES`` components.

    A component is found in two steps. Components are dealt to ``LANES`` groups like cards. The additions that make the
    total, in the lanes of the processor, then also give the running sums of all groups.
    """
    (indptr, indices, values), (own_counts, other_counts) = cells, counts
    n_components = own_counts.shape[1]
    n_levels = factor.shape[1] // LANES
    # Below about this count, drawing token by token is faster than a multinomial, which visits all components.
    most_single = 16 + 2 * n_components
    running = np.empty((n_levels, LANES))
    before = np.empty(LANES)
    weights = np.empty(n_components)
    drawn = np.empty(n_components, np.int64)
    stream = new_stream()
    for n in range(own_counts.shape[0]):
        seek_row(stream, words, first_row + n)
        row = factor[n]
        own_counts[n] = 0
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            count = values[p]
            a, b, c, d, e, g, h, i = running_sums(other, f, 0.0, row, running)
            half = (a + b) + (c + d)
            before[0] = 0.0
            before[1] = a
            before[2] = a + b
            before[3] = (a + b) + c
            before[4] = half
            before[5] = half + e
            before[6] = half + (e + g)
            before[7] = half + ((e + g) + h)
            total = half + ((e + g) + (h + i))
            if count > most_single:
                for k in range(n_components):
                    weights[k] = factor[n, k] * other[f, k]
                multinomial(stream, count, weights, total, drawn)
                for k in range(n_components):
                    own_counts[n, k] += drawn[k]
                    other_counts[f, k] += drawn[k]
                continue
            for _ in range(count):
                rest = next_uniform(stream) * total
                # Counting costs less than leaving a loop early, which the processor cannot predict.
                group = -1
                for lane in range(LANES):
                    group += before[lane] <= rest
                rest -= before[group]
                level = 0
                for j in range(n_levels):
                    level += running[j, group] <= rest
                k = LANES * level + group
                if level == n_levels:
                    k = last_positive(other, f, 0.0, row, n_components)  # rounding let the draw slip past
                own_counts[n, k] += 1
                other_counts[f, k] += 1


@kernel
def draw_missing(
    missing: Missing, factor: Floats, other: Floats, words: Words, first_row: int, counts: tuple[LongCounts, LongCounts]
) -> None:
    """``c[n, f] = rng.poisson(factor[n] * other[f])`` in the missing cells, added to both sums."""
    (missing_indptr, missing_indices), (own_counts, other_counts) = missing, counts
    n_components = own_counts.shape[1]
    weights = np.empty(n_components)
    drawn = np.empty(n_components, np.int64)
    stream = new_stream()
    for n in range(own_counts.shape[0]):
        seek_row(stream, words, first_row + n)
        for p in range(missing_indptr[n], missing_indptr[n + 1]):
            f = missing_indices[p]
            if poisson_parts(stream, factor[n], other[f], weights, drawn) > 0:
                for k in range(n_components):
                    own_counts[n, k] += drawn[k]
                    other_counts[f, k] += drawn[k]
