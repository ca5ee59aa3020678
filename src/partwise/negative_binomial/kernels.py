"""Kernels of negative-binomial factorization over one block of rows; they touch all cells, zeros included.

Throughout, ``parts`` is components x features, the rate of a cell is ``activations[n] @ parts[:, f]``, and its size
(the r of a variance of rate + rate² / r) is ``row_sizes[n] * feature_sizes[f]``, one of the two being 1. Inner loops
run over features, which lie together in memory. Sums are taken in loops that store nothing (see
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


@inner_kernel
def _row_rates(n: int, activations: Floats, parts: Floats, rates: Floats) -> None:
    """``rates[:] = activations[n] @ parts``."""
    for f in range(rates.size):
        rates[f] = 0.0
    for k in range(parts.shape[0]):
        weight = activations[n, k]
        for f in range(rates.size):
            rates[f] += weight * parts[k, f]


@inner_kernel
def _row_weights(n: int, cells: Cells, missing: Missing, sizes: Sizes, rates: Floats, weights: Floats) -> None:
    """``weights[:] = (X[n] + size) / (rates + size)``, the expected noise of each cell; 0 in missing cells."""
    (indptr, indices, values), (missing_indptr, missing_indices), (row_sizes, feature_sizes) = cells, missing, sizes
    for f in range(rates.size):
        size = row_sizes[n] * feature_sizes[f]
        weights[f] = size / (rates[f] + size)
    for p in range(indptr[n], indptr[n + 1]):
        f = indices[p]
        weights[f] += values[p] / (rates[f] + row_sizes[n] * feature_sizes[f])
    for p in range(missing_indptr[n], missing_indptr[n + 1]):
        weights[missing_indices[p]] = 0.0


@inner_kernel
def _weighted_sum(k: int, parts: Floats, weights: Floats) -> float:
    """``parts[k] @ weights``."""
    total = 0.0
    for f in range(weights.size):
        total += parts[k, f] * weights[f]
    return total


@inner_kernel
def _gain(n: int, k: int, cells: Cells, parts: Floats, rates: Floats) -> float:
    """``parts[k] @ (X[n] / rates)`` over the nonzeros of a row; a count that no part holds adds nothing."""
    indptr, indices, values = cells
    total = 0.0
    for p in range(indptr[n], indptr[n + 1]):
        f = indices[p]
        if rates[f] > 0.0:
            total += parts[k, f] * values[p] / rates[f]
    return total


@kernel
def improve_activations(
    cells: Cells, missing: Missing, parts: Floats, sizes: Sizes, floors: Floats, effort: tuple[int, float], out: Floats
) -> None:
    """``h *= (X / rates) @ parts.T / ((X + size) / (rates + size)) @ parts.T``, which never lowers the likelihood.

    Each row is updated until no expected count changes by more than ``tol`` of the row's total.
    """
    n_components, n_features = parts.shape
    rates, weights, exposure = np.empty(n_features), np.empty(n_features), np.empty(n_components)
    (indptr, _, values), (most_updates, tol) = cells, effort
    for n in range(out.shape[0]):
        total = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            total += values[p]
        for _update in range(most_updates):
            _row_rates(n, out, parts, rates)
            _row_weights(n, cells, missing, sizes, rates, weights)
            change = 0.0
            for k in range(n_components):
                exposure[k] = _weighted_sum(k, parts, weights)
            for k in range(n_components):
                old = out[n, k]
                if exposure[k] > 0.0 and old > 0.0:
                    gain = _gain(n, k, cells, parts, rates)
                    out[n, k] = max(old * gain / exposure[k], floors[n])
                else:
                    out[n, k] = floors[n]
                change = max(change, abs(out[n, k] - old) * exposure[k])
            if change <= tol * total:
                break


@kernel
def add_part_sums(
    cells: Cells, missing: Missing, activations: Floats, parts: Floats, sizes: Sizes, gain: Floats, exposure: Floats
) -> None:
    """``gain += activations.T @ (X / rates); exposure += activations.T @ ((X + size) / (rates + size))``."""
    n_components, n_features = parts.shape
    rates, weights = np.empty(n_features), np.empty(n_features)
    indptr, indices, values = cells
    for n in range(activations.shape[0]):
        _row_rates(n, activations, parts, rates)
        _row_weights(n, cells, missing, sizes, rates, weights)
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            ratio = values[p] / rates[f]
            for k in range(n_components):
                gain[k, f] += activations[n, k] * ratio
        for k in range(n_components):
            activation = activations[n, k]
            for f in range(n_features):
                exposure[k, f] += activation * weights[f]


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
        # A count that no part holds is left out, as in the update.
        value += count * math.log(rate / below) if rate > 0.0 else 0.0
    terms[place, 0] += sign * value
    terms[place, 1] += sign * size * slope
    terms[place, 2] += sign * (size * size * curvature + size * slope)


@kernel
def add_size_terms(
    cells: Cells, missing: Missing, activations: Floats, parts: Floats, sizes: Sizes, by_rows: bool, terms: Floats
) -> None:
    """``terms[group] += log-likelihood and its two derivatives in log(size)``, groups being rows or features."""
    (indptr, indices, values), (missing_indptr, missing_indices), (row_sizes, feature_sizes) = cells, missing, sizes
    n_features = parts.shape[1]
    rates = np.empty(n_features)
    for n in range(activations.shape[0]):
        _row_rates(n, activations, parts, rates)
        for f in range(n_features):
            _add_size_terms(0.0, rates[f], row_sizes[n] * feature_sizes[f], 1.0, n if by_rows else f, terms)
        for p in range(missing_indptr[n], missing_indptr[n + 1]):
            f = missing_indices[p]
            _add_size_terms(0.0, rates[f], row_sizes[n] * feature_sizes[f], -1.0, n if by_rows else f, terms)
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            size, place = row_sizes[n] * feature_sizes[f], n if by_rows else f
            _add_size_terms(0.0, rates[f], size, -1.0, place, terms)
            _add_size_terms(float(values[p]), rates[f], size, 1.0, place, terms)
