"""Sub-count recurrence (MATH 1.1): coefficients of G(z) = Π_k (1 - Σ_f q_fk z_f)^(-a_k), from its log derivative.

With log G = Σ_m c_m z^m, c_m = Σ_k a_k (|m| - 1)! / Π m! Π_f q_fk^m_f, and any f with y_f > 0:

    y_f g_y = Σ_{m <= y, m_f >= 1} m_f c_m g_{y-m},  g_0 = 1,  T[Π_f (q_f·y)^x_f] = g_x Π_f x_f!

Sub-counts y <= x are the digits of an address, the most frequent feature first. f is the highest digit that is not
zero: then of the sub-counts with all tokens of the rarest feature only x itself is needed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.rows import Floats, Integers, RowBuffers, RowModel, gather_row, row_buffers

# Exponents of two within which all g_y must lie to be computed as plain numbers, and how small scales s may be for q s
# not to be lost where a is as large as 1 / s.
_SAFE = 400.0
_LEAST_SCALE = 1e-150


class Digits(NamedTuple):
    """Sub-counts as digits of an address.

    Attributes
    ----------
    features, limits, strides
        Feature of each digit, its x_f, and what one more of it adds to the address.
    present, part
        Digits of y, and of m.
    scales
        s_f of each feature: z_f is scaled by it, so that the coefficients stay in range.
    """

    features: Integers
    limits: Integers
    strides: Integers
    present: Integers
    part: Integers
    scales: Floats


@kernel
def make_digits(n_features: int) -> Digits:
    """Buffers for rows of up to so many open features."""
    return Digits(
        np.zeros(n_features, np.int64),
        np.zeros(n_features, np.int64),
        np.zeros(n_features, np.int64),
        np.zeros(n_features, np.int64),
        np.zeros(n_features, np.int64),
        np.zeros(n_features),
    )


@inner_kernel
def set_digits(counts: Integers, n_features: int, scale: float, digits: Digits) -> int:
    """Sort features by descending counts, and set s_f = x_f * scale; returns the number of sub-counts."""
    for f in range(n_features):
        i = f
        while i > 0 and digits.limits[i - 1] < counts[f]:
            digits.limits[i] = digits.limits[i - 1]
            digits.features[i] = digits.features[i - 1]
            i -= 1
        digits.limits[i] = counts[f]
        digits.features[i] = f
        digits.scales[f] = counts[f] * scale
    size = 1
    for i in range(n_features):
        digits.strides[i] = size
        size *= digits.limits[i] + 1
    return size


@inner_kernel
def _in_range(
    weights: Floats, counts: Integers, shapes: Floats, n_features: int, n_components: int, n_tokens: int, digits: Digits
) -> bool:
    """Whether all coefficients g_y lie within 2^-400 and 2^400.

    Scaled, Σ_f q_fk s_f <= L / (A + L), so that g_y <= G(1) <= exp(L). From below, g_y is at least the coefficient of
    exp(Σ_f c_f z_f), and at least the term of any one component in c_y.
    """
    if n_tokens > _SAFE * math.log(2.0) or digits.scales[0] < _LEAST_SCALE:
        return False
    allocated_apart = 0.0
    for f in range(n_features):
        first_order = 0.0
        for k in range(n_components):
            first_order += shapes[k] * weights[f, k] * digits.scales[f]
        allocated_apart += min(0.0, counts[f] * math.log(first_order) - math.lgamma(counts[f] + 1.0))
    if allocated_apart > -_SAFE * math.log(2.0):
        return True
    for k in range(n_components):
        allocated_together = math.log(shapes[k] / n_tokens)
        for f in range(n_features):
            allocated_together += counts[f] * math.log(weights[f, k] * digits.scales[f])
        if allocated_together > -_SAFE * math.log(2.0):
            return True
    return False


@inner_kernel
def fill_terms(
    weights: Floats, k: int, shape: float, n_features: int, size: int, logs: bool, digits: Digits, out: Floats
) -> None:
    """``out[m] = factorial(|m| - 1) / prod(factorial(m)) * prod((weights[:, k] * scales) ** m)``.

    Or, with ``logs``, ``log(shape * that)``.
    """
    top = 0
    total = 0
    for i in range(n_features):
        digits.part[i] = 0
    for address in range(1, size):
        i = 0
        while digits.part[i] == digits.limits[i]:
            total -= digits.part[i]
            digits.part[i] = 0
            i += 1
        digits.part[i] += 1
        total += 1
        top = max(top, i)
        f = digits.features[top]
        ratio = (total - 1.0) / digits.part[top] if total > 1 else 1.0
        smaller = address - digits.strides[top]
        if logs:
            log_weight = math.log(weights[f, k]) + math.log(digits.scales[f] * ratio)
            out[address] = log_weight + (out[smaller] if total > 1 else math.log(shape))
        else:
            out[address] = weights[f, k] * digits.scales[f] * ratio * (out[smaller] if total > 1 else 1.0)


@inner_kernel
def _convolve(address: int, top: int, digits: Digits, cumulants: Floats, coefficients: Floats) -> float:
    """``sum(m[top] * cumulants[m] * coefficients[y - m] for m <= y if m[top] > 0) / y[top]``."""
    present, part = digits.present, digits.part
    value = 0.0
    if top == 0:
        for i in range(1, present[0] + 1):
            value += i * cumulants[i] * coefficients[address - i]
        return float(value / present[0])
    for i in range(1, top):
        part[i] = 0
    part[top] = 1
    offset = digits.strides[top]
    while True:
        line = 0.0
        for i in range(offset, offset + present[0] + 1):
            line += cumulants[i] * coefficients[address - i]
        value += part[top] * line
        i = 1
        while i < top and part[i] == present[i]:
            offset -= part[i] * digits.strides[i]
            part[i] = 0
            i += 1
        if part[i] == present[i]:
            return float(value / present[top])
        part[i] += 1
        offset += digits.strides[i]


@inner_kernel
def _log_convolve(address: int, top: int, digits: Digits, cumulants: Floats, coefficients: Floats) -> float:
    """The logarithm of what `_convolve` gives, from logarithms."""
    present, part, strides = digits.present, digits.part, digits.strides
    largest = -math.inf
    value = 0.0
    for i in range(top):
        part[i] = 0
    part[top] = 1
    offset = strides[top]
    while True:
        term = math.log(part[top]) + cumulants[offset] + coefficients[address - offset]
        if term > largest:
            value = value * math.exp(largest - term) + 1.0
            largest = term
        elif term > -math.inf:
            value += math.exp(term - largest)
        i = 0
        while i < top and part[i] == present[i]:
            offset -= part[i] * strides[i]
            part[i] = 0
            i += 1
        if part[i] == present[i]:
            return largest + math.log(value / present[top]) if value > 0.0 else -math.inf
        part[i] += 1
        offset += strides[i]


@inner_kernel
def _fill_coefficients(
    size: int, n_features: int, only_last: bool, logs: bool, digits: Digits, cumulants: Floats, out: Floats
) -> None:
    """Fill in g_y (or its logarithm) for all sub-counts, or, if ``only_last``, for those that the last one needs."""
    out[0] = 0.0 if logs else 1.0
    last = n_features - 1
    top = 0
    for i in range(n_features):
        digits.present[i] = 0
    address = 0
    while address < size - 1:
        i = 0
        while digits.present[i] == digits.limits[i]:
            digits.present[i] = 0
            i += 1
        digits.present[i] += 1
        top = max(top, i)
        address += 1
        if only_last and top == last and digits.present[last] == digits.limits[last]:
            address = size - 1
            for j in range(n_features):
                digits.present[j] = digits.limits[j]
        if logs:
            out[address] = _log_convolve(address, top, digits, cumulants, out)
        else:
            out[address] = _convolve(address, top, digits, cumulants, out)


@inner_kernel
def solve_row(
    row: RowBuffers,
    n_features: int,
    n_components: int,
    n_tokens: int,
    only_last: bool,
    digits: Digits,
    terms: Floats,
    cumulants: Floats,
    out: Floats,
) -> tuple[int, bool, float]:
    """Coefficients g_y of a gathered row; returns how many, whether they are logarithms, and log(g_x Π_f x_f!)."""
    total = 0.0
    for k in range(n_components):
        total += row.shapes[k]
    size = set_digits(row.counts, n_features, 1.0 / (total + n_tokens), digits)
    logs = not _in_range(row.weights, row.counts, row.shapes, n_features, n_components, n_tokens, digits)
    for i in range(size):
        cumulants[i] = -math.inf if logs else 0.0
    for k in range(n_components):
        fill_terms(row.weights, k, row.shapes[k], n_features, size, logs, digits, terms)
        for i in range(1, size):
            if logs:
                cumulants[i] = np.logaddexp(cumulants[i], terms[i])
            else:
                cumulants[i] += row.shapes[k] * terms[i]
    _fill_coefficients(size, n_features, only_last, logs, digits, cumulants, out)
    log_value = out[size - 1] if logs else math.log(out[size - 1])
    for f in range(n_features):
        log_value += math.lgamma(row.counts[f] + 1.0) - row.counts[f] * math.log(digits.scales[f])
    return size, logs, log_value


@kernel
def subcount_rows(model: RowModel, rows: Integers, most_features: int, most_subcounts: int, out: Floats) -> None:
    """``out[rows] = log(T[Π_f (q_f·y)^x_f])``, for rows of up to so many open features and sub-counts."""
    row = row_buffers(model.indptr, rows, model.dictionary.shape[1])
    digits = make_digits(most_features)
    terms, cumulants, coefficients = np.zeros(most_subcounts), np.zeros(most_subcounts), np.zeros(most_subcounts)
    for n in rows:
        n_features, n_components, n_tokens, out[n] = gather_row(model, n, row)
        if n_tokens > 0:
            _, _, log_value = solve_row(
                row, n_features, n_components, n_tokens, True, digits, terms, cumulants, coefficients
            )
            out[n] += log_value
