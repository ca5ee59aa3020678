"""Many particles in parallel: what all of them do with the same token, in vectorised loops over particles."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.jit import inline_kernel, inner_kernel
from partwise.kernels.streams import Stream, next_uint64, next_uniform
from partwise.likelihood.kernels.mode import Mode, new_mode
from partwise.likelihood.kernels.rows import Flag, Floats, Integers, OpenRow, RowBuffers

Labels = NDArray[np.uint16]
Places = NDArray[np.int32]

# Particles per loop: enough for long vectors. Caches would prefer fewer, but what all particles share costs more.
N_LANES = 192
# Components are padded to a multiple of this: fewer, longer steps of the inner loops.
GROUP = 4
TABLE_SIZE = 1024  # of logarithms

RANDOM = np.uint64(0)  # as a multiplier of `stratified_uniforms`
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_LARGEST = np.uint64(2**64 - 1)
_UNIFORM_SHIFT = np.uint64(11)
_UNIFORM_STEP = 2.0**-53
# What is done for every token is compiled into its loop: passing the 32 arrays of `Lanes` takes 0.2 microseconds.


class Lanes(NamedTuple):
    """Buffers for particles that draw the components of the same tokens in parallel; each particle is a lane.

    Attributes
    ----------
    weights, shapes
        q'_fk of the open features and components, and the shapes that tokens are drawn with, those of the prior or
        larger; both padded with zeros to a multiple of ``GROUP`` components.
    expected, ahead
        Expected allocations of a token of each feature, and how much of them is added to the prior's shapes.
    first_shapes
        Shapes of the first target of a path.
    counts, labels, tokens
        Tokens of each component in each lane; the component of each token in each lane; the feature of each token.
    log_weights, log_gammas, products
        Per lane: log weight since the last resampling; gamma functions of the target; factors not yet included.
    uniforms, rests, totals, drawn
        What `draw_components` needs and finds for one token.
    means, sizes
        Per island: log mean weight, effective sample size.
    parents, copied
        The lane that each lane is copied from, and a buffer for copying labels.
    places, starts, table
        Buffers for ordering tokens, and for logarithms.
    schedule
        The stages after which particles are resampled and moved.
    mode
        The mode of the posterior of the mixing proportions.
    stop
        Whether to return early.
    """

    weights: Floats
    shapes: Floats
    expected: Floats
    ahead: Floats
    first_shapes: Floats
    counts: Floats
    labels: Labels
    tokens: Places
    log_weights: Floats
    log_gammas: Floats
    products: Floats
    uniforms: Floats
    rests: Floats
    totals: Floats
    drawn: Integers
    means: Floats
    sizes: Floats
    parents: Integers
    copied: Labels
    places: Places
    starts: Places
    table: Floats
    schedule: NDArray[np.bool_]
    mode: Mode
    stop: Flag


def new_lanes(stop: Flag, n_features: int, n_components: int, n_tokens: int, n_lanes: int, n_stages: int = 0) -> Lanes:
    """Allocate buffers for rows of at most this many nonzeros and tokens."""
    padded = -(-n_components // GROUP) * GROUP
    log_weights, log_gammas, products, uniforms, rests, totals, means, sizes = np.zeros((8, n_lanes))
    return Lanes(
        weights=np.zeros((n_features, padded)),
        shapes=np.zeros(padded),
        expected=np.zeros((n_features, n_components)),
        ahead=np.zeros(n_components),
        first_shapes=np.zeros(n_components),
        counts=np.zeros((padded, n_lanes)),
        labels=np.zeros((n_tokens, n_lanes), np.uint16),
        tokens=np.zeros(n_tokens, np.int32),
        log_weights=log_weights,
        log_gammas=log_gammas,
        products=products,
        uniforms=uniforms,
        rests=rests,
        totals=totals,
        drawn=np.zeros(n_lanes, np.int64),
        means=means,
        sizes=sizes,
        parents=np.zeros(n_lanes, np.int64),
        copied=np.zeros(n_lanes, np.uint16),
        places=np.zeros(n_tokens, np.int32),
        starts=np.zeros(n_tokens + 1, np.int32),
        table=np.zeros(TABLE_SIZE),
        schedule=np.zeros(n_stages, np.bool_),
        mode=new_mode(n_features, n_components),
        stop=stop,
    )


def share_row(room: Lanes, n_lanes: int) -> Lanes:
    """Buffers for fewer lanes. They share what belongs to the row."""
    return room._replace(
        counts=room.counts[:, :n_lanes].copy(),
        labels=room.labels[:, :n_lanes].copy(),
        log_weights=np.zeros(n_lanes),
        log_gammas=np.zeros(n_lanes),
        products=np.zeros(n_lanes),
        uniforms=np.zeros(n_lanes),
        rests=np.zeros(n_lanes),
        totals=np.zeros(n_lanes),
        drawn=np.zeros(n_lanes, np.int64),
        parents=np.zeros(n_lanes, np.int64),
        copied=np.zeros(n_lanes, np.uint16),
    )


@inner_kernel
def set_weights(row: RowBuffers, size: OpenRow, room: Lanes) -> None:
    """``room.weights[:n_features] = row.weights[:n_features]``, padded with zeros."""
    for f in range(size.n_features):
        for k in range(room.shapes.size):
            room.weights[f, k] = row.weights[f, k] if k < size.n_components else 0.0


@inner_kernel
def empty_lanes(room: Lanes) -> None:
    """``room.shapes[:] = room.counts[:] = room.log_weights[:] = 0``."""
    for k in range(room.shapes.size):
        room.shapes[k] = 0.0
        for s in range(room.drawn.size):
            room.counts[k, s] = 0.0
    for s in range(room.drawn.size):
        room.log_weights[s] = 0.0


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


@inline_kernel
def stratified_uniforms(stream: Stream, multiplier: np.uint64, size: int, out: Floats) -> None:
    """``out[first : first + size] = (rng.random() + multiplier * np.arange(size) / size) % 1`` for each island.

    If multiplier and size have no common divisor, each of ``size`` equal pieces of (0, 1) gets one number, in an order
    that depends on the multiplier. Each number is uniform, and together they are spread as evenly as possible. Other
    multipliers are replaced by the next that fits; 0 means a random one. Numbers of different islands are independent,
    so islands of one particle have plain random numbers.
    """
    if size == 1:
        for s in range(out.size):
            out[s] = next_uniform(stream)
        return
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


@inline_kernel
def draw_components(f: int, n_open: int, room: Lanes) -> None:
    """``drawn = [rng.choice(K, p=normalise(weights[f] * (shapes + counts[:, s]))) for s in lanes]``, by ``uniforms``.

    ``totals`` are the sums of these weights, over the open components and zeros that pad them.
    """
    weights, shapes, counts = room.weights, room.shapes, room.counts
    rests, totals, drawn = room.rests, room.totals, room.drawn
    n_components, n_lanes = -(-n_open // GROUP) * GROUP, totals.size
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
        rests[s] = room.uniforms[s] * totals[s]
        drawn[s] = 0
    for k in range(0, n_components, GROUP):
        w0, w1, w2, w3 = weights[f, k], weights[f, k + 1], weights[f, k + 2], weights[f, k + 3]
        v0, v1, v2, v3 = w0 * shapes[k], w1 * shapes[k + 1], w2 * shapes[k + 2], w3 * shapes[k + 3]
        for s in range(n_lanes):
            r0 = rests[s] - (v0 + w0 * counts[k, s])
            r1 = r0 - (v1 + w1 * counts[k + 1, s])
            r2 = r1 - (v2 + w2 * counts[k + 2, s])
            r3 = r2 - (v3 + w3 * counts[k + 3, s])
            rests[s] = r3
            # The drawn component is the first at which nothing is left: count those before it.
            drawn[s] += int(r0 >= 0.0) + int(r1 >= 0.0) + int(r2 >= 0.0) + int(r3 >= 0.0)
    for s in range(n_lanes):
        if rests[s] >= 0.0:  # rounding let the draw slip past
            k = n_components - 1
            while k > 0 and weights[f, k] * (shapes[k] + counts[k, s]) <= 0.0:
                k -= 1
            drawn[s] = k


@inline_kernel
def take_token(token: int, room: Lanes) -> None:
    """``counts[drawn[s], s] += 1; labels[token, s] = drawn[s]`` for all lanes s."""
    for s in range(room.drawn.size):
        k = int(room.drawn[s])
        room.counts[k, s] += 1.0
        room.labels[token, s] = k


@inner_kernel
def gibbs_sweep(stream: Stream, n_tokens: int, n_open: int, n_particles: int, room: Lanes) -> None:
    """Draw the first ``n_tokens`` again in all lanes, one after the other, with uniform numbers spread over islands."""
    for token in range(n_tokens):
        if room.stop[0]:
            return
        for s in range(room.drawn.size):
            room.counts[room.labels[token, s], s] -= 1.0
        stratified_uniforms(stream, RANDOM, n_particles, room.uniforms)
        draw_components(room.tokens[token], n_open, room)
        take_token(token, room)


@inner_kernel
def log_gamma_sums(
    shapes: Floats, ahead: Floats, counts: Floats, n_components: int, table: Floats, out: Floats
) -> None:
    """``out = (gammaln((shapes + ahead)[:, None] + counts) - gammaln(shapes)[:, None]).sum(axis=0)``.

    All lanes have the same shapes, and counts are whole numbers in a narrow range, so logarithms are tabulated.
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
