"""Importance sampling of a row's mixing proportions, many draws side by side: cost grows with nonzeros, not tokens."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.continuous import gamma, log_gamma_variate
from partwise.kernels.jit import inner_kernel
from partwise.kernels.streams import Stream, next_normal, next_uniform, seek
from partwise.likelihood.kernels.mode import Mode, find_mode
from partwise.likelihood.kernels.rows import Floats, Integers, OpenRow, RowBuffers, RowModel, Words, gather_row
from partwise.likelihood.kernels.truncated import (
    TruncatedNormal,
    draw_truncated_normal,
    fit_truncated_normal,
    log_truncated_normal,
    new_truncated_normal,
)

N_LANES = 64
N_PILOT = 512
# Two t distributions at the mode, a truncated normal one, then Dirichlet distributions that trust these shares of the
# expected tokens.
N_PROPOSALS = 7
_FREEDOM = (20.0, 3.0)
_SPREAD = (1.0, 1.5)
_N_STUDENT = 2
_TRUNCATED = 2
_TRUST = (0.0, 0.0, 0.0, 1.0, 0.5, 0.15, 0.0)
# The pilot chooses portions by EM. Each proposal keeps a share, so that no weight becomes large because the pilot did
# not see a region.
_N_CHOICES = 4
_LEAST_SHARE = 0.02
_FARTHEST = 700.0  # log shares below this are as good as 0


class Draws(NamedTuple):
    """Buffers for draws that are made in parallel; each draw is a lane.

    Attributes
    ----------
    logs, shares, solved
        Log ratios and proportions of the components, and a buffer: components x lanes.
    rates, targets, distances
        Per lane: the rate of one feature, the log of the integrand, the squared distance from the mode.
    densities
        Log densities of the proposals: proposals x lanes.
    concentrations, constants, portions
        Concentrations of the Dirichlet proposals (the last row is the prior's); log normalising constants of all
        proposals; the probability of drawing from each.
    truncated
        The truncated normal proposal.
    dead
        Lanes whose draw is outside the simplex.
    pilot
        Log densities and log targets of the pilot's draws: draws x (proposals + 1).
    """

    logs: Floats
    shares: Floats
    solved: Floats
    rates: Floats
    targets: Floats
    distances: Floats
    densities: Floats
    concentrations: Floats
    constants: Floats
    portions: Floats
    truncated: TruncatedNormal
    dead: NDArray[np.bool_]
    pilot: Floats


def new_draws(n_components: int) -> Draws:
    """Allocate buffers for this many components."""
    logs, shares, solved = np.zeros((3, n_components, N_LANES))
    rates, targets, distances = np.zeros((3, N_LANES))
    constants, portions = np.zeros((2, N_PROPOSALS))
    concentrations, pilot = np.zeros((N_PROPOSALS, n_components)), np.zeros((N_PILOT, N_PROPOSALS + 1))
    densities = np.zeros((N_PROPOSALS, N_LANES))
    lanes = logs, shares, solved, rates, targets, distances, densities
    truncated, dead = new_truncated_normal(n_components), np.zeros(N_LANES, np.bool_)
    return Draws(*lanes, concentrations, constants, portions, truncated, dead, pilot)


@inner_kernel
def _prepare(row: RowBuffers, size: OpenRow, mode: Mode, room: Draws) -> None:
    """Concentrations and normalising constants of all proposals."""
    n_open = size.n_components
    dimension = n_open - 1.0
    log_determinant = -math.log(size.total_shape + size.n_tokens)
    for k in range(n_open):
        log_determinant += 2.0 * math.log(mode.factor[k, k])
    for j in range(N_PROPOSALS):
        if j < _N_STUDENT:
            freedom = _FREEDOM[j]
            room.constants[j] = math.lgamma(0.5 * (freedom + dimension)) - math.lgamma(0.5 * freedom)
            room.constants[j] += 0.5 * (log_determinant - dimension * math.log(freedom * math.pi * _SPREAD[j] ** 2))
            continue
        room.constants[j] = 0.0
        if j == _TRUNCATED:
            fit_truncated_normal(row, size, mode, room.truncated)
            continue
        total = 0.0
        for k in range(n_open):
            room.concentrations[j, k] = row.shapes[k] + _TRUST[j] * mode.totals[k]
            total += room.concentrations[j, k]
            room.constants[j] -= math.lgamma(room.concentrations[j, k])
        room.constants[j] += math.lgamma(total)


@inner_kernel
def _propose(stream: Stream, size: OpenRow, mode: Mode, room: Draws) -> None:
    """Draw log ratios in all lanes, each from a proposal that is drawn first."""
    n_open, logs = size.n_components, room.logs
    for s in range(N_LANES):
        place, proposal = next_uniform(stream), 0
        while proposal < N_PROPOSALS - 1 and place >= room.portions[proposal]:
            place -= room.portions[proposal]
            proposal += 1
        room.dead[s] = False
        if proposal == _TRUNCATED:
            room.dead[s] = not draw_truncated_normal(stream, n_open, room.truncated, logs, s)
            continue
        if proposal > _TRUNCATED:
            for k in range(n_open):
                logs[k, s] = log_gamma_variate(stream, room.concentrations[proposal, k])
            continue
        freedom = _FREEDOM[proposal]
        scale = _SPREAD[proposal] * math.sqrt(0.5 * freedom / gamma(stream, 0.5 * freedom))
        for k in range(n_open):
            logs[k, s] = next_normal(stream)
        for k in range(n_open - 1, -1, -1):
            total = logs[k, s]
            for i in range(k + 1, n_open):
                total -= mode.factor[i, k] * logs[i, s]
            logs[k, s] = total / mode.factor[k, k]
        for k in range(n_open):
            logs[k, s] = math.log(mode.shares[k]) + scale * logs[k, s]


@inner_kernel
def _weigh(row: RowBuffers, size: OpenRow, mode: Mode, room: Draws) -> None:
    """Compute the log integrand, and the log densities of all proposals, at the draws of all lanes."""
    n_open, logs, shares = size.n_components, room.logs, room.shares
    concentration = size.total_shape + size.n_tokens
    for s in range(N_LANES):
        top, total = -math.inf, 0.0
        for k in range(n_open):
            top = max(top, logs[k, s])
        for k in range(n_open):
            total += math.exp(logs[k, s] - top)
        top += math.log(total)
        for k in range(n_open):
            logs[k, s] -= top
            shares[k, s] = math.exp(max(logs[k, s], -_FARTHEST))
    # Squared length of factor' (u - mode), without the direction (1, ..., 1), in which ratios do not change.
    for s in range(N_LANES):
        room.rates[s] = 0.0
        room.distances[s] = 0.0
    for k in range(n_open):
        log_share, weight = math.log(mode.shares[k]), mode.shares[k]
        for s in range(N_LANES):
            room.rates[s] += weight * (logs[k, s] - log_share)
            room.solved[k, s] = 0.0
    for i in range(n_open):
        log_share = math.log(mode.shares[i])
        for k in range(i + 1):
            for s in range(N_LANES):
                room.solved[k, s] += mode.factor[i, k] * (logs[i, s] - log_share - room.rates[s])
    for k in range(n_open):
        for s in range(N_LANES):
            room.distances[s] += room.solved[k, s] * room.solved[k, s]
    for j in range(N_PROPOSALS):
        for s in range(N_LANES):
            room.densities[j, s] = room.constants[j]
        if j < _N_STUDENT:
            power, scale = -0.5 * (_FREEDOM[j] + n_open - 1.0), 1.0 / (_FREEDOM[j] * _SPREAD[j] ** 2)
            for s in range(N_LANES):
                room.densities[j, s] += power * math.log1p(scale * room.distances[s])
            continue
        if j == _TRUNCATED:
            for s in range(N_LANES):
                room.densities[j, s] = log_truncated_normal(n_open, room.truncated, logs, shares, s)
            continue
        for k in range(n_open):
            for s in range(N_LANES):
                room.densities[j, s] += room.concentrations[j, k] * logs[k, s]
    # The last proposal is the prior, up to constants.
    constant = math.lgamma(concentration) - math.lgamma(size.total_shape)
    for s in range(N_LANES):
        room.targets[s] = room.densities[N_PROPOSALS - 1, s] + constant
    for f in range(size.n_features):
        for s in range(N_LANES):
            room.rates[s] = 0.0
        for k in range(n_open):
            weight = row.weights[f, k]
            for s in range(N_LANES):
                room.rates[s] += weight * shares[k, s]
        count = float(row.counts[f])
        for s in range(N_LANES):
            room.targets[s] += count * math.log(room.rates[s])
    for s in range(N_LANES):
        if room.dead[s]:
            room.targets[s] = -math.inf


@inner_kernel
def _log_mixture(portions: Floats, densities: Floats, s: int) -> float:
    """``logsumexp(np.log(portions) + densities[:, s])``."""
    top, total = -math.inf, 0.0
    for j in range(portions.size):
        top = max(top, densities[j, s])
    for j in range(portions.size):
        total += portions[j] * math.exp(densities[j, s] - top)
    return top + math.log(total)


@inner_kernel
def _choose(room: Draws) -> None:
    """Find portions that bring the mixture close to the target, by weighted EM over the pilot's draws.

    The pilot draws from all proposals equally often.
    """
    pilot, portions = room.pilot, room.portions
    top = -math.inf
    for i in range(N_PILOT):
        top = max(top, pilot[i, N_PROPOSALS])
    for _ in range(_N_CHOICES):
        for j in range(N_PROPOSALS):
            room.rates[j] = 0.0
        for i in range(N_PILOT):
            largest, total = -math.inf, 0.0
            for j in range(N_PROPOSALS):
                largest = max(largest, pilot[i, j])
            for j in range(N_PROPOSALS):
                total += portions[j] * math.exp(pilot[i, j] - largest)
            weight = math.exp(pilot[i, N_PROPOSALS] - top)
            for j in range(N_PROPOSALS):
                room.rates[j] += weight * portions[j] * math.exp(pilot[i, j] - largest) / total
        whole = 0.0
        for j in range(N_PROPOSALS):
            whole += room.rates[j]
        for j in range(N_PROPOSALS):
            portions[j] = _LEAST_SHARE + (1.0 - N_PROPOSALS * _LEAST_SHARE) * room.rates[j] / whole


@inner_kernel
def importance_rows(
    model: RowModel,
    rows: Integers,
    first_row: int,
    first_batch: int,
    words: Words,
    stream: Stream,
    row: RowBuffers,
    mode: Mode,
    room: Draws,
    out: Floats,
) -> None:
    """``out[i, s] = log(weight)`` of draw s for row ``rows[i]``; their mean estimates T[Π_f (q_f·y)^x_f].

    A pilot, which no estimate uses, decides how often to draw from each proposal. Given that, draws are independent.
    Each batch of ``N_LANES`` draws has its own stream, from ``first_batch`` on.
    """
    for i in range(rows.size):
        size = gather_row(model, rows[i], row)
        for s in range(out.shape[1]):
            out[i, s] = size.log_factor
        if size.n_tokens == 0:
            continue
        find_mode(row, size, row.shapes, mode)
        _prepare(row, size, mode, room)
        for j in range(N_PROPOSALS):
            room.portions[j] = 1.0 / N_PROPOSALS
        for batch in range(-(N_PILOT // N_LANES), -(-out.shape[1] // N_LANES)):
            if model.stop[0]:
                return
            # The pilot's batches have the last addresses.
            address = np.uint64(first_batch + batch) if batch >= 0 else np.uint64(2**64 - 1) - np.uint64(-batch)
            seek(stream, words[0], words[1], address, first_row + rows[i])
            _propose(stream, size, mode, room)
            _weigh(row, size, mode, room)
            for s in range(N_LANES):
                if batch < 0:
                    place = N_PILOT + batch * N_LANES + s
                    for j in range(N_PROPOSALS):
                        room.pilot[place, j] = room.densities[j, s]
                    room.pilot[place, N_PROPOSALS] = room.targets[s] - _log_mixture(room.portions, room.densities, s)
                elif batch * N_LANES + s < out.shape[1]:
                    log_weight = room.targets[s] - _log_mixture(room.portions, room.densities, s)
                    out[i, batch * N_LANES + s] += log_weight
            if batch == -1:
                _choose(room)
