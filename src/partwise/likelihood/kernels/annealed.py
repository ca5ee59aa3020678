"""Annealed importance sampling of the components of tokens, many runs side by side."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.kernels.inner import inner_kernel
from partwise.kernels.streams import Stream, next_uniform, seek
from partwise.likelihood.kernels.expected import expected_allocations
from partwise.likelihood.kernels.lanes import GROUP, TABLE_SIZE, draw_components, log_gamma_sums
from partwise.likelihood.kernels.particles import Labels
from partwise.likelihood.kernels.rows import Floats, Integers, RowBuffers, RowModel, gather_row
from partwise.likelihood.kernels.token_order import in_turn

# Runs that share their loops, at most.
N_LANES = 64

# The path begins with shapes that are raised by so many times the tokens that each component may expect: with fewer the
# first weights are uneven, with more the path is longer.
_FIRST_TOKENS = 3.0


class Runs(NamedTuple):
    """Room for annealed runs that go side by side; each is a lane.

    Attributes
    ----------
    weights, shapes
        q'_fk of the open features and components, and the shapes of the present target; both padded with zeros to a
        multiple of ``GROUP`` components.
    expected, first_shapes
        Expected allocations of a token of each feature, and the shapes of the first target.
    counts, labels, tokens
        Tokens of each component in each lane; the component of each token in each lane; the feature of each token.
    log_weights, log_gammas
        Of each lane: log weight, and the gamma functions of the target.
    uniforms, rests, totals, drawn
        What `draw_components` needs and finds for one token.
    zeros, table
        Room for `log_gamma_sums`.
    """

    weights: Floats
    shapes: Floats
    expected: Floats
    first_shapes: Floats
    counts: Floats
    labels: Labels
    tokens: Integers
    log_weights: Floats
    log_gammas: Floats
    uniforms: Floats
    rests: Floats
    totals: Floats
    drawn: Floats
    zeros: Floats
    table: Floats


def new_runs(n_features: int, n_components: int, n_tokens: int, n_lanes: int) -> Runs:
    """Room for rows of at most so many nonzeros and tokens."""
    padded = -(-n_components // GROUP) * GROUP
    log_weights, log_gammas, uniforms, rests, totals, drawn = np.zeros((6, n_lanes))
    return Runs(
        np.zeros((n_features, padded)),
        np.zeros(padded),
        np.zeros((n_features, n_components)),
        np.zeros(n_components),
        np.zeros((padded, n_lanes)),
        np.zeros((n_tokens, n_lanes), np.uint16),
        np.zeros(n_tokens, np.int64),
        log_weights,
        log_gammas,
        uniforms,
        rests,
        totals,
        drawn,
        np.zeros(n_components),
        np.zeros(TABLE_SIZE),
    )


@inner_kernel
def _draw(stream: Stream, token: int, n_padded: int, room: Runs) -> None:
    """``labels[token] = [rng.choice(K, p=normalise(weights[f] * (shapes + counts[:, s]))) for s in lanes]``.

    f is the token's feature. Counts follow; ``totals`` are the sums of the weights.
    """
    for s in range(room.drawn.size):
        room.uniforms[s] = next_uniform(stream)
    draw_components(
        room.weights,
        room.tokens[token],
        room.shapes,
        room.counts,
        n_padded,
        room.uniforms,
        room.rests,
        room.totals,
        room.drawn,
    )
    for s in range(room.drawn.size):
        k = int(room.drawn[s])
        room.counts[k, s] += 1.0
        room.labels[token, s] = k


@inner_kernel
def _prepare(row: RowBuffers, n_features: int, n_open: int, room: Runs) -> None:
    """The first target, the same for all runs of a row."""
    for f in range(n_features):
        for k in range(room.shapes.size):
            room.weights[f, k] = row.weights[f, k] if k < n_open else 0.0
    expected_allocations(row.weights, row.counts, row.shapes, n_features, n_open, room.first_shapes, room.expected)
    for k in range(n_open):
        room.first_shapes[k] = row.shapes[k] + _FIRST_TOKENS * max(room.first_shapes[k], 0.0)


@inner_kernel
def _set_shapes(row: RowBuffers, n_open: int, share: float, room: Runs) -> None:
    """``shapes = first_shapes ** (1 - share) * row.shapes ** share``, and the gamma functions of the target."""
    for k in range(n_open):
        room.shapes[k] = row.shapes[k]
        if share < 1.0:
            room.shapes[k] *= (room.first_shapes[k] / row.shapes[k]) ** (1.0 - share)
    log_gamma_sums(room.shapes, room.zeros, room.counts, n_open, room.table, room.rests)
    for s in range(room.drawn.size):
        room.log_weights[s] += room.rests[s] - room.log_gammas[s]
        room.log_gammas[s] = room.rests[s]


@inner_kernel
def _begin(
    stream: Stream, row: RowBuffers, n_features: int, n_open: int, n_tokens: int, n_padded: int, room: Runs
) -> None:
    """Draw all tokens in turn under the first target, with weights that make up for what is not known ahead."""
    in_turn(row.counts, n_features, room.tokens)
    for k in range(room.shapes.size):
        room.shapes[k] = room.first_shapes[k] if k < n_open else 0.0
        for s in range(room.drawn.size):
            room.counts[k, s] = 0.0
    for s in range(room.drawn.size):
        room.log_weights[s] = 0.0
    for i in range(n_tokens):
        _draw(stream, i, n_padded, room)
        for s in range(room.drawn.size):
            room.log_weights[s] += math.log(room.totals[s])
    log_gamma_sums(room.shapes, room.zeros, room.counts, n_open, room.table, room.log_gammas)


@inner_kernel
def _move(stream: Stream, n_open: int, n_tokens: int, n_padded: int, room: Runs) -> None:
    """One collapsed Gibbs sweep in all lanes, under the present target."""
    for token in range(n_tokens):
        for s in range(room.drawn.size):
            room.counts[room.labels[token, s], s] -= 1.0
        _draw(stream, token, n_padded, room)
    log_gamma_sums(room.shapes, room.zeros, room.counts, n_open, room.table, room.log_gammas)


@inner_kernel
def annealed_rows(
    model: RowModel,
    rows: Integers,
    n_temperatures: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    stream: Stream,
    row: RowBuffers,
    room: Runs,
    out: Floats,
) -> None:
    """``out[i, s] = log T[prod_f (q_f . y)^x_f]`` of row ``rows[i]``, estimated by annealed run s (Neal 2001).

    Runs are over the components of single tokens. The target is prod_i q_(f_i z_i) prod_k Γ(c_k + L_k) / Γ(c_k), with
    shapes c_k that go from large ones, whose proportions are those of the expected allocations, to a_k. The number of
    runs is a multiple of the lanes. Moves are collapsed Gibbs sweeps.
    """
    for i in range(rows.size):
        n_features, n_open, n_tokens, log_factor = gather_row(model, rows[i], row)
        for s in range(out.shape[1]):
            out[i, s] = log_factor
        if n_tokens == 0:
            continue
        n_padded = -(-n_open // GROUP) * GROUP
        _prepare(row, n_features, n_open, room)
        seek(stream, seed, stage_chain, iteration, rows[i])
        for first in range(0, out.shape[1], room.drawn.size):
            _begin(stream, row, n_features, n_open, n_tokens, n_padded, room)
            for t in range(1, n_temperatures + 1):
                _set_shapes(row, n_open, t / n_temperatures, room)
                if t < n_temperatures:
                    _move(stream, n_open, n_tokens, n_padded, room)
            for s in range(room.drawn.size):
                out[i, first + s] += room.log_weights[s]
