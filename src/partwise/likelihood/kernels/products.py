"""Products of powers of many positive numbers, kept within the range of doubles."""

from __future__ import annotations

import math

from partwise.kernels.inner import inner_kernel
from partwise.likelihood.kernels.rows import Floats, Integers

SMALLEST = -1000  # exponent of two down to which products are taken without looking


@inner_kernel
def exponent_sum(bits: Integers, counts: Integers, n_features: int) -> int:
    """``sum(counts * floor(log2(x)))`` of positive doubles, from their bits."""
    total = 0
    for f in range(n_features):
        total += ((bits[f] >> 52) - 1023) * counts[f]
    return total


@inner_kernel
def plain_products(
    forms: Floats,
    base: Floats,
    rest: float,
    bit_ends: Integers,
    n_bits: int,
    bit_features: Integers,
    n_points: int,
    out: Floats,
) -> None:
    """``out = prod((base[:, None] + rest * forms) ** counts[:, None], axis=0)``.

    ``bit_features`` lists the features whose count has the highest bit, then those with the next one, and so on.
    """
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
def log_products(
    forms: Floats,
    base: Floats,
    rest: float,
    low_bits: Integers,
    counts: Integers,
    n_features: int,
    n_points: int,
    powers: Floats,
    products: Floats,
    out: Floats,
) -> None:
    """``out += log(what plain_products gives)``: products move to ``out`` before they can leave the range of doubles.

    ``low_bits`` are the bits of the smallest form of each feature over the points.
    """
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
