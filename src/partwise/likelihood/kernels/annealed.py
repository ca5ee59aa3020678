"""Annealed importance sampling of the components of tokens, many runs side by side."""

import math

from partwise.kernels.jit import inner_kernel
from partwise.kernels.streams import Stream, seek
from partwise.likelihood.kernels.lanes import (
    RANDOM,
    Lanes,
    draw_components,
    empty_lanes,
    gibbs_sweep,
    log_gamma_sums,
    set_weights,
    stratified_uniforms,
    take_token,
)
from partwise.likelihood.kernels.mode import find_mode
from partwise.likelihood.kernels.rows import Floats, Integers, OpenRow, RowBuffers, RowModel, Words, gather_row
from partwise.likelihood.kernels.tokens import in_turn

# The path begins with shapes raised by this many times the tokens that each component can expect. With less, the first
# weights are uneven; with more, the path is longer.
_FIRST_TOKENS = 3.0
_ALONE = 1  # particle in each island: runs are independent


@inner_kernel
def _prepare(row: RowBuffers, size: OpenRow, room: Lanes) -> None:
    """The first target, the same for all runs of a row."""
    set_weights(row, size, room)
    find_mode(row, size, row.shapes, room.mode)
    for k in range(size.n_components):
        room.first_shapes[k] = row.shapes[k] + _FIRST_TOKENS * room.mode.totals[k]


@inner_kernel
def _set_shapes(row: RowBuffers, n_open: int, share: float, room: Lanes) -> None:
    """``shapes = first_shapes ** (1 - share) * row.shapes ** share``, and the gamma functions of the target."""
    for k in range(n_open):
        room.shapes[k] = row.shapes[k]
        if share < 1.0:
            room.shapes[k] *= (room.first_shapes[k] / row.shapes[k]) ** (1.0 - share)
    log_gamma_sums(room.shapes, room.ahead, room.counts, n_open, room.table, room.rests)
    for s in range(room.drawn.size):
        room.log_weights[s] += room.rests[s] - room.log_gammas[s]
        room.log_gammas[s] = room.rests[s]


@inner_kernel
def _begin(stream: Stream, row: RowBuffers, size: OpenRow, room: Lanes) -> None:
    """Draw all tokens in turn under the first target, with weights that correct for tokens still to come."""
    n_open = size.n_components
    in_turn(row.counts, size.n_features, room.tokens)
    empty_lanes(room)
    for k in range(n_open):
        room.shapes[k] = room.first_shapes[k]
    for i in range(size.n_tokens):
        if room.stop[0]:
            return
        stratified_uniforms(stream, RANDOM, _ALONE, room.uniforms)
        draw_components(room.tokens[i], n_open, room)
        take_token(i, room)
        for s in range(room.drawn.size):
            room.log_weights[s] += math.log(room.totals[s])
    log_gamma_sums(room.shapes, room.ahead, room.counts, n_open, room.table, room.log_gammas)


@inner_kernel
def _move(stream: Stream, n_open: int, n_tokens: int, room: Lanes) -> None:
    """One collapsed Gibbs sweep in all lanes, under the present target."""
    gibbs_sweep(stream, n_tokens, n_open, _ALONE, room)
    log_gamma_sums(room.shapes, room.ahead, room.counts, n_open, room.table, room.log_gammas)


@inner_kernel
def annealed_rows(
    model: RowModel,
    rows: Integers,
    n_temperatures: int,
    words: Words,
    stream: Stream,
    row: RowBuffers,
    room: Lanes,
    out: Floats,
) -> None:
    """``out[i, s] = log T[prod_f (q_f . y)^x_f]`` of row ``rows[i]``, estimated by annealed run s (Neal 2001).

    Runs are over the components of single tokens. The target is prod_i q_(f_i z_i) prod_k Γ(c_k + L_k) / Γ(c_k), with
    shapes c_k that go from large values, in proportion to the expected allocations, to a_k. The number of runs is a
    multiple of the lanes. Moves are collapsed Gibbs sweeps. There is no look-ahead: ``room.ahead`` stays 0.
    """
    for i in range(rows.size):
        size = gather_row(model, rows[i], row)
        for s in range(out.shape[1]):
            out[i, s] = size.log_factor
        if size.n_tokens == 0:
            continue
        _prepare(row, size, room)
        seek(stream, words[0], words[1], words[2], rows[i])
        for first in range(0, out.shape[1], room.drawn.size):
            _begin(stream, row, size, room)
            for t in range(1, n_temperatures + 1):
                if room.stop[0]:
                    return
                _set_shapes(row, size.n_components, t / n_temperatures, room)
                if t < n_temperatures:
                    _move(stream, size.n_components, size.n_tokens, room)
            for s in range(room.drawn.size):
                out[i, first + s] += room.log_weights[s]
