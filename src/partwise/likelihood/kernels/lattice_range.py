"""Where the states of a lattice span more than the range of doubles: a proof that it is harmless, or logarithms."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.lattice_walk import Walk, fill_tables, first_line, next_line, present_states
from partwise.likelihood.kernels.rows import Floats, Integers

_LOG_2 = math.log(2.0)
_SMALLEST = -1022  # what is below two to this loses digits
_DIGITS = 55
_SWEEPS = 100


@inner_kernel
def _mixing(weights: Floats, counts: Integers, n_features: int, n_components: int, n_tokens: int, out: Floats) -> None:
    """Near the maximiser of Σ_f x_f log(q_f·θ), by EM; ``out[1]`` is worked in, ``out[0]`` is the result."""
    for k in range(n_components):
        out[0, k] = 1.0 / n_components
    for _ in range(_SWEEPS):
        for k in range(n_components):
            out[1, k] = 0.0
        for f in range(n_features):
            rate = 0.0
            for k in range(n_components):
                rate += weights[f, k] * out[0, k]
            for k in range(n_components):
                out[1, k] += counts[f] * weights[f, k] * out[0, k] / rate
        for k in range(n_components):
            # No component dies out: the bound needs q_f·θ > 0 for the tokens of every stretch.
            out[0, k] = (out[1, k] + 1e-6) / (n_tokens + 1e-6 * n_components)


@inner_kernel
def nothing_lost(n_components: int, n_tokens: int, walk: Walk, log_sum: float) -> bool:
    """Whether states below the range of doubles are too few and small to matter, whatever the steps after them did.

    No step makes the sum over states grow, and no state is below the range without being below 2^(-1022 - scale).
    """
    return bool(_lost_at_once(n_components, n_tokens) - walk.scales[0] * _LOG_2 < log_sum)


@inner_kernel
def _lost_at_once(n_components: int, n_tokens: int) -> float:
    """Log of an upper bound of what a step can lose, before it is scaled down, times the number of steps and 2^55."""
    log_states = math.lgamma(n_tokens + n_components) - math.lgamma(n_tokens + 1.0) - math.lgamma(1.0 * n_components)
    return log_states + math.log(2.0 * n_components * n_tokens) + (_SMALLEST + _DIGITS) * _LOG_2


@kernel
def nothing_lost_on_the_way(
    weights: Floats, counts: Integers, n_features: int, n_components: int, n_tokens: int, walk: Walk, log_sum: float
) -> bool:
    """Whether states below the range of doubles can have changed the sum by no more than one part in 2^55.

    What the tokens after m can make of a lost state is at most max_θ Π_{i>m} q_i·θ, which is bounded at any θ by
    Π q_i·θ times max_k (mean_i q_ik / q_i·θ)^(number of i). Taken near the maximum of the whole document, and with
    tokens interleaved, that bound is tight.
    """
    lost_at_once = _lost_at_once(n_components, n_tokens)
    mixing = np.zeros((2, n_components))
    means = np.zeros(n_components)
    _mixing(weights, counts, n_features, n_components, n_tokens, mixing)
    log_rates = 0.0
    for m in range(n_tokens, 0, -1):
        bound = 0.0
        if m < n_tokens:
            f = walk.order[m]
            rate = 0.0
            for k in range(n_components):
                rate += weights[f, k] * mixing[0, k]
            log_rates += math.log(rate)
            largest = 0.0
            for k in range(n_components):
                means[k] += weights[f, k] / rate
                largest = max(largest, means[k])
            left = n_tokens - m
            bound = min(0.0, log_rates + left * math.log(largest / left))
        if lost_at_once - walk.scales[m] * _LOG_2 + bound > log_sum:
            return False
    return True


@kernel
def wide_lattice_sum(
    weights: Floats,
    shapes: Floats,
    n_components: int,
    n_tokens: int,
    walk: Walk,
    states: Floats,
) -> float:
    """Log of the sum over states that `run_lattice` leads to, from logarithms of states: any range, but slow."""
    total = 0.0
    for k in range(n_components):
        total += shapes[k]
    states[present_states(walk, n_components, n_tokens, 0)[0]] = 0.0
    for m in range(n_tokens):
        fill_tables(weights, shapes, walk.order[m], n_components, total, m, walk)
        for k in range(n_components + 1):
            for c in range(m + 2):
                walk.tables[k, c] = math.log(walk.tables[k, c])
        _wide_step(states, n_components, n_tokens, m, walk)
    first, number = present_states(walk, n_components, n_tokens, n_tokens)
    largest = -math.inf
    for i in range(first, first + number):
        largest = max(largest, states[i])
    value = 0.0
    for i in range(first, first + number):
        value += math.exp(states[i] - largest)
    return largest + math.log(value)


@inner_kernel
def _wide_step(states: Floats, n_components: int, n_tokens: int, m: int, walk: Walk) -> None:
    tables, sums, shifts = walk.tables, walk.sums, walk.shifts
    if n_components == 2:
        for c in range(m + 2):
            address = n_tokens - m - 1 + c
            states[address] = _log_add(tables[0, c] + states[address], tables[2, c] + states[address + 1])
        return
    first_line(walk, n_components, m + 1)
    while True:
        most = sums[3] if n_components > 3 else m + 1
        for s2 in range(most, -1, -1):
            last = sums[n_components - 1] if n_components > 3 else s2
            line = walk.bases[3] + (s2 * (s2 + 1)) // 2
            below = line - shifts[3] - s2
            for c in range(s2 + 1):
                value = tables[n_components - 1, m + 1 - last] + states[line + c]
                if c > 0:
                    value = _log_add(value, tables[0, c] + states[below + c - 1])
                if c < s2:
                    value = _log_add(value, tables[1, s2 - c] + states[below + c])
                for i in range(3, n_components):
                    added = tables[i - 1, sums[i] - (s2 if i == 3 else sums[i - 1])]
                    value = _log_add(value, added + states[line - shifts[i] + c])
                states[line + c] = value
        if not next_line(walk, n_components):
            return


@inner_kernel
def _log_add(left: float, right: float) -> float:
    low, high = min(left, right), max(left, right)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
