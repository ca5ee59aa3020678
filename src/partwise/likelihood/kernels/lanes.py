"""Many particles side by side: what all of them do with the same token, in loops over particles that vectorise."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.inner import inner_kernel
from partwise.kernels.streams import Stream, next_uint64
from partwise.likelihood.kernels.rows import Floats

# Components are padded to a multiple of this: fewer, longer steps of the inner loops.
GROUP = 4
TABLE_SIZE = 1024  # of logarithms

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_LARGEST = np.uint64(2**64 - 1)
_UNIFORM_SHIFT = np.uint64(11)
_UNIFORM_STEP = 2.0**-53


@inner_kernel
def _coprime(number: np.uint64, size: int) -> int:
    """The first of ``number % size`` and what follows that has no divisor in common with ``size``."""
    candidate = int(number % np.uint64(size))
    while True:
        a, b = size, candidate
        while b > 0:
            a, b = b, a % b
        if a == 1:
            return candidate
        candidate += 1


@inner_kernel
def stratified_uniforms(stream: Stream, multiplier: np.uint64, size: int, out: Floats) -> None:
    """``out[first : first + size] = (rng.random() + multiplier * np.arange(size) / size) % 1`` for each island.

    With a multiplier that has no divisor in common with the size there is one number in each of that many equal parts
    of (0, 1), in an order that the multiplier gives: each number is uniform, all together are as even as can be.
    Another multiplier gives way to the next that does; 0 stands for a random one. Islands have independent numbers.
    """
    whole = np.uint64(size) & np.uint64(size - 1) == _ZERO
    shift = _ZERO
    while (_ONE << shift) < size:
        shift += _ONE
    shift = np.uint64(64) - shift
    part = _LARGEST // np.uint64(size)
    for first in range(0, out.size, size):
        place = next_uint64(stream)
        chosen = multiplier if multiplier > _ZERO else next_uint64(stream) | _ONE
        if whole:  # the remainder of a division by the size is what the shift leaves
            step = chosen << shift
            for s in range(size):
                number = (place + np.uint64(s) * step) >> _UNIFORM_SHIFT
                out[first + s] = (float(np.int64(number)) + 0.5) * _UNIFORM_STEP
        else:
            stride, position = _coprime(chosen, size), 0
            for s in range(size):
                number = (place + np.uint64(position) * part) >> _UNIFORM_SHIFT
                out[first + s] = (float(np.int64(number)) + 0.5) * _UNIFORM_STEP
                position += stride
                if position >= size:
                    position -= size


@inner_kernel
def draw_components(
    weights: Floats,
    f: int,
    shapes: Floats,
    counts: Floats,
    n_components: int,
    uniforms: Floats,
    rests: Floats,
    totals: Floats,
    drawn: Floats,
) -> None:
    """``drawn = [rng.choice(K, p=normalise(weights[f] * (shapes + counts[:, s]))) for s in lanes]``, by ``uniforms``.

    ``totals`` are the sums of these weights. The number of components is padded to a multiple of four by zeros.
    """
    n_lanes = totals.size
    shared = 0.0
    for k in range(n_components):
        shared += weights[f, k] * shapes[k]
    for s in range(n_lanes):
        totals[s] = shared
    for k in range(0, n_components, GROUP):
        w0, w1, w2, w3 = weights[f, k], weights[f, k + 1], weights[f, k + 2], weights[f, k + 3]
        for s in range(n_lanes):
            totals[s] += w0 * counts[k, s] + w1 * counts[k + 1, s] + w2 * counts[k + 2, s] + w3 * counts[k + 3, s]
    for s in range(n_lanes):
        rests[s] = uniforms[s] * totals[s]
        drawn[s] = 0.0
    for k in range(0, n_components, GROUP):
        w0, w1, w2, w3 = weights[f, k], weights[f, k + 1], weights[f, k + 2], weights[f, k + 3]
        v0, v1, v2, v3 = w0 * shapes[k], w1 * shapes[k + 1], w2 * shapes[k + 2], w3 * shapes[k + 3]
        for s in range(n_lanes):
            r0 = rests[s] - (v0 + w0 * counts[k, s])
            r1 = r0 - (v1 + w1 * counts[k + 1, s])
            r2 = r1 - (v2 + w2 * counts[k + 2, s])
            r3 = r2 - (v3 + w3 * counts[k + 3, s])
            rests[s] = r3
            # The component drawn is the first at which nothing is left: count those before it.
            drawn[s] += (
                (1.0 if r0 >= 0.0 else 0.0)
                + (1.0 if r1 >= 0.0 else 0.0)
                + (1.0 if r2 >= 0.0 else 0.0)
                + (1.0 if r3 >= 0.0 else 0.0)
            )
    for s in range(n_lanes):
        if rests[s] >= 0.0:  # rounding let the draw slip past
            k = n_components - 1
            while k > 0 and weights[f, k] * (shapes[k] + counts[k, s]) <= 0.0:
                k -= 1
            drawn[s] = k


@inner_kernel
def log_gamma_sums(
    shapes: Floats, ahead: Floats, counts: Floats, n_components: int, table: Floats, out: Floats
) -> None:
    """``out = (gammaln((shapes + ahead)[:, None] + counts) - gammaln(shapes)[:, None]).sum(axis=0)``.

    All lanes have the same shapes, and whole counts that are mostly in a narrow range: logarithms are tabulated.
    """
    n_lanes = out.size
    for s in range(n_lanes):
        out[s] = 0.0
    for k in range(n_components):
        low, high = counts[k, 0], counts[k, 0]
        for s in range(n_lanes):
            low = min(low, counts[k, s])
            high = max(high, counts[k, s])
        if high - low < table.size:
            table[0] = log_gamma_difference(shapes[k], ahead[k] + low)
            for i in range(int(high - low)):
                table[i + 1] = table[i] + math.log(shapes[k] + ahead[k] + low + i)
            for s in range(n_lanes):
                out[s] += table[int(counts[k, s] - low)]
        else:
            for s in range(n_lanes):
                out[s] += log_gamma_difference(shapes[k], ahead[k] + counts[k, s])
