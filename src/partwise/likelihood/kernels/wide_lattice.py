"""The lattice recursion on logarithms of states: slow, for the rare rows whose states span more than doubles do."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.lattice_walk import Walk, first_line, make_walk, next_line, present_states
from partwise.likelihood.kernels.rows import Floats, Integers, OpenRow, RowBuffers, RowModel, gather_row, row_buffers
from partwise.likelihood.kernels.token_order import in_turn


@kernel
def wide_lattice_rows(model: RowModel, rows: Integers, most_tokens: int, most_states: int, out: Floats) -> None:
    """``out[rows] = log(T[Π_f (q_f·y)^x_f])``, for rows of up to so many open tokens and states."""
    row = row_buffers(model.indptr, rows, model.dictionary.shape[1])
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
