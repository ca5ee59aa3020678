"""Quadrature: E_{θ ~ Dirichlet(a)} Π_f (q_f·θ)^x_f by a product of Gauss rules on the broken stick.

θ_1 = t_1, θ_2 = (1 - t_1) t_2, ..., with t_i ~ Beta(a_i, a_{i+1} + ... + a_K) independent, and the product is a
polynomial of degree L in each t_i: ⌊L/2⌋ + 1 nodes per stick make it exact. All terms are positive.

The last sticks form one table of points; a loop visits the nodes of the outer ones. With the outer sticks fixed,
q_f·θ = b_f + r (q_f·point). Powers x_f are computed together, bit by bit, over blocks of points that fit into the
first-level cache.
"""

import math
from typing import NamedTuple

import numpy as np

from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.jit import inline_kernel, inner_kernel, kernel
from partwise.likelihood.kernels.rows import Floats, Integers, RowModel, gather_row, row_buffers

# Products of powers of many positive numbers, kept within the range of doubles.

SMALLEST = -1000  # exponent of two down to which products are taken without looking


Pair = tuple[Floats, Floats]
Row = tuple[Integers, Integers, int]
Bits = tuple[Integers, int, Integers]
"""What `list_bits` found: where the features of each bit end, the number of bits, and the features."""


@inner_kernel
def exponent_sum(bits: Integers, counts: Integers, n_features: int) -> int:
    """``sum(counts * floor(log2(x)))`` of positive doubles, from their bits."""
    total = 0
    for f in range(n_features):
        total += ((bits[f] >> 52) - 1023) * counts[f]
    return total


@inner_kernel
def plain_products(forms: Floats, base: Floats, rest: float, bits: Bits, n_points: int, out: Floats) -> None:
    """``out = prod((base[:, None] + rest * forms) ** counts[:, None], axis=0)``.

    ``bit_features`` lists the features whose count has the highest bit, then those with the next one, and so on.
    """
    bit_ends, n_bits, bit_features = bits
    for j in range(n_points):
        out[j] = 1.0
    start = 0
    for bit in range(n_bits):
        if bit > 0:
            for j in range(n_points):
                out[j] *= out[j]
        i = start
        while i + 4 <= bit_ends[bit]:
            f0, f1, f2, f3 = bit_features[i], bit_features[i + 1], bit_features[i + 2], bit_features[i + 3]
            b0, b1, b2, b3 = base[f0], base[f1], base[f2], base[f3]
            for j in range(n_points):
                left = (b0 + rest * forms[f0, j]) * (b1 + rest * forms[f1, j])
                out[j] *= left * ((b2 + rest * forms[f2, j]) * (b3 + rest * forms[f3, j]))
            i += 4
        while i < bit_ends[bit]:
            f0 = bit_features[i]
            b0 = base[f0]
            for j in range(n_points):
                out[j] *= b0 + rest * forms[f0, j]
            i += 1
        start = bit_ends[bit]


@inner_kernel
def log_products(forms: Floats, base: Floats, rest: float, row: Row, n_points: int, buffers: Pair, out: Floats) -> None:
    """``out += log(what plain_products gives)``: products move to ``out`` before they can leave the range of doubles.

    ``low_bits`` are the bits of the smallest form of each feature over the points.
    """
    (low_bits, counts, n_features), (powers, products) = row, buffers
    for j in range(n_points):
        products[j] = 1.0
    room = SMALLEST
    for f in range(n_features):
        b0 = base[f]
        need = ((low_bits[f] >> 52) - 1023) * counts[f]
        if need < SMALLEST:
            for j in range(n_points):
                out[j] += counts[f] * math.log(b0 + rest * forms[f, j])
            continue
        if need < room:
            for j in range(n_points):
                out[j] += math.log(products[j])
                products[j] = 1.0
            room = SMALLEST
        room -= need
        for j in range(n_points):
            powers[j] = b0 + rest * forms[f, j]
        bits = counts[f]
        while True:
            if bits & 1:
                for j in range(n_points):
                    products[j] *= powers[j]
            bits >>= 1
            if bits == 0:
                break
            for j in range(n_points):
                powers[j] *= powers[j]
    for j in range(n_points):
        out[j] += math.log(products[j])


@inner_kernel
def list_bits(counts: Integers, n_features: int, bit_ends: Integers, bit_features: Integers) -> int:
    """List the features by the bits of their counts, the highest bit first; returns the number of bits."""
    largest = 0
    for f in range(n_features):
        largest = max(largest, counts[f])
    n_bits = 0
    while largest >> n_bits:
        n_bits += 1
    end = 0
    for bit in range(n_bits):
        for f in range(n_features):
            if (counts[f] >> (n_bits - 1 - bit)) & 1:
                bit_features[end] = f
                end += 1
        bit_ends[bit] = end
    return n_bits


MANY_POINTS = 64  # the inner sticks make at least this many points where there are this many
_BLOCK = 128  # points that are processed at once; the same for all rows, so that a row's sum does not depend on others


class StickRules(NamedTuple):
    """Rules of the sticks: sticks x nodes; complements are 1 - node."""

    nodes: Floats
    complements: Floats
    log_weights: Floats


class Points(NamedTuple):
    """Points of the inner sticks, in blocks.

    Attributes
    ----------
    shares
        Components x points.
    log_weights, weights
        Of the points; weights are relative to the largest of their block.
    block_weights, spreads
        Logarithm of the largest weight of each block, and how far below it the smallest is, in powers of two.
    """

    shares: Floats
    log_weights: Floats
    weights: Floats
    block_weights: Floats
    spreads: Floats


class Outer(NamedTuple):
    """The current outer sticks: position, remaining length, log weight and b_f at each level."""

    positions: Integers
    rests: Floats
    log_weights: Floats
    bases: Floats


@kernel
def make_points(rules: StickRules) -> Points:
    """Make the inner points from the last sticks: as few sticks as give enough points."""
    n_sticks, n_nodes = rules.nodes.shape
    n_inner = 1
    n_points = n_nodes
    while n_inner < n_sticks and n_points < MANY_POINTS:
        n_inner += 1
        n_points *= n_nodes
    shares = np.empty((n_inner + 1, n_points))
    log_weights = np.zeros(n_points)
    for point in range(n_points):
        rest = 1.0
        number = point
        for i in range(n_inner):
            stick = n_sticks - n_inner + i
            node = number % n_nodes
            number //= n_nodes
            shares[i, point] = rest * rules.nodes[stick, node]
            rest *= rules.complements[stick, node]
            log_weights[point] += rules.log_weights[stick, node]
        shares[n_inner, point] = rest
    n_blocks = (n_points + _BLOCK - 1) // _BLOCK
    weights, block_weights, spreads = np.empty(n_points), np.empty(n_blocks), np.empty(n_blocks)
    for i in range(n_blocks):
        block_weights[i], smallest = -math.inf, math.inf
        for j in range(i * _BLOCK, min((i + 1) * _BLOCK, n_points)):
            block_weights[i] = max(block_weights[i], log_weights[j])
            smallest = min(smallest, log_weights[j])
        spreads[i] = (smallest - block_weights[i]) / math.log(2.0)
        for j in range(i * _BLOCK, min((i + 1) * _BLOCK, n_points)):
            weights[j] = math.exp(log_weights[j] - block_weights[i])
    return Points(shares, log_weights, weights, block_weights, spreads)


@inner_kernel
def _move_outer(first: int, rules: StickRules, weights: Floats, n_features: int, outer: Outer) -> None:
    """Recompute the levels of the outer sticks from ``first`` on."""
    for i in range(first, outer.positions.size):
        node = outer.positions[i]
        share = outer.rests[i] * rules.nodes[i, node]
        outer.rests[i + 1] = outer.rests[i] * rules.complements[i, node]
        outer.log_weights[i + 1] = outer.log_weights[i] + rules.log_weights[i, node]
        for f in range(n_features):
            outer.bases[i + 1, f] = outer.bases[i, f] + weights[f, i] * share


@inner_kernel
def _fill_forms(
    weights: Floats, n_features: int, shares: Floats, places: tuple[int, int, int], out: Floats, out_smallest: Floats
) -> None:
    """``out = weights[:, first_component:] @ shares[:, start:start + n_points]``, and its least value per feature."""
    first_component, start, n_points = places
    for f in range(n_features):
        for j in range(n_points):
            out[f, j] = 0.0
        for i in range(shares.shape[0]):
            weight = weights[f, first_component + i]
            for j in range(n_points):
                out[f, j] += weight * shares[i, start + j]
        smallest = math.inf
        for j in range(n_points):
            smallest = min(smallest, out[f, j])
        out_smallest[f] = smallest


@inline_kernel
def _next_outer(positions: Integers, n_nodes: int) -> int:
    """Go to the next nodes of the outer sticks; returns the first level that changes, -1 at the end."""
    i = positions.size - 1
    while i >= 0 and positions[i] == n_nodes - 1:
        positions[i] = 0
        i -= 1
    if i >= 0:
        positions[i] += 1
    return i


@kernel
def quadrature_rows(model: RowModel, rows: Integers, rules: StickRules, out: Floats) -> None:
    """``out[rows] = log(T[Π_f (q_f·y)^x_f])``, for rows whose open components and tokens the rules are made for."""
    buffers = row_buffers(model.indptr, rows, model.dictionary.shape[1], model.stop)
    weights, counts = buffers.weights, buffers.counts
    most_features = counts.size
    n_sticks, n_nodes = rules.nodes.shape
    points = make_points(rules)
    n_inner = points.shares.shape[0] - 1
    n_outer = n_sticks - n_inner
    outer = Outer(
        np.zeros(n_outer, np.int64), np.ones(n_outer + 1), np.zeros(n_outer + 1), np.zeros((n_outer + 1, most_features))
    )
    forms = np.empty((most_features, _BLOCK))
    smallest, lows = np.empty(most_features), np.empty(most_features)
    low_bits = lows.view(np.int64)
    products, powers, logs = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    bit_ends, bit_features = np.empty(64, np.int64), np.empty(64 * most_features, np.int64)
    for n in rows:
        size = gather_row(model, n, buffers)
        n_features = size.n_features
        n_bits = list_bits(counts, n_features, bit_ends, bit_features)
        largest = -math.inf
        total = 0.0
        for number in range(points.spreads.size):
            start = number * _BLOCK
            n_points = min(_BLOCK, points.log_weights.size - start)
            _fill_forms(weights, n_features, points.shares, (n_outer, start, n_points), forms, smallest)
            level = 0
            for i in range(n_outer):
                outer.positions[i] = 0
            while level >= 0:
                if model.stop[0]:
                    return
                _move_outer(level, rules, weights, n_features, outer)
                base, rest = outer.bases[n_outer], outer.rests[n_outer]
                for f in range(n_features):
                    lows[f] = base[f] + rest * smallest[f]
                value = 0.0
                if exponent_sum(low_bits, counts, n_features) + points.spreads[number] > SMALLEST:
                    plain_products(forms, base, rest, (bit_ends, n_bits, bit_features), n_points, products)
                    for j in range(n_points):
                        value += products[j] * points.weights[start + j]
                    log_term = points.block_weights[number] + math.log(value)
                else:
                    for j in range(n_points):
                        logs[j] = points.log_weights[start + j]
                    log_products(forms, base, rest, (low_bits, counts, n_features), n_points, (powers, products), logs)
                    log_term = -math.inf
                    for j in range(n_points):
                        log_term = max(log_term, logs[j])
                    for j in range(n_points):
                        value += math.exp(logs[j] - log_term)
                    log_term += math.log(value)
                log_term += outer.log_weights[n_outer]
                if log_term > largest:
                    total = total * math.exp(largest - log_term) + 1.0
                    largest = log_term
                else:
                    total += math.exp(log_term - largest)
                level = _next_outer(outer.positions, n_nodes)
        log_sum = largest + math.log(total)
        out[n] = size.log_factor + log_gamma_difference(size.total_shape, size.n_tokens) + log_sum
