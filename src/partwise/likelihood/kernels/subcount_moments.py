"""Posterior moments from the sub-count recurrence, by differentiation of log g_x in log q_fk and in a_k.

With t_k(m) = (|m| - 1)! / Π m! Π_f q_fk^m_f, log G = Σ_k a_k Σ_m t_k(m) z^m and ω_k(m) = a_k t_k(m) g_{x-m} / g_x,

    E[c_fk | x] = Σ_m m_f ω_k(m),  E[L_k | x] = Σ_m |m| ω_k(m),  E[ψ(a_k + L_k) | x] = ψ(a_k) + Σ_m ω_k(m) / a_k
    E[L_k² | x] = Σ_m (|m|² + a_k |m| (|m| - 1)) ω_k(m)
"""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.moments import Moments, close_row
from partwise.likelihood.kernels.rows import Floats, Integers, RowBuffers, RowModel, gather_row, row_buffers
from partwise.likelihood.kernels.subcount import Digits, fill_terms, make_digits, solve_row


@inner_kernel
def _store_component(
    n: int,
    k: int,
    row: RowBuffers,
    n_features: int,
    size: int,
    logs: bool,
    digits: Digits,
    terms: Floats,
    coefficients: Floats,
    out: Moments,
) -> None:
    """Sums over sub-counts of one open component's ω_k(m); ``terms`` are its t_k(m), or logarithms of a_k t_k(m)."""
    component = row.components[k]
    shape = row.shapes[k]
    last = coefficients[size - 1]
    tokens = 0
    mean, square, derivative = 0.0, 0.0, 0.0
    for i in range(n_features):
        digits.part[i] = 0
    for address in range(1, size):
        i = 0
        while digits.part[i] == digits.limits[i]:
            tokens -= digits.part[i]
            digits.part[i] = 0
            i += 1
        digits.part[i] += 1
        tokens += 1
        rest = coefficients[size - 1 - address]
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
    model: RowModel, rows: Integers, most_features: int, most_subcounts: int, out: Moments
) -> None:
    """Posterior moments of some rows of up to so many open features and sub-counts."""
    row = row_buffers(model.indptr, rows, model.dictionary.shape[1])
    digits = make_digits(most_features)
    terms, cumulants, coefficients = np.zeros(most_subcounts), np.zeros(most_subcounts), np.zeros(most_subcounts)
    for n in rows:
        n_features, n_components, n_tokens, log_value = gather_row(model, n, row)
        close_row(model, n, row, out)
        if n_tokens > 0:
            size, logs, log_coefficient = solve_row(
                row, n_features, n_components, n_tokens, False, digits, terms, cumulants, coefficients
            )
            log_value += log_coefficient
            for k in range(n_components):
                fill_terms(row.weights, k, row.shapes[k], n_features, size, logs, digits, terms)
                _store_component(n, k, row, n_features, size, logs, digits, terms, coefficients, out)
        out.log_values[n] = log_value
