"""Counted costs of the exact algorithms, row by row, before any of them runs.

Costs are floating-point numbers: they saturate at infinity and never wrap.
"""

from __future__ import annotations

import numpy as np

from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.rows import Floats, Integers, RowModel, gather_row, row_buffers

# Measured, in units of half a nanosecond, which is what one multiply-add of a long lattice recursion takes: costs of a
# row, of a line of the lattice, of one term of the other algorithms, and of a rule, which is cheap where rows share it.
_ROW = 1000.0
_LINE = 16.0
_SUBCOUNT_TERM = 6.0
_QUADRATURE_FACTOR = 0.3
_RULE = 3e5
_RULE_NODE_PAIR = 20.0
_SHARED_NODES = 64
_SHARED_RULE = 0.002
# Shapes for which the rules have been tried; the other algorithms know no such limits.
_LEAST_SHAPE, _MOST_SHAPE = 1e-30, 1e30


@inner_kernel
def count_states(n_components: int, n_tokens: int) -> float:
    """``comb(n_tokens + n_components - 1, n_components - 1)``."""
    value = 1.0
    for i in range(1, n_components):
        value *= (n_tokens + i) / i
    return value


@inner_kernel
def count_subcounts(counts: Integers, n_features: int) -> float:
    """``prod(counts + 1)``."""
    value = 1.0
    for f in range(n_features):
        value *= counts[f] + 1.0
    return value


@inner_kernel
def _subcount_cost(counts: Integers, n_features: int, n_components: int) -> float:
    """At most so many multiply-adds: pairs (m, y) of sub-counts, and the sums over components."""
    pairs = 1.0
    rarest = counts[0]
    for f in range(n_features):
        pairs *= 0.5 * (counts[f] + 1.0) * (counts[f] + 2.0)
        rarest = min(rarest, counts[f])
    # With all tokens of the rarest feature, only one sub-count is needed.
    pairs *= (2.0 + rarest * (rarest - 1.0)) / ((rarest + 1.0) * (rarest + 2.0))
    return float(pairs) + (n_components + 1.0) * count_subcounts(counts, n_features)


@inner_kernel
def _quadrature_cost(counts: Integers, n_features: int, n_components: int, n_tokens: int, shared: bool) -> float:
    """Factors at all points, counted by the bits of their powers, and the rules of the sticks."""
    n_nodes = n_tokens // 2 + 1.0
    factors = 0.0
    largest = 0
    for f in range(n_features):
        bits = counts[f]
        largest = max(largest, bits)
        while bits > 0:
            factors += bits & 1
            bits >>= 1
    while largest > 1:
        factors += 1.0
        largest >>= 1
    rules = (_RULE + _RULE_NODE_PAIR * n_nodes * n_nodes) * (n_components - 1.0)
    if shared and n_nodes <= _SHARED_NODES:
        rules *= _SHARED_RULE
    return float(_QUADRATURE_FACTOR * factors * n_nodes ** (n_components - 1.0) + rules)


@kernel
def row_costs(
    model: RowModel, rows: Integers, most_states: float, out_costs: Floats, out_sizes: Integers, out_shapes: Floats
) -> None:
    """Costs of the methods for some rows, what they need, and the shapes of their open components.

    ``out_costs[i] = lattice, sub-count, quadrature``; ``out_sizes[i] = open features, components, tokens, states,
    sub-counts``; ``out_shapes[i]`` has the shapes of the open components first. All start as zeros, which is what rows
    without open tokens keep.
    """
    buffers = row_buffers(model.indptr, rows, model.dictionary.shape[1])
    for i in range(rows.size):
        n_features, n_components, n_tokens, _, _ = gather_row(model, rows[i], buffers)
        if n_tokens == 0:
            continue
        shared, has_rules = n_components == model.dictionary.shape[1], True
        for k in range(n_components):
            out_shapes[i, k] = buffers.shapes[k]
            shared = shared and buffers.settled[k] == 0
            has_rules = has_rules and _LEAST_SHAPE <= buffers.shapes[k] <= _MOST_SHAPE
        states = count_states(n_components, n_tokens)
        subcounts = count_subcounts(buffers.counts, n_features)
        out_sizes[i, 0], out_sizes[i, 1], out_sizes[i, 2] = n_features, n_components, n_tokens
        out_sizes[i, 3], out_sizes[i, 4] = min(states, most_states), min(subcounts, most_states)
        lattice = _ROW + (n_tokens + _LINE) * states
        subcount = _ROW + _SUBCOUNT_TERM * _subcount_cost(buffers.counts, n_features, n_components)
        out_costs[i, 0] = lattice if states < most_states else np.inf
        out_costs[i, 1] = subcount if subcounts < most_states else np.inf
        quadrature = _ROW + _quadrature_cost(buffers.counts, n_features, n_components, n_tokens, shared)
        out_costs[i, 2] = quadrature if has_rules else np.inf
