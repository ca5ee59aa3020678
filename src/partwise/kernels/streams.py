"""Counter-based random streams inside kernels: Philox4x64-10 (Salmon, Moraes, Dror and Shaw, SC 2011).

A stream is one small array of uint64. A kernel makes it once, outside its loops, and moves it to each row::

    stream = new_stream()
    for n in range(start, stop):
        seek(stream, seed, stage_chain, iteration, n)
        ...  # next_uniform(stream), gamma(stream, shape), ...

with the three words of `partwise.core.keys.Key.words`. The numbers depend on nothing else: not on the
thread, and not on the order in which rows are visited.

Draws from other distributions are in `partwise.kernels.continuous`, `partwise.kernels.discrete` and
`partwise.kernels.categories`. Their parameters are not checked. Degenerate ones (shape 0, mean 0, all weight in
one place) give the limit.

Tables of the ziggurat method (Marsaglia and Tsang, 2000) for the standard normal and exponential densities.

Each density is covered by 256 layers of equal area. Layer 0 is the base strip with the tail beyond the last edge,
layer i > 0 the rectangle [0, edges[i]) between heights[i] and heights[i + 1].
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from partwise.kernels.arrays import Words
from partwise.kernels.jit import inline_kernel, inner_kernel, intrinsic, kernel

N_LAYERS = 256
NORMAL_TAIL = 3.6541528853610088
EXPONENTIAL_TAIL = 7.69711747013104972


def _layers(
    tail: float, area: float, density: Callable[[float], float], inverse: Callable[[float], float]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    edges = np.zeros(N_LAYERS + 1)
    edges[0] = area / density(tail)  # as wide as a rectangle with the area of the base strip and its tail
    edges[1] = tail
    for i in range(2, N_LAYERS):
        edges[i] = inverse(area / edges[i - 1] + density(edges[i - 1]))
    heights = np.array([density(edge) for edge in edges])
    heights[0] = 0.0
    return edges, heights


def _normal_density(x: float) -> float:
    return math.exp(-0.5 * x * x)


NORMAL_EDGES, NORMAL_HEIGHTS = _layers(
    NORMAL_TAIL,
    NORMAL_TAIL * _normal_density(NORMAL_TAIL) + math.sqrt(math.pi / 2.0) * math.erfc(NORMAL_TAIL / math.sqrt(2.0)),
    _normal_density,
    lambda height: math.sqrt(-2.0 * math.log(height)),
)
EXPONENTIAL_EDGES, EXPONENTIAL_HEIGHTS = _layers(
    EXPONENTIAL_TAIL,
    (EXPONENTIAL_TAIL + 1.0) * math.exp(-EXPONENTIAL_TAIL),
    lambda x: math.exp(-x),
    lambda height: -math.log(height),
)

# Step of a 53-bit integer in each layer.
NORMAL_WIDTHS = NORMAL_EDGES * 2.0**-53
EXPONENTIAL_WIDTHS = EXPONENTIAL_EDGES * 2.0**-53


Stream = npt.NDArray[np.uint64]

# Words of a stream: key (0, 1), counter (2 to 5), buffer (6 to 13), position in the buffer (14).
_POSITION = 14
_STREAM_SIZE = 15
_BUFFER_SIZE = np.uint64(8)

_MULTIPLIER_0 = np.uint64(0xD2E7470EE14C6C93)
_MULTIPLIER_1 = np.uint64(0xCA5A826395121157)
_WEYL_0 = np.uint64(0x9E3779B97F4A7C15)
_WEYL_1 = np.uint64(0xBB67AE8584CAA73B)
_ROUNDS = 10

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_BUFFER = np.uint64(6)
_UNIFORM_SHIFT = np.uint64(11)
_UNIFORM_STEP = 2.0**-53
_LAYER_MASK = np.uint64(255)
_SIGN_BIT = np.uint64(256)
_SIGN_SHIFT = np.uint64(7)


def _wide_product_builder(typing_context: Any, left: Any, right: Any) -> Any:
    from llvmlite import ir  # type: ignore[import-untyped]  # has no types
    from numba import types

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, wide = ir.IntType(64), ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return context.make_tuple(builder, signature.return_type, (high, builder.trunc(product, word)))

    words: Any = types.UniTuple(types.uint64, 2)  # type: ignore[no-untyped-call]  # of Numba
    return words(types.uint64, types.uint64), codegen


# Upper and lower word of the 128-bit product, in one machine instruction where 32-bit halves would take many.
_wide_product: Any = intrinsic(_wide_product_builder)


@kernel
def new_stream() -> Stream:
    """``np.zeros(15, np.uint64)``: room for one stream, to be addressed by `seek` before the first draw."""
    stream = np.zeros(_STREAM_SIZE, np.uint64)
    stream[_POSITION] = _BUFFER_SIZE
    return stream


@inner_kernel
def seek(stream: Stream, seed: np.uint64, stage_chain: np.uint64, iteration: np.uint64, row: int) -> None:
    """``bits = np.random.Philox(key=[seed, stage_chain], counter=[0, row, iteration, 0] - 1)``: go to a row's start."""
    stream[0] = seed
    stream[1] = stage_chain
    stream[2] = _ZERO
    stream[3] = row
    stream[4] = iteration
    stream[5] = _ZERO
    stream[_POSITION] = _BUFFER_SIZE


@inner_kernel
def seek_row(stream: Stream, words: Words, row: int) -> None:
    """As `seek`, with the words of a key in one."""
    seek(stream, words[0], words[1], words[2], row)


@inner_kernel
def _refill(stream: Stream) -> None:
    # Two consecutive blocks, a and b, in parallel. Their multiplications are independent, so the second costs little
    # more than half of the first.
    key_0, key_1 = stream[0], stream[1]
    a_0, a_1, a_2, a_3 = stream[2], stream[3], stream[4], stream[5]
    b_0, b_1, b_2, b_3 = a_0 + _ONE, a_1, a_2, a_3
    stream[2] = b_0 + _ONE
    for _ in range(_ROUNDS):
        a_high_0, a_low_0 = _wide_product(_MULTIPLIER_0, a_0)
        a_high_2, a_low_2 = _wide_product(_MULTIPLIER_1, a_2)
        b_high_0, b_low_0 = _wide_product(_MULTIPLIER_0, b_0)
        b_high_2, b_low_2 = _wide_product(_MULTIPLIER_1, b_2)
        a_0, a_1, a_2, a_3 = a_high_2 ^ a_1 ^ key_0, a_low_2, a_high_0 ^ a_3 ^ key_1, a_low_0
        b_0, b_1, b_2, b_3 = b_high_2 ^ b_1 ^ key_0, b_low_2, b_high_0 ^ b_3 ^ key_1, b_low_0
        key_0 += _WEYL_0
        key_1 += _WEYL_1
    stream[6], stream[7], stream[8], stream[9] = a_0, a_1, a_2, a_3
    stream[10], stream[11], stream[12], stream[13] = b_0, b_1, b_2, b_3


@inline_kernel
def next_uint64(stream: Stream) -> np.uint64:
    """``bits.random_raw()``: the next 64 random bits."""
    position = stream[_POSITION]
    if position == _BUFFER_SIZE:
        _refill(stream)
        position = _ZERO
    stream[_POSITION] = position + _ONE
    word: np.uint64 = stream[_BUFFER + position]
    return word


@inline_kernel
def next_uniform(stream: Stream) -> float:
    """``max(bits.random_raw() >> 11, 0.5) / 2**53``: uniform with 53 bits, strictly between 0 and 1."""
    return max(float(np.int64(next_uint64(stream) >> _UNIFORM_SHIFT)), 0.5) * _UNIFORM_STEP


@inline_kernel
def next_exponential(stream: Stream) -> float:
    """``rng.standard_exponential()``: by the ziggurat method; strictly positive."""
    offset = 0.0
    while True:
        bits = next_uint64(stream)
        layer = bits & _LAYER_MASK
        x = max(float(np.int64(bits >> _UNIFORM_SHIFT)), 0.5) * float(EXPONENTIAL_WIDTHS[layer])
        if x < EXPONENTIAL_EDGES[layer + _ONE]:
            return offset + x
        if layer == _ZERO:
            offset += EXPONENTIAL_TAIL  # the tail of an exponential is an exponential
        elif _under_exponential(stream, layer, x):
            return offset + x


@inline_kernel
def next_normal(stream: Stream) -> float:
    """``rng.standard_normal()``: by the ziggurat method with 256 layers (Marsaglia and Tsang, 2000)."""
    while True:
        bits = next_uint64(stream)
        layer = bits & _LAYER_MASK
        sign = 1.0 - float(np.int64((bits & _SIGN_BIT) >> _SIGN_SHIFT))  # arithmetic, as a branch would be a coin toss
        x = float(np.int64(bits >> _UNIFORM_SHIFT)) * float(NORMAL_WIDTHS[layer])
        if x < NORMAL_EDGES[layer + _ONE]:
            return sign * x
        if layer == _ZERO:
            return sign * _normal_tail(stream)
        if _under_normal(stream, layer, x):
            return sign * x


# Rare cases are separate functions, so that common ones stay small enough to be inlined.


@inner_kernel
def _under_exponential(stream: Stream, layer: np.uint64, x: float) -> bool:
    low, high = float(EXPONENTIAL_HEIGHTS[layer]), float(EXPONENTIAL_HEIGHTS[layer + _ONE])
    return low + next_uniform(stream) * (high - low) < math.exp(-x)


@inner_kernel
def _under_normal(stream: Stream, layer: np.uint64, x: float) -> bool:
    low, high = float(NORMAL_HEIGHTS[layer]), float(NORMAL_HEIGHTS[layer + _ONE])
    return low + next_uniform(stream) * (high - low) < math.exp(-0.5 * x * x)


@inner_kernel
def _normal_tail(stream: Stream) -> float:
    # Beyond the last edge, exponential proposals (Marsaglia, 1964).
    while True:
        excess = next_exponential(stream) / NORMAL_TAIL
        if 2.0 * next_exponential(stream) > excess * excess:
            return NORMAL_TAIL + excess
