"""Kernels of negative-binomial factorization over one block of rows. They visit all cells, zeros included.

Throughout, ``parts`` is components x features, the rate of a cell is ``activations[n] @ parts[:, f]``, and its size
(the r of a variance of rate + rate² / r) is ``row_sizes[n] * feature_sizes[f]``, where one of the two is 1. Inner
loops run over features, which are contiguous in memory. Sums are computed in loops that store nothing (see
`partwise.kernels.sums`).
"""

import math

import numpy as np

from partwise.kernels.arrays import Cells, Floats, Missing
from partwise.kernels.gamma_functions import digamma, log_gamma_difference, trigamma
from partwise.kernels.jit import inner_kernel, kernel

Sizes = tuple[Floats, Floats]
"""Of rows and of features: the size of a cell is their product."""
# Up to here differences of digamma functions are sums of this many terms, without cancellation.
_FEW = 32
# Logarithms are taken of products of this many numbers, each at most the largest: then no product overflows.
_FACTORS, _LARGEST_FACTOR = 8, 1e38
# Where no rate is larger than this share of rate + size, the logarithm is its series, without cancellation.
_SMALL_SHARE = 1e-3


@inner_kernel
def _weigh_row(n: int, place: int, cells: Cells, missing: Missing, sizes: Sizes, rates: Floats) -> None:
    """``rates[place] = (X[n] + size) / (rates[place] + size)``, the expected noise; 0 in missing cells."""
    (indptr, indices, values), (missing_indptr, missing_indices), (row_sizes, feature_sizes) = cells, missing, sizes
    for f in range(rates.shape[1]):
        size = row_sizes[n] * feature_sizes[f]
        rates[place, f] = size / (rates[place, f] + size)
    for p in range(indptr[n], indptr[n + 1]):
        # As a double: small integers, as stored on disk, would otherwise be divided in the precision of the sizes.
        rates[place, indices[p]] *= 1.0 + float(values[p]) / (row_sizes[n] * feature_sizes[indices[p]])
    for p in range(missing_indptr[n], missing_indptr[n + 1]):
        rates[place, missing_indices[p]] = 0.0


@inner_kernel
def _weighted_sum(k: int, parts: Floats, weights: Floats) -> float:
    """``parts[k] @ weights[0]``."""
    total = 0.0
    for f in range(weights.shape[1]):
        total += parts[k, f] * weights[0, f]
    return total


@inner_kernel
def _gain(n: int, k: int, cells: Cells, parts: Floats, rates: Floats) -> float:
    """``parts[k] @ (X[n] / rates[0])`` over the nonzeros of a row; a count that no part explains adds nothing."""
    indptr, indices, values = cells
    total = 0.0
    for p in range(indptr[n], indptr[n + 1]):
        f = indices[p]
        if rates[0, f] > 0.0:
            total += parts[k, f] * values[p] / rates[0, f]
    return total


@kernel
def improve_activations(
    cells: Cells, missing: Missing, parts: Floats, sizes: Sizes, effort: tuple[int, float], out: Floats
) -> None:
    """``h *= (X / rates) @ parts.T / ((X + size) / (rates + size)) @ parts.T``, which never lowers the likelihood.

    Each row is updated by itself until no expected count changes by more than ``tol`` of the row's total.
    """
    n_components, n_features = parts.shape
    rates, gain = np.empty((1, n_features)), np.empty(n_components)
    (indptr, _, values), (most_updates, tol) = cells, effort
    for n in range(out.shape[0]):
        total = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            total += values[p]
        for _update in range(most_updates):
            rates[:] = 0.0
            for k in range(n_components):
                for f in range(n_features):
                    rates[0, f] += out[n, k] * parts[k, f]
            for k in range(n_components):
                gain[k] = _gain(n, k, cells, parts, rates)
            _weigh_row(n, 0, cells, missing, sizes, rates)
            change = 0.0
            for k in range(n_components):
                old, exposure = out[n, k], _weighted_sum(k, parts, rates)
                out[n, k] = old * gain[k] / exposure if exposure > 0.0 else 0.0
                change = max(change, abs(out[n, k] - old) * exposure)
            if change <= tol * total:
                break


@kernel
def weigh(cells: Cells, missing: Missing, sizes: Sizes, rates: Floats) -> None:
    """``rates[:] = (X + size) / (rates + size)``, the expected noise of each cell; 0 in missing cells."""
    for n in range(rates.shape[0]):
        _weigh_row(n, n, cells, missing, sizes, rates)


@inner_kernel
def _digamma_differences(size: float, count: float) -> tuple[float, float]:
    """``digamma(size + count) - digamma(size)`` and the same of trigamma, for a whole count."""
    if count > _FEW:
        return digamma(size + count) - digamma(size), trigamma(size + count) - trigamma(size)
    first = second = 0.0
    for j in range(int(count)):
        inverse = 1.0 / (size + j)
        first += inverse
        second -= inverse * inverse
    return first, second


@inner_kernel
def _add_size_terms(count: float, rate: float, size: float, sign: float, place: int, terms: Floats) -> None:
    """Add ``sign`` times log p(count) and its two derivatives in log(size) to ``terms[place]``."""
    below = rate + size
    first, second = _digamma_differences(size, count)
    ratio = rate / size
    slope = first - math.log1p(ratio) + (rate - count) / below
    curvature = second + ratio / below - (rate - count) / (below * below)
    value = -size * math.log1p(ratio)
    if count > 0.0:
        value += log_gamma_difference(size, count) - math.lgamma(count + 1.0)
        # A count that no part explains is left out, as in the update.
        value += count * math.log(rate / below) if rate > 0.0 else 0.0
    terms[place, 0] += sign * value
    terms[place, 1] += sign * size * slope
    terms[place, 2] += sign * (size * size * curvature + size * slope)


@kernel
def add_zero_terms(rates: Floats, sizes: Floats, terms: Floats) -> None:
    """``terms[g] += log-likelihood, and its two derivatives in log(size)``, as if all cells of column g held zeros.

    With u = rate / size and v = u / (1 + u) these are -size times the sums of log(1 + u), of log(1 + u) - v, and of
    log(1 + u) - v - v².
    """
    n_groups = sizes.size
    products, logs, shares, tails = np.ones(n_groups), np.zeros(n_groups), np.zeros(n_groups), np.zeros(n_groups)
    squares, largest = np.zeros(n_groups), np.zeros(n_groups)
    for n in range(rates.shape[0]):
        for g in range(n_groups):
            below = rates[n, g] + sizes[g]
            share = rates[n, g] / below
            products[g] *= min(below / sizes[g], _LARGEST_FACTOR)
            shares[g] += share
            squares[g] += share * share
            tails[g] += share * share * (1.0 / 2.0 + share * (1.0 / 3.0 + share * (1.0 / 4.0 + share / 5.0)))
            largest[g] = max(largest[g], share)
        if (n + 1) % _FACTORS == 0 or n + 1 == rates.shape[0]:
            for g in range(n_groups):
                logs[g] += math.log(products[g])
                products[g] = 1.0
    for g in range(n_groups):
        tail = tails[g] if largest[g] < _SMALL_SHARE else logs[g] - shares[g]
        terms[g, 0] -= sizes[g] * (shares[g] + tail)
        terms[g, 1] -= sizes[g] * tail
        terms[g, 2] -= sizes[g] * (tail - squares[g])


@kernel
def correct_zero_terms(
    cells: Cells, missing: Missing, rates: Floats, sizes: Floats, by_rows: bool, terms: Floats
) -> None:
    """Remove from ``terms`` what `add_zero_terms` added for missing cells and nonzeros, and add the nonzeros.

    Groups are rows, and ``rates`` features x rows, if `by_rows`; else groups are features.
    """
    (indptr, indices, values), (missing_indptr, missing_indices) = cells, missing
    for n in range(indptr.size - 1):
        for p in range(missing_indptr[n], missing_indptr[n + 1]):
            f = missing_indices[p]
            place, rate = (n, rates[f, n]) if by_rows else (f, rates[n, f])
            _add_size_terms(0.0, rate, sizes[place], -1.0, place, terms)
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            place, rate = (n, rates[f, n]) if by_rows else (f, rates[n, f])
            _add_size_terms(0.0, rate, sizes[place], -1.0, place, terms)
            _add_size_terms(float(values[p]), rate, sizes[place], 1.0, place, terms)
