"""What exact algorithms need of one row: its tokens, the components that can explain them, and what is settled.

Also the costs of the exact algorithms, counted row by row before any of them runs. Costs are floating-point numbers:
they saturate at infinity and never wrap.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.jit import inner_kernel, kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flag = NDArray[np.bool_]
Words = tuple[np.uint64, np.uint64, np.uint64]  # of a key: seed, stage and chain, iteration

_SMALL = 1e-290  # well above the smallest double with all its digits, 2.2e-308


class RowModel(NamedTuple):
    """Rows of counts (CSR) and the model: w_fk, 1 / (b_k + e_nk) (one row where nothing is missing), a_k and b_k.

    ``stop[0]`` is set after Ctrl-C. Kernels check it at least every second, and return early.
    """

    indptr: Integers
    indices: NDArray[np.int32]
    values: Integers
    dictionary: Floats
    inverse_rates: Floats
    shape: Floats
    rate: Floats
    stop: Flag


class OpenRow(NamedTuple):
    """The open tokens of a gathered row.

    Attributes
    ----------
    n_features, n_components, n_tokens
        Open features, components (0 or at least 2) and tokens.
    log_factor
        Log factor of the settled tokens: see `gather_row`.
    total_shape
        Sum of the shapes of the open components, settled tokens included.
    """

    n_features: int
    n_components: int
    n_tokens: int
    log_factor: float
    total_shape: float


class RowBuffers(NamedTuple):
    """What `gather_row` finds; only the first entries belong to the current row.

    Attributes
    ----------
    weights
        q'_fk: open features x open components.
    counts, positions
        x_f of the open features, and where they stand in the CSR arrays.
    shapes, components
        Shapes of the open components, settled tokens included, and which components these are.
    settled
        For each component, the tokens that can belong to no other.
    owners
        The component of each stored entry of the row that is settled, -1 for open ones.
    stop
        Whether to return early: see `RowModel`.
    """

    weights: Floats
    counts: Integers
    positions: Integers
    shapes: Floats
    components: Integers
    settled: Integers
    owners: Integers
    stop: Flag


@inner_kernel
def _token_weights(model: RowModel, feature: int, rate_row: int, out: Floats, out_row: int) -> float:
    """``q = dictionary[feature] * inverse_rates[rate_row]; out[out_row] = q / q.max()``; returns ``log(q.max())``.

    If a product leaves the range of doubles, mantissas and exponents are multiplied separately.
    """
    dictionary, inverse_rates = model.dictionary, model.inverse_rates
    n_components = dictionary.shape[1]
    largest = 0.0
    smallest = math.inf
    for k in range(n_components):
        weight = dictionary[feature, k] * inverse_rates[rate_row, k]
        out[out_row, k] = weight
        largest = max(largest, weight)
        if dictionary[feature, k] > 0.0:
            smallest = min(smallest, weight)
    if largest < math.inf and smallest > _SMALL:
        for k in range(n_components):
            out[out_row, k] /= largest
        return math.log(largest)
    most = -(1 << 40)
    for k in range(n_components):
        if dictionary[feature, k] > 0.0:
            exponent = math.frexp(dictionary[feature, k])[1] + math.frexp(inverse_rates[rate_row, k])[1]
            most = max(most, exponent)
    largest = 0.0
    for k in range(n_components):
        left, left_exponent = math.frexp(dictionary[feature, k])
        right, right_exponent = math.frexp(inverse_rates[rate_row, k])
        out[out_row, k] = math.ldexp(left * right, max(left_exponent + right_exponent - most, -2000))
        largest = max(largest, out[out_row, k])
    for k in range(n_components):
        out[out_row, k] /= largest
    return math.log(largest) + most * math.log(2.0)


@kernel
def row_buffers(indptr: Integers, rows: Integers, n_components: int, stop: Flag) -> RowBuffers:
    """Buffers for the longest of some rows."""
    longest = 1
    for n in rows:
        longest = max(longest, indptr[n + 1] - indptr[n])
    return RowBuffers(
        np.zeros((longest, n_components)),
        np.zeros(longest, np.int64),
        np.zeros(longest, np.int64),
        np.zeros(n_components),
        np.zeros(n_components, np.int64),
        np.zeros(n_components, np.int64),
        np.zeros(longest, np.int64),
        stop,
    )


@inner_kernel
def gather_row(model: RowModel, n: int, row: RowBuffers) -> OpenRow:
    """Reduce row n to the tokens and the components whose allocation is open, and write these to ``row``.

    With q_fk = w_fk / (b_k + e_nk), a token of a feature with a single positive q_fk belongs to that component. It is
    removed from the document, and a_k grows by one. Components to which no open token can belong are removed as well.
    For the rest

        log T[Π_f (q_f·y)^x_f] = log_factor + log T'[Π_{open f} (q'_f·y)^x_f],  q'_f = q_f / max_k q_fk
    """
    n_components = model.dictionary.shape[1]
    rate_row = n if model.inverse_rates.shape[0] > 1 else 0
    log_factor = 0.0
    n_features = 0
    n_tokens = 0
    for k in range(n_components):
        row.settled[k] = 0
        row.components[k] = 0
    for position in range(model.indptr[n], model.indptr[n + 1]):
        count = int(model.values[position])
        log_factor += count * _token_weights(model, model.indices[position], rate_row, row.weights, n_features)
        n_positive = 0
        last = 0
        for k in range(n_components):
            if row.weights[n_features, k] > 0.0:
                n_positive += 1
                last = k
        if n_positive == 1:
            row.settled[last] += count
            row.owners[position - model.indptr[n]] = last
            continue
        row.owners[position - model.indptr[n]] = -1
        for k in range(n_components):
            if row.weights[n_features, k] > 0.0:
                row.components[k] = 1
        row.counts[n_features] = count
        row.positions[n_features] = position
        n_tokens += count
        n_features += 1
    n_open = 0
    for k in range(n_components):
        if row.settled[k] > 0:
            log_factor += log_gamma_difference(model.shape[k], row.settled[k])
        if row.components[k] == 1:
            for f in range(n_features):
                row.weights[f, n_open] = row.weights[f, k]
            row.shapes[n_open] = model.shape[k] + row.settled[k]
            row.components[n_open] = k
            n_open += 1
    total_shape = 0.0
    for k in range(n_open):
        total_shape += row.shapes[k]
    return OpenRow(n_features, n_open, n_tokens, log_factor, total_shape)


# Counted costs of the exact algorithms, row by row, before any of them runs.

# Measured costs of a row, of a line of the lattice, of one term of the other algorithms, and of a rule (cheap if rows
# share it). The unit is half a nanosecond: one multiply-add of a long lattice recursion.
_ROW = 1000.0
_LINE = 16.0
_SUBCOUNT_TERM = 6.0
_QUADRATURE_FACTOR = 0.3
_RULE = 3e5
_RULE_NODE_PAIR = 20.0
_SHARED_NODES = 64
_SHARED_RULE = 0.002
# Shapes for which the rules have been tested; the other algorithms have no such limits.
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
    """At most this many multiply-adds: pairs (m, y) of sub-counts, and the sums over components."""
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
    sub-counts``; ``out_shapes[i]`` has the shapes of the open components first. All start as zeros, and rows
    without open tokens keep them.
    """
    buffers = row_buffers(model.indptr, rows, model.dictionary.shape[1], model.stop)
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
