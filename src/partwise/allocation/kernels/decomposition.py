"""The best latent decomposition S_nfk = x_nf ν_fk μ_nk / Σ_j ν_fj μ_nj, entry by entry, never stored."""

import math

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from partwise.kernels.arrays import Cells, Floats
from partwise.kernels.gamma_functions import HALF_LOG_TWO_PI, digamma_rest, stirling_rest
from partwise.kernels.jit import inline_kernel, inner_kernel, kernel

# Cubic pieces of log Γ(1 + s) and ψ(1 + s) from 0 to 32, with errors below 7e-11 and 3e-10. The error of a cubic
# through values and slopes is step⁴ / 384 times the fourth derivative, which is largest at 0.
_STEPS = 128.0
_TABLE_END = 32.0
_NODES = np.arange(int(_TABLE_END * _STEPS) + 2) / _STEPS
LOG_GAMMA_TABLE: Floats = np.column_stack((gammaln(1.0 + _NODES), digamma(1.0 + _NODES) / _STEPS))
DIGAMMA_TABLE: Floats = np.column_stack((digamma(1.0 + _NODES), polygamma(1, 1.0 + _NODES) / _STEPS))

# The same from 0 to 1, where most entries lie, by one polynomial in 2 s - 1. Processors can evaluate it for several
# entries at once, which a table does not allow. Errors are below 1e-12.
_DEGREE = 16
_PLACES = np.polynomial.chebyshev.chebpts1(_DEGREE + 1)


def _coefficients(values: Floats) -> Floats:
    """Coefficients of the polynomial through values at the Chebyshev points."""
    series = np.polynomial.chebyshev.chebfit(_PLACES, values, _DEGREE)
    return np.asarray(np.polynomial.chebyshev.cheb2poly(series), dtype=np.float64)


_LOG_GAMMA = _coefficients(gammaln(1.5 + 0.5 * _PLACES))
_DIGAMMA = _coefficients(digamma(1.5 + 0.5 * _PLACES))

Factors = tuple[Floats, Floats]
"""An array of the samples, and one of the features."""


@inline_kernel
def _near_zero(coefficients: Floats, s: float) -> float:
    """A polynomial in 2 s - 1 for s up to 1, and its value at 1 beyond."""
    t = 2.0 * min(s, 1.0) - 1.0
    value = float(coefficients[_DEGREE])
    for m in range(1, _DEGREE + 1):
        value = value * t + float(coefficients[_DEGREE - m])
    return value


@inner_kernel
def _piece(table: Floats, s: float) -> float:
    """A cubic between the two nodes around s, through their values and slopes."""
    place = s * _STEPS
    i = int(place)
    t = place - i
    low, high = float(table[i, 0]), float(table[i + 1, 0])
    first, second = float(table[i, 1]), float(table[i + 1, 1])
    rise = high - low
    return low + t * (first + t * (3.0 * rise - 2.0 * first - second + t * (first + second - 2.0 * rise)))


@inner_kernel
def log_factorial(s: float, table: Floats) -> float:
    """``gammaln(1 + s)`` for s >= 0, to 1e-10."""
    if s < _TABLE_END:
        return _piece(table, s)
    x = s + 1.0
    return (x - 0.5) * math.log(x) - x + HALF_LOG_TWO_PI + stirling_rest(x)


@inner_kernel
def digamma_from_one(s: float, table: Floats) -> float:
    """``digamma(1 + s)`` for s >= 0, to 3e-10."""
    if s < _TABLE_END:
        return _piece(table, s)
    x = s + 1.0
    return math.log(x) - 0.5 / x - digamma_rest(x)


@kernel
def decomposition_sums(
    cells: Cells, factors: Factors, table: Floats, start: int, stop: int, sample_counts: Floats, feature_counts: Floats
) -> float:
    """``S = X[..., None] * normalise(activations[:, None] * dictionary); S.sum(axis=1), S.sum(axis=0)``.

    Returns ``gammaln(S + 1).sum()``. Sets ``sample_counts``, and adds the block's rows to ``feature_counts``.
    """
    (indptr, indices, values), (activations, dictionary) = cells, factors
    n_components = dictionary.shape[1]
    share = np.empty(n_components)
    logs = np.empty(n_components)
    total = 0.0
    for n in range(start, stop):
        sample_counts[n] = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            rate = 0.0
            for k in range(n_components):
                rate += activations[n, k] * dictionary[f, k]
            scale = values[p] / rate
            for k in range(n_components):
                share[k] = scale * activations[n, k] * dictionary[f, k]
            for k in range(n_components):
                sample_counts[n, k] += share[k]
            for k in range(n_components):
                feature_counts[f, k] += share[k]
            for k in range(n_components):
                logs[k] = _near_zero(_LOG_GAMMA, share[k])
            if values[p] > 1:
                for k in range(n_components):
                    if share[k] > 1.0:
                        logs[k] = log_factorial(share[k], table)
            for k in range(n_components):
                total += logs[k]
    return total


@kernel
def decomposition_gradients(
    cells: Cells, factors: Factors, terms: Factors, table: Floats, start: int, stop: int, gradients: Factors
) -> None:
    """``S * (plus + (r * minus).sum(axis=2, keepdims=True))`` and the same with plus and minus exchanged, summed.

    ``g = sample_terms[:, None] + feature_terms - digamma(S + 1)`` is the derivative of l(S), and ``plus`` and ``minus``
    hold its terms by sign (Eq. 15): both gradients are nonnegative. The middle axis of the terms and of the gradients
    is plus, minus.
    """
    (indptr, indices, values), (activations, dictionary) = cells, factors
    (sample_terms, feature_terms), (sample_gradients, feature_gradients) = terms, gradients
    n_components = dictionary.shape[1]
    share = np.empty(n_components)
    slopes = np.empty(n_components)
    plus = np.empty(n_components)
    minus = np.empty(n_components)
    for n in range(start, stop):
        sample_gradients[n] = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            rate = 0.0
            for k in range(n_components):
                rate += activations[n, k] * dictionary[f, k]
            # Each array is read once, and loops use few arrays: only then does the compiler vectorise them.
            x = float(values[p])
            inverse = 1.0 / rate
            for k in range(n_components):
                share[k] = inverse * activations[n, k] * dictionary[f, k]
            for k in range(n_components):
                slopes[k] = _near_zero(_DIGAMMA, x * share[k])
            if x > 1.0:
                for k in range(n_components):
                    if x * share[k] > 1.0:
                        slopes[k] = digamma_from_one(x * share[k], table)
            mean_plus, mean_minus = 0.0, 0.0
            for k in range(n_components):
                plus[k] = sample_terms[n, 0, k] + feature_terms[f, 0, k] + max(-slopes[k], 0.0)
            for k in range(n_components):
                minus[k] = sample_terms[n, 1, k] + feature_terms[f, 1, k] + max(slopes[k], 0.0)
            for k in range(n_components):
                mean_plus += share[k] * plus[k]
                mean_minus += share[k] * minus[k]
            for k in range(n_components):
                plus[k] = x * share[k] * (plus[k] + mean_minus)
            for k in range(n_components):
                minus[k] = x * share[k] * (minus[k] + mean_plus)
            for k in range(n_components):
                sample_gradients[n, 0, k] += plus[k]
            for k in range(n_components):
                sample_gradients[n, 1, k] += minus[k]
            for k in range(n_components):
                feature_gradients[f, 0, k] += plus[k]
            for k in range(n_components):
                feature_gradients[f, 1, k] += minus[k]
