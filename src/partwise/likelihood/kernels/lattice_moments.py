"""Posterior moments over the lattice of allocation totals, by forward and backward recursions.

The states after all tokens are the posterior of the totals (L_1, ..., L_K) of a row. Tokens of one feature are
exchangeable, so its allocation follows from any one of its tokens: one token of each feature comes last, and for these

    P(z_i = k | x) ∝ Σ_c forward_i(c) q_ik (a_k + c_k) backward_{i+1}(c + e_k),  E[c_fk | x] = x_f P(z_i = k | x)
"""

import math

import numpy as np

from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.jit import inner_kernel, kernel
from partwise.likelihood.kernels.lattice import run_lattice
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
from partwise.likelihood.kernels.moments import TotalMoments, close_row, store_total
from partwise.likelihood.kernels.rows import Floats, Integers, OpenRow, RowBuffers, RowModel, gather_row, row_buffers
from partwise.likelihood.kernels.tokens import interleave

# Forward states are scaled to a sum below 2^900, backward ones to at most 2^100: their products fit.
_BACKWARD_TOP = 100
# Backward states below 2^-1022 lose digits; times the forward states, that may be one part in 2^55 of the whole.
_LEAST_SHARE = 2.0 ** (900 - 1022 + 55)
# Most states of a row that are stored at once. Beyond that, only some levels are stored and the others recomputed.
_MOST_KEPT = 2**25


@kernel
def _order_tokens(row: RowBuffers, size: OpenRow, out: Integers) -> None:
    """Interleave all tokens but one of each feature, then these."""
    n_features, n_components = size.n_features, size.n_components
    once = np.ones(n_features, np.int64)
    interleave(row.weights, row.counts[:n_features] - once, n_features, n_components, 0, out)
    interleave(row.weights, once, n_features, n_components, size.n_tokens - n_features, out)


@inner_kernel
def _backward_step(
    forward: Floats,
    level: int,
    backward: Floats,
    n_components: int,
    m: int,
    walk: Walk,
    out: Floats,
    out_shares: Floats,
) -> None:
    """``out[c] = sum(tables[k, c[k] + 1] * backward[c + e_k] for k)``, over the states of m tokens.

    Also ``out_shares[k] = sum(forward[level, c] * tables[k, c[k] + 1] * backward[c + e_k] for c)``.
    """
    tables, sums = walk.tables, walk.sums
    for k in range(n_components):
        out_shares[k] = 0.0
    if n_components == 2:
        for c in range(m + 1):
            out[c] = tables[0, c + 1] * backward[c + 1] + tables[1, m - c + 1] * backward[c]
        # Sums in loops that store nothing; otherwise their last bits would depend on the addresses of the arrays.
        first_share, second_share = 0.0, 0.0
        for c in range(m + 1):
            first_share += forward[level, c] * (tables[0, c + 1] * backward[c + 1])
            second_share += forward[level, c] * (tables[1, m - c + 1] * backward[c])
        out_shares[0], out_shares[1] = first_share, second_share
        return
    first_line(walk, n_components, m)
    while True:
        above = 0
        for i in range(3, n_components):
            above += walk.binomials[i - 1, sums[i] + 1]
        most = sums[3] if n_components > 3 else m
        for s2 in range(most, -1, -1):
            last = sums[n_components - 1] if n_components > 3 else s2
            line = walk.bases[3] + (s2 * (s2 + 1)) // 2
            weight = tables[n_components - 1, m - last + 1]
            first_share, second_share, last_share = 0.0, 0.0, 0.0
            up = line + above + s2 + 1
            for c in range(s2 + 1):
                first = tables[0, c + 1] * backward[up + c + 1]
                second = tables[1, s2 - c + 1] * backward[up + c]
                out[line + c] = first + second + weight * backward[line + c]
            for c in range(s2 + 1):
                first_share += forward[level, line + c] * (tables[0, c + 1] * backward[up + c + 1])
                second_share += forward[level, line + c] * (tables[1, s2 - c + 1] * backward[up + c])
                last_share += forward[level, line + c] * (weight * backward[line + c])
            out_shares[0] += first_share
            out_shares[1] += second_share
            out_shares[n_components - 1] += last_share
            up = line + above
            for i in range(3, n_components):
                weight = tables[i - 1, sums[i] - (s2 if i == 3 else sums[i - 1]) + 1]
                share = 0.0
                for c in range(s2 + 1):
                    out[line + c] += weight * backward[up + c]
                for c in range(s2 + 1):
                    share += forward[level, line + c] * (weight * backward[up + c])
                out_shares[i - 1] += share
                up -= walk.binomials[i - 1, sums[i] + 1]
        if not next_line(walk, n_components):
            return


@inner_kernel
def _marginals(states: Floats, n_components: int, n_tokens: int, walk: Walk, out: Floats) -> float:
    """``out[k, c] = sum(states where c[k] == c)`` over the states of all tokens, and the sum of all."""
    sums = walk.sums
    for k in range(n_components):
        for c in range(n_tokens + 1):
            out[k, c] = 0.0
    total = 0.0
    if n_components == 2:
        for c in range(n_tokens + 1):
            out[0, c] = states[c]
            out[1, n_tokens - c] = states[c]
        for c in range(n_tokens + 1):
            total += states[c]
        return total
    first_line(walk, n_components, n_tokens)
    while True:
        most = sums[3] if n_components > 3 else n_tokens
        for s2 in range(most, -1, -1):
            line = walk.bases[3] + (s2 * (s2 + 1)) // 2
            share = 0.0
            for c in range(s2 + 1):
                out[0, c] += states[line + c]
                out[1, s2 - c] += states[line + c]
            for c in range(s2 + 1):
                share += states[line + c]
            below = s2
            for i in range(3, n_components):
                out[i - 1, sums[i] - below] += share
                below = sums[i]
            out[n_components - 1, n_tokens - below] += share
            total += share
        if not next_line(walk, n_components):
            return total


@inner_kernel
def _refresh(backward: Floats, size: int) -> None:
    """Scale backward states up so that the largest is near 2^100."""
    largest = 0.0
    for i in range(size):
        largest = max(largest, backward[i])
    scale = math.ldexp(1.0, _BACKWARD_TOP - math.frexp(largest)[1])
    for i in range(size):
        backward[i] *= scale


@inner_kernel
def _allocate(
    row: RowBuffers,
    size: OpenRow,
    starts: Floats,
    levels: Floats,
    walk: Walk,
    states: Floats,
    backward: Floats,
    shares: Floats,
    out: Floats,
) -> bool:
    """Backward pass over the last token of each feature; ``starts`` has the states before each stretch of them.

    Writes E[c_fk] to ``out`` (stored entries x components); False if that leaves the range of doubles.
    """
    n_features, n_components, n_tokens = size.n_features, size.n_components, size.n_tokens
    number = present_states(walk, size, n_tokens)[1]
    for i in range(number):
        backward[i] = math.ldexp(1.0, _BACKWARD_TOP)
    for segment in range(starts.shape[0] - 1, -1, -1):
        low = n_tokens - n_features + segment * levels.shape[0]
        high = min(low + levels.shape[0], n_tokens)
        for i in range(starts.shape[1]):
            states[i] = starts[segment, i]
        for m in range(low, high):
            first, n_states = present_states(walk, size, m)
            for i in range(n_states):
                levels[m - low, i] = states[first + i]
            if m + 1 < high:
                run_lattice(row, size, m, m + 1, walk, states)
        for m in range(high - 1, low - 1, -1):
            if row.stop[0]:
                return False
            feature = walk.order[m]
            fill_tables(row, size, feature, m, walk)
            _backward_step(levels, m - low, backward, n_components, m, walk, states, shares)
            n_states = present_states(walk, size, m)[1]
            for i in range(n_states):
                backward[i] = states[i]
            _refresh(backward, n_states)
            all_shares = 0.0
            for k in range(n_components):
                all_shares += shares[k]
            # Lost backward states count at most as much as all forward states together.
            if all_shares < _LEAST_SHARE * number * n_components * n_features:
                return False
            for k in range(n_components):
                share = row.counts[feature] * shares[k] / all_shares
                out[row.positions[feature], row.components[k]] = share
    return True


@kernel
def lattice_moment_rows(model: RowModel, rows: Integers, most_tokens: int, most_states: int, out: TotalMoments) -> None:
    """Posterior moments of some rows of up to this many open tokens and states."""
    row = row_buffers(model.indptr, rows, model.dictionary.shape[1], model.stop)
    walk = make_walk(model.dictionary.shape[1], most_tokens)
    states, backward = np.zeros(most_states + 2), np.zeros(most_states + 2)
    marginals, shares = np.zeros((model.dictionary.shape[1], most_tokens + 1)), np.zeros(model.dictionary.shape[1])
    for n in rows:
        size = gather_row(model, n, row)
        n_features, n_components, n_tokens = size.n_features, size.n_components, size.n_tokens
        out.log_values[n] = size.log_factor
        close_row(model, n, row, out)
        if n_tokens == 0:
            continue
        number = present_states(walk, size, n_tokens)[1]
        n_kept = n_features
        if n_features * number > _MOST_KEPT:
            n_kept = math.ceil(math.sqrt(n_features))
        starts, levels = np.empty(((n_features - 1) // n_kept + 1, number + 2)), np.empty((n_kept, number))
        _order_tokens(row, size, walk.order)
        done = 0
        for segment in range(starts.shape[0]):
            start = n_tokens - n_features + segment * n_kept
            run_lattice(row, size, done, start, walk, states)
            for i in range(number + 2):
                starts[segment, i] = states[i]
            done = start
        in_range = run_lattice(row, size, done, n_tokens, walk, states) and tables_hold(row, size)
        value = _marginals(states, n_components, n_tokens, walk, marginals)
        log_sum = log_of_sum(value if in_range else 0.0, row, size, walk)
        for k in range(n_components):
            component = row.components[k]
            store_total(n, component, model.shape[component], row.settled[component], n_tokens, marginals, k, out)
        if not _allocate(row, size, starts, levels, walk, states, backward, shares, out.allocations):
            log_sum = math.nan
        out.log_values[n] += log_gamma_difference(size.total_shape, n_tokens) + log_sum
