"""The lattice of allocation totals: where its states are in memory, and in which order a step visits them.

States are the totals (c_1, ..., c_K) of m tokens. With partial sums s_i = c_1 + ... + c_i, state s lies at
Σ_{i<K} C(s_i + i - 1, i). The states of m tokens are a prefix of those of m + 1, and the last total is implied. Runs of
states in which only c_1 and c_2 change (lines, of s_2 + 1 states) are contiguous. A state's neighbours with one
token less are in the same line or in lines below, so a step that goes downwards needs no second buffer. For K = 2 there
is a single line, which moves down by one address per step.
"""

import math
from typing import NamedTuple

import numpy as np

from partwise.kernels.jit import inline_kernel, inner_kernel, kernel
from partwise.likelihood.kernels.rows import Floats, Integers, OpenRow, RowBuffers

_SATURATED = 1 << 60


class Walk(NamedTuple):
    """The position of a walk over the lines of a lattice, and the tables of its steps.

    Attributes
    ----------
    sums
        s_i of the present lines, at i >= 3; s_2 is left to the caller.
    bases, shifts
        At i: Σ_{j>=i} C(s_j + j - 1, j), and how far below lies the line with s_j - 1 for s_j, j >= i.
    binomials
        C(s + i - 1, i) at [i, s].
    tables
        At [k, c]: the weight of adding a token to component k that makes it c. The last row is component 1 backwards.
    scales
        At m: the exponent of two by which the states of m tokens are scaled up.
    order
        Features of the tokens.
    """

    sums: Integers
    bases: Integers
    shifts: Integers
    binomials: Integers
    tables: Floats
    scales: Integers
    order: Integers


@kernel
def make_walk(n_components: int, n_tokens: int) -> Walk:
    """Buffers for documents of up to this many components and tokens."""
    binomials = np.zeros((n_components + 1, n_tokens + 3), np.int64)
    for s in range(1, n_tokens + 3):
        binomials[0, s] = 1
    for i in range(1, n_components + 1):
        for s in range(1, n_tokens + 3):
            binomials[i, s] = min(binomials[i, s - 1] + binomials[i - 1, s], _SATURATED)
    return Walk(
        np.zeros(n_components + 2, np.int64),
        np.zeros(n_components + 2, np.int64),
        np.zeros(n_components + 2, np.int64),
        binomials,
        np.zeros((n_components + 1, n_tokens + 2)),
        np.zeros(n_tokens + 1, np.int64),
        np.zeros(n_tokens + 1, np.int64),
    )


@inner_kernel
def first_line(walk: Walk, n_components: int, n_tokens: int) -> None:
    """Go to the highest lines: s_i = n_tokens for all i >= 3."""
    for i in range(max(n_components, 3), 2, -1):
        walk.bases[i] = 0
        walk.shifts[i] = 0
        if i < n_components:
            walk.sums[i] = n_tokens
            _settle(walk, i)


@inner_kernel
def next_line(walk: Walk, n_components: int) -> bool:
    """Go down to the next lines with the same s_i for all i >= 3; False if there are none."""
    i = 3
    while i < n_components and walk.sums[i] == 0:
        i += 1
    if i >= n_components:
        return False
    walk.sums[i] -= 1
    _settle(walk, i)
    for j in range(i - 1, 2, -1):
        walk.sums[j] = walk.sums[i]
        _settle(walk, j)
    return True


@inline_kernel
def _settle(walk: Walk, i: int) -> None:
    walk.bases[i] = walk.bases[i + 1] + walk.binomials[i, walk.sums[i]]
    walk.shifts[i] = walk.shifts[i + 1] + walk.binomials[i - 1, walk.sums[i]]


@inner_kernel
def present_states(walk: Walk, size: OpenRow, m: int) -> tuple[int, int]:
    """First address and number of the states of m of a row's tokens."""
    if size.n_components == 2:
        return size.n_tokens - m, m + 1
    return 0, walk.binomials[size.n_components - 1, m + 1]


@inner_kernel
def fill_tables(row: RowBuffers, size: OpenRow, feature: int, m: int, walk: Walk) -> None:
    """``tables[k, 1:] = weights[feature, k] * (shapes[k] + np.arange(m + 1)) / (shapes.sum() + m)``, and 0 first."""
    tables, n_components = walk.tables, size.n_components
    scale = 1.0 / (size.total_shape + m)
    for k in range(n_components):
        tables[k, 0] = 0.0
        for c in range(1, m + 2):
            tables[k, c] = row.weights[feature, k] * ((row.shapes[k] + (c - 1)) * scale)
    for c in range(m + 2):
        tables[n_components, c] = tables[1, m + 1 - c]


# If the states of a lattice span more than the range of doubles: a proof that this is harmless.

_LOG_2 = math.log(2.0)
_SMALLEST = -1022  # what is below two to this loses digits
_DIGITS = 55
_LEAST_WEIGHT = 1e-290
_SWEEPS = 100


@inner_kernel
def _mixing(row: RowBuffers, size: OpenRow, out: Floats) -> None:
    """A point near the maximiser of Σ_f x_f log(q_f·θ), by EM; ``out[0]`` is the result, ``out[1]`` a buffer."""
    weights, n_components = row.weights, size.n_components
    for k in range(n_components):
        out[0, k] = 1.0 / n_components
    for _ in range(_SWEEPS):
        for k in range(n_components):
            out[1, k] = 0.0
        for f in range(size.n_features):
            rate = 0.0
            for k in range(n_components):
                rate += weights[f, k] * out[0, k]
            for k in range(n_components):
                out[1, k] += row.counts[f] * weights[f, k] * out[0, k] / rate
        for k in range(n_components):
            # No component dies out: the bound needs q_f·θ > 0 for the tokens of every stretch.
            out[0, k] = (out[1, k] + 1e-6) / (size.n_tokens + 1e-6 * n_components)


@inner_kernel
def tables_hold(row: RowBuffers, size: OpenRow) -> bool:
    """Whether all nonzero weights of steps are well above the smallest double."""
    total = size.total_shape + size.n_tokens
    for f in range(size.n_features):
        for k in range(size.n_components):
            if row.weights[f, k] > 0.0 and row.weights[f, k] * (row.shapes[k] / total) < _LEAST_WEIGHT:
                return False
    return True


@inner_kernel
def nothing_lost(size: OpenRow, walk: Walk, log_sum: float) -> bool:
    """Whether states below the range of doubles are too few and too small to matter, whatever later steps did.

    No step makes the sum over states grow, and no state is below the range without being below 2^(-1022 - scale).
    """
    return bool(_lost_at_once(size.n_components, size.n_tokens) - walk.scales[0] * _LOG_2 < log_sum)


@inner_kernel
def _lost_at_once(n_components: int, n_tokens: int) -> float:
    """Log of an upper bound of what a step can lose, before it is scaled down, times the number of steps and 2^55."""
    log_states = math.lgamma(n_tokens + n_components) - math.lgamma(n_tokens + 1.0) - math.lgamma(1.0 * n_components)
    return log_states + math.log(2.0 * n_components * n_tokens) + (_SMALLEST + _DIGITS) * _LOG_2


@kernel
def nothing_lost_on_the_way(row: RowBuffers, size: OpenRow, walk: Walk, log_sum: float) -> bool:
    """Whether states below the range of doubles can have changed the sum by no more than one part in 2^55.

    What the tokens after m can make of a lost state is at most max_θ Π_{i>m} q_i·θ. Its bound at any θ is
    Π q_i·θ times max_k (mean_i q_ik / q_i·θ)^(number of i). Taken near the maximum of the whole document, and with
    tokens interleaved, that bound is tight unless the prior rules; then Π_{i>m} (q_i·a + i max_k q_ik) / (A + i) is.
    """
    weights, n_components, n_tokens = row.weights, size.n_components, size.n_tokens
    lost_at_once = _lost_at_once(n_components, n_tokens)
    mixing = np.zeros((2, n_components))
    means = np.zeros(n_components)
    _mixing(row, size, mixing)
    log_rates, by_prior = 0.0, 0.0
    for m in range(n_tokens, 0, -1):
        bound = 0.0
        if m < n_tokens:
            f = walk.order[m]
            rate, prior_rate = 0.0, 1.0 * m
            for k in range(n_components):
                rate += weights[f, k] * mixing[0, k]
                prior_rate += weights[f, k] * row.shapes[k]
            log_rates += math.log(rate)
            by_prior += math.log(prior_rate / (size.total_shape + m))
            largest = 0.0
            for k in range(n_components):
                means[k] += weights[f, k] / rate
                largest = max(largest, means[k])
            left = n_tokens - m
            bound = min(by_prior, log_rates + left * math.log(largest / left))
        if lost_at_once - walk.scales[m] * _LOG_2 + bound > log_sum:
            return False
    return True


@kernel
def log_of_sum(total: float, row: RowBuffers, size: OpenRow, walk: Walk) -> float:
    """Log of the sum over states of all tokens, from the scaled ``total``; NaN if what was lost may matter."""
    mantissa, exponent = math.frexp(total)
    log_sum = math.log(mantissa) + (exponent - walk.scales[size.n_tokens]) * _LOG_2
    vouched = nothing_lost(size, walk, log_sum) or nothing_lost_on_the_way(row, size, walk, log_sum)
    return log_sum if vouched else math.nan
