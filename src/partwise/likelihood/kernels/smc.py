"""Sequential Monte Carlo over the tokens of a row, with look-ahead to the tokens still to come."""

import math
from typing import NamedTuple

import numpy as np

from partwise.kernels.jit import inner_kernel
from partwise.kernels.streams import Stream, seek
from partwise.likelihood.kernels.lanes import (
    Lanes,
    draw_components,
    empty_lanes,
    gibbs_sweep,
    log_gamma_sums,
    set_weights,
    stratified_uniforms,
)
from partwise.likelihood.kernels.rows import Floats, Integers, OpenRow, RowBuffers, RowModel, Words, gather_row
from partwise.likelihood.kernels.tokens import (
    choose_parents,
    copy_lanes,
    lattice_multiplier,
    log_mean_weight,
    look_ahead,
    spread_tokens,
)

# Settings that suit the row.
OWN_STAGES, OWN_LOOKAHEAD = 0, -1.0

# Checking the weights costs about as much as this many tokens.
_TOKENS_PER_STAGE = 16
# Each check may cost a sweep over all tokens so far. At 1,000 tokens, variance x time is flat from 8 to 20 checks. With
# 8, estimates are so skewed that their standard errors are too small, and at 100,000 tokens they are nats too low.
# Sweeps over only some of the tokens lose more than they save.
_FEWEST_STAGES, _MOST_STAGES = 16, 40
_MOST_TOKENS_PER_STAGE = 1000
# With look-ahead, shapes are at least this over the number of parts until all tokens are in. Then they are lowered step
# by step: tiny shapes leave few parts in a row, and particles cannot move from one such set to another.
_LEAST_CONCENTRATION = 1.0
_SHAPE_STEP = 0.5
_MOST_SHAPE_STEPS = 1100  # from 1 to the smallest double
_PILOT = np.uint64(2**64 - 1)  # a batch that no estimate uses
_LARGE = 1e150


class ParticleSettings(NamedTuple):
    """How particles are run: see `partwise.likelihood.smc`; ``OWN_STAGES``, ``OWN_LOOKAHEAD``: as suits the row."""

    n_particles: int
    n_stages: int
    lookahead: float
    resample_below: float


def most_stages(n_stages: int) -> int:
    """Most stages that a row can have, including those in which shapes are lowered."""
    return (n_stages or _MOST_STAGES) + _MOST_SHAPE_STEPS


@inner_kernel
def _begin(stream: Stream, row: RowBuffers, size: OpenRow, least_shape: float, room: Lanes) -> None:
    """Order the tokens and empty all lanes. The first target, over no tokens, is known: its gamma functions."""
    spread_tokens(stream, row.counts, size.n_features, size.n_tokens, room.places, room.starts, room.tokens)
    for k in range(size.n_components):
        room.ahead[k] = max(least_shape - row.shapes[k], 0.0)
        for f in range(size.n_features):
            room.ahead[k] += row.counts[f] * room.expected[f, k]
    empty_lanes(room)
    log_gamma_sums(row.shapes, room.ahead, room.counts, size.n_components, room.table, room.log_gammas)
    for s in range(room.drawn.size):
        room.log_weights[s] = room.log_gammas[s]
        room.products[s] = 1.0


@inner_kernel
def _take_in(
    stream: Stream,
    first: int,
    last: int,
    row: RowBuffers,
    size: OpenRow,
    n_particles: int,
    least_shape: float,
    room: Lanes,
) -> None:
    """Draw the components of tokens ``first`` to ``last`` in all lanes, and bring the log weights up to date.

    Real allocations of tokens replace expected ones. With the last token, shapes below ``least_shape`` are raised to
    it, and nothing else is left ahead.
    """
    counts, shapes, ahead, products, n_open = room.counts, room.shapes, room.ahead, room.products, size.n_components
    for i in range(first, last):
        if room.stop[0]:
            return
        f = room.tokens[i]
        for k in range(n_open):
            least = max(least_shape - row.shapes[k], 0.0)
            ahead[k] = max(ahead[k] - room.expected[f, k], least) if i + 1 < size.n_tokens else least
            shapes[k] = row.shapes[k] + ahead[k]
        stratified_uniforms(stream, lattice_multiplier(i, n_particles), n_particles, room.uniforms)
        draw_components(f, n_open, room)
        for s in range(products.size):
            k = int(room.drawn[s])
            products[s] *= room.totals[s] / (shapes[k] + counts[k, s])
            if not 1.0 / _LARGE < products[s] < _LARGE:
                room.log_weights[s] += math.log(products[s])
                products[s] = 1.0
            counts[k, s] += 1.0
            room.labels[i, s] = k
    if last == size.n_tokens:
        for k in range(n_open):
            ahead[k] = max(least_shape - row.shapes[k], 0.0)
            shapes[k] = row.shapes[k] + ahead[k]
    log_gamma_sums(row.shapes, ahead, counts, n_open, room.table, room.rests)
    for s in range(products.size):
        room.log_weights[s] += math.log(products[s]) + room.rests[s] - room.log_gammas[s]
        room.log_gammas[s] = room.rests[s]
        products[s] = 1.0


@inner_kernel
def _move(stream: Stream, n_done: int, row: RowBuffers, n_open: int, n_particles: int, room: Lanes) -> None:
    """One collapsed Gibbs sweep over the first ``n_done`` tokens in all lanes, which then have equal weights."""
    gibbs_sweep(stream, n_done, n_open, n_particles, room)
    log_gamma_sums(row.shapes, room.ahead, room.counts, n_open, room.table, room.log_gammas)
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
    """How often the weights of a row are checked while its tokens are added."""
    if n_stages == OWN_STAGES:
        n_stages = min(max(_FEWEST_STAGES, n_tokens // _MOST_TOKENS_PER_STAGE), _MOST_STAGES)
    return max(1, min(n_stages, n_tokens // _TOKENS_PER_STAGE))


@inner_kernel
def smc_rows(
    model: RowModel,
    rows: Integers,
    first_row: int,
    settings: ParticleSettings,
    islands_per_batch: int,
    first_batch: int,
    words: Words,
    stream: Stream,
    row: RowBuffers,
    pilot: Lanes,
    lanes: Lanes,
    out: Floats,
    ess: Floats,
) -> None:
    """``out[i, j] = log T[prod_f (q_f . y)^x_f]`` of row ``rows[i]``, estimated by the particle system (island) j.

    The target after t tokens is the product of their q times prod_k Γ(c_k + L_k) / Γ(a_k). L_k is the number of tokens
    in component k. The concentration c_k is a_k plus what is expected of the tokens still to come. So the first target
    is known, and the last is the one to estimate. The estimate is unbiased for any expectations; good ones make its
    variance small. A first island in the lanes of ``pilot``, which is then discarded, decides when to resample and
    move: if that depended on the particles that are moved, the estimate would be biased. Islands of a batch share the
    order of their tokens, and are uncorrelated. If the rows are a selection, ``first_row`` is the position of the first
    among all rows, by which streams are keyed.
    """
    for i in range(rows.size):
        size = gather_row(model, rows[i], row)
        n_open, n_tokens = size.n_components, size.n_tokens
        for island in range(out.shape[1]):
            out[i, island] = size.log_factor
            ess[i, island] = settings.n_particles
        if n_tokens == 0:
            continue
        set_weights(row, size, lanes)
        n_steps = _count_shape_steps(row.shapes, n_open) if settings.lookahead != 0.0 else 0
        for k in range(n_open):
            lanes.shapes[k] = max(row.shapes[k], _LEAST_CONCENTRATION / n_open) if n_steps > 0 else row.shapes[k]
        look_ahead(row, size, lanes.shapes, settings.lookahead, lanes.mode, lanes.ahead, lanes.expected)
        n_token_stages = _count_token_stages(settings.n_stages, n_tokens)
        n_stages = n_token_stages + n_steps
        for batch in range(-1 if n_stages > 1 else 0, out.shape[1] // islands_per_batch):
            first_island, n_islands = batch * islands_per_batch, islands_per_batch if batch >= 0 else 1
            room = lanes if batch >= 0 else pilot
            n_particles = room.drawn.size // n_islands
            least_shape = _LEAST_CONCENTRATION / n_open if n_steps > 0 else 0.0
            address = np.uint64(first_batch + batch) if batch >= 0 else _PILOT
            seek(stream, words[0], words[1], address, first_row + rows[i])
            _begin(stream, row, size, least_shape, room)
            for stage in range(1, n_stages + 1):
                if lanes.stop[0]:
                    return
                if stage > n_token_stages:
                    least_shape = least_shape * _SHAPE_STEP if stage < n_stages else 0.0
                first = n_tokens * min(stage - 1, n_token_stages) // n_token_stages
                last = n_tokens * min(stage, n_token_stages) // n_token_stages
                _take_in(stream, first, last, row, size, n_particles, least_shape, room)
                effective = 0.0
                for island in range(n_islands):
                    room.means[island], room.sizes[island] = log_mean_weight(
                        room.log_weights, island * n_particles, n_particles
                    )
                    effective += room.sizes[island] / room.drawn.size
                if batch < 0:
                    room.schedule[stage] = effective < settings.resample_below or stage > n_token_stages
                if stage < n_stages and not room.schedule[stage]:
                    continue
                for island in range(n_islands):
                    if batch >= 0:
                        out[i, first_island + island] += room.means[island]
                        ess[i, first_island + island] = room.sizes[island]
                    choose_parents(
                        stream, room.log_weights, room.means[island], island * n_particles, n_particles, room.parents
                    )
                if stage < n_stages:
                    copy_lanes(room.parents, n_open, last, room.rests, room.copied, room.counts, room.labels)
                    _move(stream, last, row, n_open, n_particles, room)
