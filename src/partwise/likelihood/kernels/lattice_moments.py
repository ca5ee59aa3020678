"""Posterior moments over the lattice of allocation totals, by forward and backward recursions (MATH 1.1).

The states after all tokens are the posterior of the totals (L_1, ..., L_K) of a row. Tokens of one feature are
exchangeable, so its allocation follows from any one of its tokens: one token of each feature comes last, and for these

    P(z_i = k | x) ∝ Σ_c forward_i(c) q_ik (a_k + c_k) backward_{i+1}(c + e_k),  E[c_fk | x] = x_f P(z_i = k | x)
"""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.lattice import run_lattice
from partwise.likelihood.kernels.lattice_range import nothing_lost, nothing_lost_on_the_way
from partwise.likelihood.kernels.lattice_walk import (
    Walk,
    fill_tables,
    first_line,
    make_walk,
    next_line,
    present_states,
)
from partwise.likelihood.kernels.moments import Moments, close_row, store_total
from partwise.likelihood.kernels.rows import Floats, Integers, RowBuffers, RowModel, gather_row, log_rising, row_buffers
from partwise.likelihood.kernels.token_order import interleave

# Forward states are scaled to a sum below 2^900, backward ones to at most 2^100: their products fit.
_FORWARD_SUM = 2.0**900
_BACKWARD_START = 2.0**100
_LOST = 2.0**-967  # below 2^-1022 digits are lost, of which one part in 2^55 may be
_MOST_KEPT = (
    2**25
)  # states of a row that are kept at once; from there on, only some levels are, and the others made anew


@kernel
def _order_tokens(row: RowBuffers, n_features: int, n_components: int, n_tokens: int, out: Integers) -> None:
    """Interleave all tokens but one of each feature, then these."""
    counts = row.counts[:n_features] - 1
    interleave(row.weights, counts, n_features, n_components, n_tokens - n_features, out)
    counts[:] = 1
    interleave(row.weights, counts, n_features, n_components, n_features, out[n_tokens - n_features :])


@inner_kernel
def _backward_step(
    forward: Floats, backward: Floats, n_components: int, m: int, walk: Walk, out: Floats, out_shares: Floats
) -> None:
    """``out[c] = sum(tables[k, c[k] + 1] * backward[c + e_k] for k)``, over the states of m tokens.

    Also ``out_shares[k] = sum(forward[c] * tables[k, c[k] + 1] * backward[c + e_k] for c)``.
    """
    tables, sums = walk.tables, walk.sums
    for k in range(n_components):
        out_shares[k] = 0.0
    if n_components == 2:
        for c in range(m + 1):
            first = tables[0, c + 1] * backward[c + 1]
            second = tables[1, m - c + 1] * backward[c]
            out[c] = first + second
            out_shares[0] += forward[c] * first
            out_shares[1] += forward[c] * second
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
                implied = weight * backward[line + c]
                out[line + c] = first + second + implied
                first_share += forward[line + c] * first
                second_share += forward[line + c] * second
                last_share += forward[line + c] * implied
            out_shares[0] += first_share
            out_shares[1] += second_share
            out_shares[n_components - 1] += last_share
            up = line + above
            for i in range(3, n_components):
                weight = tables[i - 1, sums[i] - (s2 if i == 3 else sums[i - 1]) + 1]
                share = 0.0
                for c in range(s2 + 1):
                    added = weight * backward[up + c]
                    out[line + c] += added
                    share += forward[line + c] * added
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
                share += states[line + c]
            below = s2
            for i in range(3, n_components):
                out[i - 1, sums[i] - below] += share
                below = sums[i]
            out[n_components - 1, n_tokens - below] += share
            total += share
        if not next_line(walk, n_components):
            return total


@kernel
def _allocate(
    row: RowBuffers,
    n_features: int,
    n_components: int,
    n_tokens: int,
    starts: Floats,
    levels: Floats,
    walk: Walk,
    states: Floats,
    out: Floats,
) -> bool:
    """Backward pass over the last token of each feature; ``starts`` has the states before every so many of them.

    Writes E[c_fk] to ``out`` (stored entries x components); False if that leaves the range of doubles.
    """
    total = row.shapes[:n_components].sum()
    number = present_states(walk, n_components, n_tokens, n_tokens)[1]
    backward, earlier = np.full(number + 1, _BACKWARD_START), np.zeros(number + 1)
    shares = np.empty(n_components)
    for segment in range(starts.shape[0] - 1, -1, -1):
        low = n_tokens - n_features + segment * levels.shape[0]
        high = min(low + levels.shape[0], n_tokens)
        states[: starts.shape[1]] = starts[segment]
        for m in range(low, high):
            address, size = present_states(walk, n_components, n_tokens, m)
            levels[m - low, :size] = states[address : address + size]
            if m + 1 < high:
                run_lattice(row.weights, row.shapes, n_components, n_tokens, m, m + 1, walk, states)
        for m in range(high - 1, low - 1, -1):
            feature = walk.order[m]
            fill_tables(row.weights, row.shapes, feature, n_components, total, m, walk)
            _backward_step(levels[m - low], backward, n_components, m, walk, earlier, shares)
            all_shares = shares.sum()
            # Whatever is lost of the backward states counts at most as much as all forward states together.
            if all_shares < _FORWARD_SUM * _LOST * number * n_components * n_features:
                return False
            for k in range(n_components):
                share = row.counts[feature] * shares[k] / all_shares
                out[row.positions[feature], row.components[k]] = share
            size = present_states(walk, n_components, n_tokens, m)[1]
            backward, earlier = earlier, backward
            backward[:size] *= math.ldexp(1.0, math.frexp(_BACKWARD_START / backward[:size].max())[1] - 1)
    return True


@kernel
def lattice_moment_rows(model: RowModel, rows: Integers, most_tokens: int, most_states: int, out: Moments) -> None:
    """Posterior moments of some rows of up to so many open tokens and states."""
    row = row_buffers(model.indptr, rows, model.dictionary.shape[1])
    walk = make_walk(model.dictionary.shape[1], most_tokens)
    states = np.zeros(most_states + 2)
    marginals = np.zeros((model.dictionary.shape[1], most_tokens + 1))
    for n in rows:
        n_features, n_components, n_tokens, log_value = gather_row(model, n, row)
        close_row(model, n, row, out)
        out.log_values[n] = log_value
        if n_tokens == 0:
            continue
        number = present_states(walk, n_components, n_tokens, n_tokens)[1]
        n_kept = n_features
        if n_features * number > _MOST_KEPT:
            n_kept = math.ceil(math.sqrt(n_features))
        starts, levels = np.zeros(((n_features - 1) // n_kept + 1, number + 2)), np.zeros((n_kept, number))
        _order_tokens(row, n_features, n_components, n_tokens, walk.order)
        done = 0
        for segment in range(starts.shape[0]):
            next_start = n_tokens - n_features + segment * n_kept
            run_lattice(row.weights, row.shapes, n_components, n_tokens, done, next_start, walk, states)
            starts[segment] = states[: number + 2]
            done = next_start
        in_range = run_lattice(row.weights, row.shapes, n_components, n_tokens, done, n_tokens, walk, states)
        value = _marginals(states, n_components, n_tokens, walk, marginals)
        mantissa, exponent = math.frexp(value)
        log_sum = math.log(mantissa) + (exponent - walk.scales[n_tokens]) * math.log(2.0)
        in_range = in_range and (
            nothing_lost(n_components, n_tokens, walk, log_sum)
            or nothing_lost_on_the_way(row.weights, row.counts, n_features, n_components, n_tokens, walk, log_sum)
        )
        for k in range(n_components):
            component = row.components[k]
            store_total(n, component, model.shape[component], row.settled[component], n_tokens, marginals, k, out)
        if not in_range or not _allocate(
            row, n_features, n_components, n_tokens, starts, levels, walk, states, out.allocations
        ):
            out.log_values[n] = math.nan
            continue
        out.log_values[n] = log_value + log_rising(row.shapes[:n_components].sum(), n_tokens) + log_sum
