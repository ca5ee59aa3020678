"""Where the states of a lattice span more than the range of doubles: a proof that it is harmless."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.lattice_walk import Walk
from partwise.likelihood.kernels.rows import Floats, OpenRow, RowBuffers

_LOG_2 = math.log(2.0)
_SMALLEST = -1022  # what is below two to this loses digits
_DIGITS = 55
_LEAST_WEIGHT = 1e-290
_SWEEPS = 100


@inner_kernel
def _mixing(row: RowBuffers, size: OpenRow, out: Floats) -> None:
    """Near the maximiser of Σ_f x_f log(q_f·θ), by EM; ``out[1]`` is worked in, ``out[0]`` is the result."""
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
    """Whether all weights of steps that are not zero are well above the smallest double."""
    total = size.total_shape + size.n_tokens
    for f in range(size.n_features):
        for k in range(size.n_components):
            if row.weights[f, k] > 0.0 and row.weights[f, k] * (row.shapes[k] / total) < _LEAST_WEIGHT:
                return False
    return True


@inner_kernel
def nothing_lost(size: OpenRow, walk: Walk, log_sum: float) -> bool:
    """Whether states below the range of doubles are too few and small to matter, whatever the steps after them did.

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

    What the tokens after m can make of a lost state is at most max_θ Π_{i>m} q_i·θ, which is bounded at any θ by
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
    """Log of the sum over states of all tokens, ``total`` as it is scaled; NaN if what was lost of it may matter."""
    mantissa, exponent = math.frexp(total)
    log_sum = math.log(mantissa) + (exponent - walk.scales[size.n_tokens]) * _LOG_2
    vouched = nothing_lost(size, walk, log_sum) or nothing_lost_on_the_way(row, size, walk, log_sum)
    return log_sum if vouched else math.nan
