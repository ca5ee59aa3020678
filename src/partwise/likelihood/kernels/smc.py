"""Sequential Monte Carlo over the tokens of a row, with look-ahead to the tokens that are still to come."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.inner import inner_kernel
from partwise.kernels.streams import Stream, seek
from partwise.likelihood.kernels.expected import look_ahead
from partwise.likelihood.kernels.lanes import GROUP, TABLE_SIZE, draw_components, log_gamma_sums, stratified_uniforms
from partwise.likelihood.kernels.particles import (
    Labels,
    Places,
    choose_parents,
    copy_lanes,
    lattice_multiplier,
    log_mean_weight,
    spread_tokens,
)
from partwise.likelihood.kernels.rows import Floats, Integers, RowBuffers, RowModel, gather_row

# Particles that share their loops: enough for long vectors, few enough for the first cache at 50 components.
N_LANES = 64

# Settings that suit the row.
OWN_STAGES, OWN_LOOKAHEAD = 0, -1.0

# A look at the weights costs about as much as this many tokens.
_TOKENS_PER_STAGE = 16
# Each look may cost a sweep over all tokens so far. At 1,000 tokens, variance x time is flat from 8 to 20 looks. With 8
# estimates are so skewed that their errors are too small, and at 100,000 tokens nats too low. Sweeps over a part of
# the tokens lose more than they save.
_FEWEST_STAGES, _MOST_STAGES = 16, 40
_MOST_TOKENS_PER_STAGE = 1000
# With look-ahead, shapes are at least this over the number of components until all tokens are in, and are then lowered
# by steps: tiny shapes leave few components in a row, and between these no particle could find its way.
_LEAST_CONCENTRATION = 1.0
_SHAPE_STEP = 0.5
_MOST_SHAPE_STEPS = 1100  # from 1 to the smallest double
_PILOT = np.uint64(2**64 - 1)  # a batch that no estimate uses
_RANDOM = np.uint64(0)  # as a multiplier of `stratified_uniforms`
_LARGE = 1e150


class Settings(NamedTuple):
    """How particles are run: see `partwise.likelihood.smc`; ``OWN_STAGES``, ``OWN_LOOKAHEAD``: as suits the row."""

    n_particles: int
    n_stages: int
    lookahead: float
    resample_below: float


class Systems(NamedTuple):
    """Room for particle systems (islands) that take in the same tokens side by side; each particle is a lane.

    Attributes
    ----------
    weights, concentration
        q'_fk of the open features and components, and a_k with what is expected of tokens to come; both padded with
        zeros to a multiple of ``GROUP`` components.
    expected, ahead
        What a token of each feature counts while it is still to come, and the sum of that over those to come.
    counts, labels, tokens
        Tokens of each component in each lane; the component of each token in each lane; the feature of each token.
    log_weights, log_gammas, products
        Of each lane: log weight since the last resampling; gamma functions of the target; factors not in it yet.
    uniforms, rests, totals, drawn
        What `draw_components` needs and finds for one token.
    means, sizes
        Of each island: log mean weight, effective sample size.
    parents, copied
        From which lane each lane is copied, and room for copying labels.
    places, starts, table
        Room for ordering tokens, and for logarithms.
    schedule
        After which stages particles are resampled and moved.
    """

    weights: Floats
    concentration: Floats
    expected: Floats
    ahead: Floats
    counts: Floats
    labels: Labels
    tokens: Places
    log_weights: Floats
    log_gammas: Floats
    products: Floats
    uniforms: Floats
    rests: Floats
    totals: Floats
    drawn: Floats
    means: Floats
    sizes: Floats
    parents: Integers
    copied: Labels
    places: Places
    starts: Places
    table: Floats
    schedule: NDArray[np.bool_]


def new_systems(n_features: int, n_components: int, n_tokens: int, n_lanes: int, n_stages: int) -> Systems:
    """Room for rows of at most so many nonzeros and tokens."""
    padded = -(-n_components // GROUP) * GROUP
    log_weights, log_gammas, products, uniforms, rests, totals, drawn, means, sizes = np.zeros((9, n_lanes))
    return Systems(
        np.zeros((n_features, padded)),
        np.zeros(padded),
        np.zeros((n_features, n_components)),
        np.zeros(n_components),
        np.zeros((padded, n_lanes)),
        np.zeros((n_tokens, n_lanes), np.uint16),
        np.zeros(n_tokens, np.int32),
        log_weights,
        log_gammas,
        products,
        uniforms,
        rests,
        totals,
        drawn,
        means,
        sizes,
        np.zeros(n_lanes, np.int64),
        np.zeros(n_lanes, np.uint16),
        np.zeros(n_tokens, np.int32),
        np.zeros(n_tokens + 1, np.int32),
        np.zeros(TABLE_SIZE),
        np.zeros((n_stages or _MOST_STAGES) + _MOST_SHAPE_STEPS, np.bool_),
    )


@inner_kernel
def _begin(
    stream: Stream, row: RowBuffers, n_features: int, n_open: int, n_tokens: int, least_shape: float, room: Systems
) -> None:
    """Order the tokens and empty all lanes. The first target is known: over no tokens it is its gamma functions."""
    spread_tokens(stream, row.counts, n_features, n_tokens, room.places, room.starts, room.tokens)
    for k in range(n_open):
        room.ahead[k] = max(least_shape - row.shapes[k], 0.0)
        for f in range(n_features):
            room.ahead[k] += row.counts[f] * room.expected[f, k]
    for k in range(room.concentration.size):
        room.concentration[k] = 0.0
        for s in range(room.drawn.size):
            room.counts[k, s] = 0.0
    log_gamma_sums(row.shapes, room.ahead, room.counts, n_open, room.table, room.log_gammas)
    for s in range(room.drawn.size):
        room.log_weights[s] = room.log_gammas[s]
        room.products[s] = 1.0


@inner_kernel
def _take_in(
    stream: Stream,
    first: int,
    last: int,
    n_tokens: int,
    row: RowBuffers,
    n_open: int,
    n_particles: int,
    least_shape: float,
    room: Systems,
) -> None:
    """Draw the components of tokens ``first`` to ``last`` in all lanes, and bring the log weights up to date.

    Expected allocations of tokens make way for real ones; with the last token, shapes below ``least_shape`` are raised
    to it and nothing else is left ahead.
    """
    counts, concentration, ahead, products = room.counts, room.concentration, room.ahead, room.products
    n_padded = -(-n_open // GROUP) * GROUP
    for i in range(first, last):
        f = room.tokens[i]
        for k in range(n_open):
            least = max(least_shape - row.shapes[k], 0.0)
            ahead[k] = max(ahead[k] - room.expected[f, k], least) if i + 1 < n_tokens else least
            concentration[k] = row.shapes[k] + ahead[k]
        stratified_uniforms(stream, lattice_multiplier(i, n_particles), n_particles, room.uniforms)
        draw_components(
            room.weights, f, concentration, counts, n_padded, room.uniforms, room.rests, room.totals, room.drawn
        )
        for s in range(products.size):
            k = int(room.drawn[s])
            products[s] *= room.totals[s] / (concentration[k] + counts[k, s])
            if not 1.0 / _LARGE < products[s] < _LARGE:
                room.log_weights[s] += math.log(products[s])
                products[s] = 1.0
            counts[k, s] += 1.0
            room.labels[i, s] = k
    if last == n_tokens:
        for k in range(n_open):
            ahead[k] = max(least_shape - row.shapes[k], 0.0)
            concentration[k] = row.shapes[k] + ahead[k]
    log_gamma_sums(row.shapes, ahead, counts, n_open, room.table, room.rests)
    for s in range(products.size):
        room.log_weights[s] += math.log(products[s]) + room.rests[s] - room.log_gammas[s]
        room.log_gammas[s] = room.rests[s]
        products[s] = 1.0


@inner_kernel
def _move(stream: Stream, n_done: int, row: RowBuffers, n_open: int, n_particles: int, room: Systems) -> None:
    """One collapsed Gibbs sweep over the first ``n_done`` tokens in all lanes, which then have equal weights."""
    counts, labels = room.counts, room.labels
    n_padded = -(-n_open // GROUP) * GROUP
    for i in range(n_done):
        for s in range(room.drawn.size):
            counts[labels[i, s], s] -= 1.0
        stratified_uniforms(stream, _RANDOM, n_particles, room.uniforms)
        draw_components(
            room.weights,
            room.tokens[i],
            room.concentration,
            counts,
            n_padded,
            room.uniforms,
            room.rests,
            room.totals,
            room.drawn,
        )
        for s in range(room.drawn.size):
            k = int(room.drawn[s])
            counts[k, s] += 1.0
            labels[i, s] = k
    log_gamma_sums(row.shapes, room.ahead, counts, n_open, room.table, room.log_gammas)
    for s in range(room.drawn.size):
        room.log_weights[s] = 0.0


@inner_kernel
def _count_shape_steps(shapes: Floats, n_open: int) -> int:
    """``max(0, ceil(log(n_open * shapes[:n_open].min() / _LEAST_CONCENTRATION) / log(_SHAPE_STEP)))``."""
    smallest = _LEAST_CONCENTRATION / n_open
    for k in range(n_open):
        smallest = min(smallest, shapes[k])
    return math.ceil(math.log(n_open * smallest / _LEAST_CONCENTRATION) / math.log(_SHAPE_STEP))


@inner_kernel
def _count_token_stages(n_stages: int, n_tokens: int) -> int:
    """How often the weights of a row are looked at while its tokens are taken in."""
    if n_stages == OWN_STAGES:
        n_stages = min(max(_FEWEST_STAGES, n_tokens // _MOST_TOKENS_PER_STAGE), _MOST_STAGES)
    return max(1, min(n_stages, n_tokens // _TOKENS_PER_STAGE))


@inner_kernel
def smc_rows(
    model: RowModel,
    rows: Integers,
    first_row: int,
    settings: Settings,
    islands_per_batch: int,
    first_batch: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    stream: Stream,
    row: RowBuffers,
    room: Systems,
    out: Floats,
    ess: Floats,
) -> None:
    """``out[i, j] = log T[prod_f (q_f . y)^x_f]`` of row ``rows[i]``, estimated by the particle system (island) j.

    The target after t tokens is the product of their q times prod_k Γ(c_k + L_k) / Γ(a_k), with L_k those of component
    k and concentration c_k = a_k + what is expected of the tokens still to come. So the first is known and the last is
    what is asked for; any expectations leave the estimate unbiased, good ones make its variance small. When to resample
    and move is found by a first batch of islands, which is then thrown away: moves at times that depend on the very
    particles that are moved would make the estimate biased. Islands of a batch share the order of their tokens; given
    that, and so at all, they are uncorrelated. Where the rows are only some of others, ``first_row`` is the first of
    them: streams are keyed by the position in all.
    """
    n_particles = settings.n_particles
    for i in range(rows.size):
        n_features, n_open, n_tokens, log_factor = gather_row(model, rows[i], row)
        for island in range(out.shape[1]):
            out[i, island] = log_factor
            ess[i, island] = n_particles
        if n_tokens == 0:
            continue
        for f in range(n_features):
            for k in range(room.concentration.size):
                room.weights[f, k] = row.weights[f, k] if k < n_open else 0.0
        look_ahead(
            row.weights, row.counts, row.shapes, n_features, n_open, settings.lookahead, room.ahead, room.expected
        )
        n_steps = _count_shape_steps(row.shapes, n_open) if settings.lookahead != 0.0 else 0
        n_token_stages = _count_token_stages(settings.n_stages, n_tokens)
        n_stages = n_token_stages + n_steps
        for batch in range(-1 if n_stages > 1 else 0, out.shape[1] // islands_per_batch):
            first_island = batch * islands_per_batch
            least_shape = _LEAST_CONCENTRATION / n_open if n_steps > 0 else 0.0
            address = np.uint64(first_batch + batch) if batch >= 0 else _PILOT
            seek(stream, seed, stage_chain, address, first_row + rows[i])
            _begin(stream, row, n_features, n_open, n_tokens, least_shape, room)
            for stage in range(1, n_stages + 1):
                if stage > n_token_stages:
                    least_shape = least_shape * _SHAPE_STEP if stage < n_stages else 0.0
                first = n_tokens * min(stage - 1, n_token_stages) // n_token_stages
                last = n_tokens * min(stage, n_token_stages) // n_token_stages
                _take_in(stream, first, last, n_tokens, row, n_open, n_particles, least_shape, room)
                effective = 0.0
                for island in range(islands_per_batch):
                    room.means[island], room.sizes[island] = log_mean_weight(
                        room.log_weights, island * n_particles, n_particles
                    )
                    effective += room.sizes[island] / room.drawn.size
                if batch < 0:
                    room.schedule[stage] = effective < settings.resample_below
                if stage < n_stages and not room.schedule[stage]:
                    continue
                for island in range(islands_per_batch):
                    if batch >= 0:
                        out[i, first_island + island] += room.means[island]
                        ess[i, first_island + island] = room.sizes[island]
                    choose_parents(
                        stream, room.log_weights, room.means[island], island * n_particles, n_particles, room.parents
                    )
                if stage < n_stages:
                    copy_lanes(room.parents, n_open, last, room.rests, room.copied, room.counts, room.labels)
                    _move(stream, last, row, n_open, n_particles, room)
