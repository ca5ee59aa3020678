"""Sub-count recurrence: coefficients of G(z) = Π_k (1 - Σ_f q_fk z_f)^(-a_k), from its log derivative.

With log G = Σ_m c_m z^m, c_m = Σ_k a_k (|m| - 1)! / Π m! Π_f q_fk^m_f, and any f with y_f > 0:

    y_f g_y = Σ_{m <= y, m_f >= 1} m_f c_m g_{y-m},  g_0 = 1,  T[Π_f (q_f·y)^x_f] = g_x Π_f x_f!

Sub-counts y <= x are the digits of an address, the most frequent feature first. f is the highest digit that is not
zero. Then x itself is the only sub-count with all tokens of the rarest feature that is needed.
"""

import math
from typing import NamedTuple

import numpy as np

from partwise.kernels.jit import inline_kernel, inner_kernel, kernel
from partwise.likelihood.kernels.rows import (
    Flag,
    Floats,
    Integers,
    OpenRow,
    RowBuffers,
    RowModel,
    gather_row,
    row_buffers,
)

# All g_y must lie within these powers of two to be computed as plain numbers. And the smallest scale s for which q s
# is not lost when a is as large as 1 / s.
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
    """Buffers for rows of up to this many open features."""
    none = np.zeros(n_features, np.int64)
    return Digits(none, none.copy(), none.copy(), none.copy(), none.copy(), np.zeros(n_features))


@inner_kernel
def set_digits(row: RowBuffers, size: OpenRow, digits: Digits) -> int:
    """Sort features by descending counts, and set s_f = x_f / (A + L); returns the number of sub-counts."""
    counts, scale = row.counts, 1.0 / (size.total_shape + size.n_tokens)
    for f in range(size.n_features):
        i = f
        while i > 0 and digits.limits[i - 1] < counts[f]:
            digits.limits[i] = digits.limits[i - 1]
            digits.features[i] = digits.features[i - 1]
            i -= 1
        digits.limits[i] = counts[f]
        digits.features[i] = f
        digits.scales[f] = counts[f] * scale
    number = 1
    for i in range(size.n_features):
        digits.strides[i] = number
        number *= digits.limits[i] + 1
    return number


@inline_kernel
def count_up(digits: Integers, limits: Integers) -> tuple[int, int]:
    """Add one to an address given by its digits; returns the digit that grew, and the change of the sum of digits."""
    i, growth = 0, 1
    while digits[i] == limits[i]:
        growth -= digits[i]
        digits[i] = 0
        i += 1
    digits[i] += 1
    return i, growth


@inner_kernel
def _in_range(row: RowBuffers, size: OpenRow, digits: Digits) -> bool:
    """Whether all coefficients g_y lie within 2^-400 and 2^400.

    Scaled, Σ_f q_fk s_f <= L / (A + L), so that g_y <= G(1) <= exp(L). From below, g_y is at least the coefficient of
    exp(Σ_f c_f z_f), and at least the term of any one component in c_y.
    """
    weights, counts, shapes = row.weights, row.counts, row.shapes
    if size.n_tokens > _SAFE * math.log(2.0) or digits.scales[0] < _LEAST_SCALE:
        return False
    allocated_apart = 0.0
    for f in range(size.n_features):
        first_order = 0.0
        for k in range(size.n_components):
            first_order += shapes[k] * weights[f, k] * digits.scales[f]
        allocated_apart += min(0.0, counts[f] * math.log(first_order) - math.lgamma(counts[f] + 1.0))
    if allocated_apart > -_SAFE * math.log(2.0):
        return True
    for k in range(size.n_components):
        allocated_together = math.log(shapes[k] / size.n_tokens)
        for f in range(size.n_features):
            allocated_together += counts[f] * math.log(weights[f, k] * digits.scales[f])
        if allocated_together > -_SAFE * math.log(2.0):
            return True
    return False


@inner_kernel
def fill_terms(row: RowBuffers, k: int, n_subcounts: int, logs: bool, digits: Digits, out: Floats) -> None:
    """``out[m] = factorial(|m| - 1) / prod(factorial(m)) * prod((weights[:, k] * scales) ** m)``.

    Or, with ``logs``, ``log(shapes[k] * that)``.
    """
    weights = row.weights
    top = 0
    total = 0
    for i in range(digits.part.size):
        digits.part[i] = 0
    for address in range(1, n_subcounts):
        i, growth = count_up(digits.part, digits.limits)
        total += growth
        top = max(top, i)
        f = digits.features[top]
        ratio = (total - 1.0) / digits.part[top] if total > 1 else 1.0
        smaller = address - digits.strides[top]
        if logs:
            log_weight = math.log(weights[f, k]) + math.log(digits.scales[f] * ratio)
            out[address] = log_weight + (out[smaller] if total > 1 else math.log(row.shapes[k]))
        else:
            out[address] = weights[f, k] * digits.scales[f] * ratio * (out[smaller] if total > 1 else 1.0)


@inline_kernel
def _next_part(first: int, top: int, offset: int, digits: Digits) -> int:
    """Address of the next m <= y after that at ``offset``, in digits ``first`` to ``top``; 0 if there is none."""
    present, part, strides = digits.present, digits.part, digits.strides
    i = first
    while i < top and part[i] == present[i]:
        offset -= part[i] * strides[i]
        part[i] = 0
        i += 1
    if part[i] == present[i]:
        return 0
    part[i] += 1
    return int(offset + strides[i])


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
    while offset > 0:
        line = 0.0
        for i in range(offset, offset + present[0] + 1):
            line += cumulants[i] * coefficients[address - i]
        value += part[top] * line
        offset = _next_part(1, top, offset, digits)
    return float(value / present[top])


@inner_kernel
def _log_convolve(address: int, top: int, digits: Digits, cumulants: Floats, coefficients: Floats) -> float:
    """The logarithm of what `_convolve` gives, from logarithms."""
    part = digits.part
    largest = -math.inf
    value = 0.0
    for i in range(top):
        part[i] = 0
    part[top] = 1
    offset = digits.strides[top]
    while offset > 0:
        term = math.log(part[top]) + cumulants[offset] + coefficients[address - offset]
        if term > largest:
            value = value * math.exp(largest - term) + 1.0
            largest = term
        elif term > -math.inf:
            value += math.exp(term - largest)
        offset = _next_part(0, top, offset, digits)
    return largest + math.log(value / digits.present[top]) if value > 0.0 else -math.inf


@inner_kernel
def _fill_coefficients(
    stop: Flag, size: int, n_features: int, only_last: bool, logs: bool, digits: Digits, cumulants: Floats, out: Floats
) -> None:
    """Fill in g_y (or its logarithm) for all sub-counts, or, if ``only_last``, for those that the last one needs."""
    out[0] = 0.0 if logs else 1.0
    last = n_features - 1
    top = 0
    for i in range(n_features):
        digits.present[i] = 0
    address = 0
    while address < size - 1 and not stop[0]:
        top = max(top, count_up(digits.present, digits.limits)[0])
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
    row: RowBuffers, size: OpenRow, only_last: bool, digits: Digits, terms: Floats, cumulants: Floats, out: Floats
) -> tuple[int, bool, float]:
    """Coefficients g_y of a gathered row; returns how many, whether they are logarithms, and log(g_x Π_f x_f!)."""
    number = set_digits(row, size, digits)
    logs = not _in_range(row, size, digits)
    for i in range(number):
        cumulants[i] = -math.inf if logs else 0.0
    for k in range(size.n_components):
        fill_terms(row, k, number, logs, digits, terms)
        for i in range(1, number):
            if logs:
                cumulants[i] = np.logaddexp(cumulants[i], terms[i])
            else:
                cumulants[i] += row.shapes[k] * terms[i]
    _fill_coefficients(row.stop, number, size.n_features, only_last, logs, digits, cumulants, out)
    log_value = out[number - 1] if logs else math.log(out[number - 1])
    for f in range(size.n_features):
        log_value += math.lgamma(row.counts[f] + 1.0) - row.counts[f] * math.log(digits.scales[f])
    return number, logs, log_value


@kernel
def subcount_rows(model: RowModel, rows: Integers, most_features: int, most_subcounts: int, out: Floats) -> None:
    """``out[rows] = log(T[Π_f (q_f·y)^x_f])``, for rows of up to this many open features and sub-counts."""
    row = row_buffers(model.indptr, rows, model.dictionary.shape[1], model.stop)
    digits = make_digits(most_features)
    terms, cumulants, coefficients = np.zeros(most_subcounts), np.zeros(most_subcounts), np.zeros(most_subcounts)
    for n in rows:
        size = gather_row(model, n, row)
        out[n] = size.log_factor
        if size.n_tokens > 0:
            out[n] += solve_row(row, size, True, digits, terms, cumulants, coefficients)[2]
