"""Lattice recursion: T[Π_i q_i·y], token by token over the allocation totals, in one buffer.

Tokens use q_f / max_k q_fk for q_f, and the step after m tokens divides by A + m, so that the sum over states never
grows. It starts at 2^900, and is scaled up to that again before it comes near the smallest doubles.
"""

import math

import numpy as np

from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.jit import inner_kernel, kernel
from partwise.likelihood.kernels.lattice_walk import (
    Walk,
    fill_tables,
    first_line,
    log_of_sum,
    make_walk,
    next_line,
    present_states,
    tables_hold,
)
from partwise.likelihood.kernels.rows import Floats, Integers, OpenRow, RowBuffers, RowModel, gather_row, row_buffers
from partwise.likelihood.kernels.tokens import in_turn, interleave

START = 900
_RESCALE_BELOW = 2.0**300
_SHORT = 64  # tokens, up to which their order does not matter


@inner_kernel
def forward_step(states: Floats, size: OpenRow, m: int, walk: Walk) -> None:
    """``new[c] = sum(tables[k, c[k]] * old[c - e_k] for k)``: one more token after m of them, in place.

    Memory beyond the old states must hold finite numbers, because it is multiplied by zeros of the tables.
    """
    tables, sums, shifts, n_components = walk.tables, walk.sums, walk.shifts, size.n_components
    # Unsigned addresses: signed ones could count from the end, which prevents vectorisation.
    one = np.uint64(1)
    if n_components == 2:
        low = np.uint64(size.n_tokens - m - 1)
        for c in range(np.uint64(m + 2)):
            states[low + c] = tables[0, c] * states[low + c] + tables[2, c] * states[low + c + one]
        return
    first_line(walk, n_components, m + 1)
    while True:
        most = sums[3] if n_components > 3 else m + 1
        for s2 in range(most, -1, -1):
            last = sums[n_components - 1] if n_components > 3 else s2
            implied = tables[n_components - 1, m + 1 - last]
            address = walk.bases[3] + (s2 * (s2 + 1)) // 2
            line = np.uint64(address)
            below = np.uint64(address - shifts[3] - s2)
            back = np.uint64(m + 1 - s2)
            end = np.uint64(s2)
            if s2 == 0:
                states[line] = implied * states[line]
            else:
                states[line] = implied * states[line] + tables[n_components, back] * states[below]
                for c in range(one, end):
                    states[line + c] = (
                        implied * states[line + c]
                        + tables[0, c] * states[below + c - one]
                        + tables[n_components, back + c] * states[below + c]
                    )
                states[line + end] = implied * states[line + end] + tables[0, end] * states[below + end - one]
            for i in range(3, n_components, 2):
                left = np.uint64(address - shifts[i])
                left_weight = tables[i - 1, sums[i] - (s2 if i == 3 else sums[i - 1])]
                right = left
                right_weight = 0.0
                if i + 1 < n_components:
                    right = np.uint64(address - shifts[i + 1])
                    right_weight = tables[i, sums[i + 1] - sums[i]]
                for c in range(end + one):
                    states[line + c] += left_weight * states[left + c] + right_weight * states[right + c]
        if not next_line(walk, n_components):
            return


@inner_kernel
def scale_up(states: Floats, size: OpenRow, m: int, walk: Walk) -> float:
    """Scale the states of m tokens so that their sum is near 2^900; returns the sum, 0 if all states are."""
    first, number = present_states(walk, size, m)
    total = 0.0
    for i in range(first, first + number):
        total += states[i]
    if total == 0.0:
        return 0.0
    shift = START - math.frexp(total)[1]
    # In two halves: 2^shift itself may be too large for a double.
    half = math.ldexp(1.0, shift // 2)
    rest = math.ldexp(1.0, shift - shift // 2)
    for i in range(first, first + number):
        states[i] = states[i] * half * rest
    walk.scales[m] += shift
    return total * half * rest


@inner_kernel
def _least_share(row: RowBuffers, size: OpenRow, feature: int, m: int) -> float:
    """A lower bound of the share of the sum that a step keeps: Σ_k q_k (a_k + c_k) / (A + m) at the worst state."""
    share = 0.0
    smallest = math.inf
    for k in range(size.n_components):
        share += row.weights[feature, k] * row.shapes[k]
        smallest = min(smallest, row.weights[feature, k])
    return (share + m * smallest) / (size.total_shape + m)


@inner_kernel
def run_lattice(row: RowBuffers, size: OpenRow, start: int, stop: int, walk: Walk, states: Floats) -> bool:
    """Take tokens ``start`` to ``stop`` of ``walk.order``; False if all states fell below the range of doubles."""
    if start == 0:
        walk.scales[0] = START
        states[present_states(walk, size, 0)[0]] = math.ldexp(1.0, START)
    lower = 0.0
    for m in range(start, stop):
        if row.stop[0]:
            return False
        feature = walk.order[m]
        share = _least_share(row, size, feature, m)
        if lower * share < _RESCALE_BELOW:
            lower = scale_up(states, size, m, walk)
            if lower == 0.0:
                return False
        lower *= share
        fill_tables(row, size, feature, m, walk)
        forward_step(states, size, m, walk)
        walk.scales[m + 1] = walk.scales[m]
    return scale_up(states, size, stop, walk) > 0.0


@kernel
def lattice_rows(model: RowModel, rows: Integers, most_tokens: int, most_states: int, out: Floats) -> None:
    """``out[rows] = log(T[Π_f (q_f·y)^x_f])``, for rows of up to this many open tokens and states.

    NaN if states that matter may have fallen below the range of doubles.
    """
    row = row_buffers(model.indptr, rows, model.dictionary.shape[1], model.stop)
    walk = make_walk(model.dictionary.shape[1], most_tokens)
    states = np.zeros(most_states + 2)
    for n in rows:
        size = gather_row(model, n, row)
        out[n] = size.log_factor
        if size.n_tokens > 0:
            if size.n_tokens <= _SHORT:
                in_turn(row.counts, size.n_features, walk.order)
            else:
                interleave(row.weights, row.counts, size.n_features, size.n_components, 0, walk.order)
            value = 0.0
            if tables_hold(row, size) and run_lattice(row, size, 0, size.n_tokens, walk, states):
                first, number = present_states(walk, size, size.n_tokens)
                for i in range(first, first + number):
                    value += states[i]
            out[n] += log_gamma_difference(size.total_shape, size.n_tokens) + log_of_sum(value, row, size, walk)


# The lattice recursion on logarithms of states: slow, for the rare rows whose states span more than doubles do.


@kernel
def wide_lattice_rows(model: RowModel, rows: Integers, most_tokens: int, most_states: int, out: Floats) -> None:
    """``out[rows] = log(T[Π_f (q_f·y)^x_f])``, for rows of up to this many open tokens and states."""
    row = row_buffers(model.indptr, rows, model.dictionary.shape[1], model.stop)
    walk = make_walk(model.dictionary.shape[1], most_tokens)
    states = np.zeros(most_states + 2)
    for n in rows:
        size = gather_row(model, n, row)
        out[n] = size.log_factor
        if size.n_tokens > 0:
            in_turn(row.counts, size.n_features, walk.order)
            out[n] += log_gamma_difference(size.total_shape, size.n_tokens) + _wide_sum(row, size, walk, states)


@inner_kernel
def _wide_sum(row: RowBuffers, size: OpenRow, walk: Walk, states: Floats) -> float:
    """Log of the sum over states after all tokens."""
    states[present_states(walk, size, 0)[0]] = 0.0
    for m in range(size.n_tokens):
        if row.stop[0]:
            return -math.inf
        for k in range(size.n_components):
            log_weight = math.log(row.weights[walk.order[m], k]) - math.log(size.total_shape + m)
            walk.tables[k, 0] = -math.inf
            for c in range(1, m + 2):
                walk.tables[k, c] = log_weight + math.log(row.shapes[k] + (c - 1))
        _wide_step(states, size.n_components, size.n_tokens, m, walk)
    first, number = present_states(walk, size, size.n_tokens)
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
            states[address] = _log_add(tables[0, c] + states[address], tables[1, m + 1 - c] + states[address + 1])
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
