"""Posterior moments of activations and allocations: what kernels return, and what is known without them.

The sub-count recurrence gives posterior moments by differentiating log g_x in log q_fk and in a_k.

With t_k(m) = (|m| - 1)! / Π m! Π_f q_fk^m_f, log G = Σ_k a_k Σ_m t_k(m) z^m and ω_k(m) = a_k t_k(m) g_{x-m} / g_x,

    E[c_fk | x] = Σ_m m_f ω_k(m),  E[L_k | x] = Σ_m |m| ω_k(m),  E[ψ(a_k + L_k) | x] = ψ(a_k) + Σ_m ω_k(m) / a_k
    E[L_k² | x] = Σ_m (|m|² + a_k |m| (|m| - 1)) ω_k(m)
"""

import math
from typing import NamedTuple

import numpy as np

from partwise.kernels.jit import inner_kernel, kernel
from partwise.likelihood.kernels.rows import Floats, Integers, RowBuffers, RowModel, gather_row, row_buffers
from partwise.likelihood.kernels.subcount import Digits, count_up, fill_terms, make_digits, solve_row


class TotalMoments(NamedTuple):
    """Posterior moments of each row.

    Attributes
    ----------
    log_values
        log T[Π_f (q_f·y)^x_f]; NaN where the states span more than the range of doubles.
    means, variances
        Of the totals L_nk: rows x components.
    digammas
        E[ψ(a_k + L_nk) | x] - ψ(a_k + 1).
    allocations
        E[c_nfk | x]: stored entries x components.
    """

    log_values: Floats
    means: Floats
    variances: Floats
    digammas: Floats
    allocations: Floats


@inner_kernel
def close_row(model: RowModel, n: int, row: RowBuffers, out: TotalMoments) -> None:
    """Fill in a gathered row as if nothing were open: settled tokens, and zeros for open ones."""
    n_components = model.dictionary.shape[1]
    start = model.indptr[n]
    for position in range(start, model.indptr[n + 1]):
        for k in range(n_components):
            out.allocations[position, k] = 0.0
        if row.owners[position - start] >= 0:
            out.allocations[position, row.owners[position - start]] = model.values[position]
    for k in range(n_components):
        out.means[n, k] = row.settled[k]
        out.variances[n, k] = 0.0
        out.digammas[n, k] = 0.0 if row.settled[k] > 0 else -1.0 / model.shape[k]
        for i in range(1, row.settled[k]):
            out.digammas[n, k] += 1.0 / (model.shape[k] + i)


@inner_kernel
def store_total(
    n: int, component: int, shape: float, settled: int, n_tokens: int, marginals: Floats, row: int, out: TotalMoments
) -> None:
    """TotalMoments of the total settled + c, where c has probabilities ``marginals[row]`` up to a factor."""
    total, mean, digamma = 0.0, 0.0, 0.0
    difference = out.digammas[n, component]
    for c in range(n_tokens + 1):
        total += marginals[row, c]
        mean += marginals[row, c] * c
        digamma += marginals[row, c] * difference
        # Not by adding 1 / a to -1 / a, which cancels at small shapes.
        difference = difference + 1.0 / (shape + settled + c) if settled + c > 0 else 0.0
    mean /= total
    variance = 0.0
    for c in range(n_tokens + 1):
        variance += marginals[row, c] * (c - mean) * (c - mean)
    out.means[n, component] = settled + mean
    out.variances[n, component] = variance / total
    out.digammas[n, component] = digamma / total


# Posterior moments from the sub-count recurrence, by differentiation of log g_x in log q_fk and in a_k.


@inner_kernel
def _store_component(
    n: int,
    k: int,
    row: RowBuffers,
    n_features: int,
    n_subcounts: int,
    logs: bool,
    digits: Digits,
    terms: Floats,
    coefficients: Floats,
    out: TotalMoments,
) -> None:
    """Sums over sub-counts of one open component's ω_k(m); ``terms`` are its t_k(m), or logarithms of a_k t_k(m)."""
    component = row.components[k]
    shape = row.shapes[k]
    last = coefficients[n_subcounts - 1]
    tokens = 0
    mean, square, derivative = 0.0, 0.0, 0.0
    for i in range(n_features):
        digits.part[i] = 0
    for address in range(1, n_subcounts):
        tokens += count_up(digits.part, digits.limits)[1]
        rest = coefficients[n_subcounts - 1 - address]
        weight = math.exp(terms[address] + rest - last) if logs else shape * terms[address] * rest / last
        derivative += weight
        mean += tokens * weight
        square += tokens * (tokens + shape * (tokens - 1.0)) * weight
        for i in range(n_features):
            position = row.positions[digits.features[i]]
            out.allocations[position, component] += digits.part[i] * weight
    out.means[n, component] += mean
    out.variances[n, component] = max(square - mean * mean, 0.0)
    out.digammas[n, component] += derivative / shape


@kernel
def subcount_moment_rows(
    model: RowModel, rows: Integers, most_features: int, most_subcounts: int, out: TotalMoments
) -> None:
    """Posterior moments of some rows of up to this many open features and sub-counts."""
    row = row_buffers(model.indptr, rows, model.dictionary.shape[1], model.stop)
    digits = make_digits(most_features)
    terms, cumulants, coefficients = np.zeros(most_subcounts), np.zeros(most_subcounts), np.zeros(most_subcounts)
    for n in rows:
        size = gather_row(model, n, row)
        out.log_values[n] = size.log_factor
        close_row(model, n, row, out)
        if size.n_tokens > 0:
            number, logs, log_value = solve_row(row, size, False, digits, terms, cumulants, coefficients)
            out.log_values[n] += log_value
            for k in range(size.n_components):
                fill_terms(row, k, number, logs, digits, terms)
                _store_component(n, k, row, size.n_features, number, logs, digits, terms, coefficients, out)
