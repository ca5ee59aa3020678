"""Posterior means of activations given the dictionary, row by row."""

import math

import numpy as np

from partwise.gamma_poisson.kernels.draws import SMALLEST
from partwise.kernels.arrays import Cells, Floats, Numbers, Starts, Words
from partwise.kernels.categories import multinomial
from partwise.kernels.continuous import gamma
from partwise.kernels.gamma_functions import digamma
from partwise.kernels.jit import inner_kernel, kernel
from partwise.kernels.streams import new_stream, seek_row
from partwise.kernels.sums import inner_product, sum_of

RowModel = tuple[Floats, Floats, Floats]
"""Dictionary, inverse rates (of each row, or of all) and shapes."""
# Number of draws per batch (the spread of batch means gives the error of the overall mean), and fewest batches.
BATCH = 100
LEAST_BATCHES = 4


@inner_kernel
def _spread_evenly(indptr: Starts, values: Numbers, n: int, counts: Floats) -> float:
    """``counts[:] = X[n].sum() / counts.size``, and that sum."""
    length = 0.0
    for p in range(indptr[n], indptr[n + 1]):
        length += values[p]
    for k in range(counts.size):
        counts[k] = length / counts.size
    return length


@kernel
def posterior_mean_rows(
    cells: Cells, model: RowModel, burn_in: int, most_draws: Starts, enough: float, words: Words, out: Floats
) -> None:
    """``out[n] = (shape + mean over draws of E[c_n+k | h]) * inverse_rates``: posterior mean of activations by Gibbs.

    A row stops when the standard errors of its means (from batch means) are at most ``enough`` of the means, or after
    ``most_draws[n]`` draws; rows with 0 are skipped. All rows use the same stream, so that the result of a row does not
    depend on its position in a batch.
    """
    (indptr, indices, values), (dictionary, inverse_rates, shape) = cells, model
    n_components = shape.size
    weights = np.empty(n_components)
    point = np.empty(n_components)
    counts = np.empty(n_components)
    expected = np.empty(n_components)
    batch = np.empty(n_components)
    squares = np.empty(n_components)
    drawn = np.empty(n_components, np.int64)
    stream = new_stream()
    for n in range(out.shape[0]):
        if most_draws[n] == 0:
            continue
        seek_row(stream, words, 0)
        inverse = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        _spread_evenly(indptr, values, n, counts)
        out[n] = 0.0
        batch[:] = 0.0
        squares[:] = 0.0
        n_batches = 0
        for s in range(-burn_in, most_draws[n]):
            for k in range(n_components):
                point[k] = max(gamma(stream, shape[k] + counts[k]) * inverse[k], SMALLEST)
                counts[k] = 0.0
                expected[k] = 0.0
            for p in range(indptr[n], indptr[n + 1]):
                column = dictionary[indices[p]]
                for k in range(n_components):
                    weights[k] = point[k] * column[k]
                total = sum_of(weights)
                share = values[p] / total
                multinomial(stream, values[p], weights, total, drawn)
                for k in range(n_components):
                    expected[k] += share * weights[k]
                    counts[k] += drawn[k]
            if s < 0:
                continue
            for k in range(n_components):
                batch[k] += expected[k] / BATCH
            if (s + 1) % BATCH == 0:
                n_batches += 1
                settled = n_batches >= LEAST_BATCHES
                for k in range(n_components):
                    out[n, k] += batch[k]
                    squares[k] += batch[k] * batch[k]
                    batch[k] = 0.0
                    mean = out[n, k] / n_batches
                    variance = max(squares[k] / n_batches - mean * mean, 0.0) / max(n_batches - 1, 1)
                    settled = settled and variance <= (enough * (shape[k] + mean)) ** 2
                if settled:
                    break
        for k in range(n_components):
            out[n, k] = (shape[k] + out[n, k] / n_batches) * inverse[k]


@kernel
def variational_mean_rows(cells: Cells, model: RowModel, tol: float, max_updates: int, out: Floats) -> None:
    """``h = exp(digamma(shape + counts)); counts = h * ((X / (h @ dictionary.T)) @ dictionary)``, repeated.

    ``out[n] = (shape + counts) * inverse_rates``, the mean of the variational posterior.
    Each row is updated until none of its counts changes by more than ``tol`` of the row's total.
    """
    (indptr, indices, values), (dictionary, inverse_rates, shape) = cells, model
    n_components = shape.size
    point = np.empty(n_components)
    counts = np.empty(n_components)
    fresh = np.empty(n_components)
    for n in range(out.shape[0]):
        inverse = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        length = _spread_evenly(indptr, values, n, counts)
        for _ in range(max_updates):
            for k in range(n_components):
                point[k] = max(math.exp(digamma(shape[k] + counts[k])) * inverse[k], SMALLEST)
                fresh[k] = 0.0
            for p in range(indptr[n], indptr[n + 1]):
                column = dictionary[indices[p]]
                total = inner_product(point, column)
                share = values[p] / total
                for k in range(n_components):
                    fresh[k] += share * column[k]
            change = 0.0
            for k in range(n_components):
                fresh[k] *= point[k]
                change = max(change, abs(fresh[k] - counts[k]))
                counts[k] = fresh[k]
            if change <= tol * length:
                break
        for k in range(n_components):
            out[n, k] = (shape[k] + counts[k]) * inverse[k]
