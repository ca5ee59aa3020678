"""Marginal likelihood of a set of parts, by importance sampling from a truncated normal at the mode.

Given a set of m parts whose columns sum to 1 and shares that are uniform on the simplex, counts x with total N have

    p(x | set) ∝ Γ(m) / Γ(N + m) ∫_{h > 0} exp(t(h)) dh,   t(h) = Σ_f x_f log λ_f - Σ_k h_k,   λ = Σ_k h_k w_k,

as integrating the total out of the right-hand side shows. t is concave. The proposal is a normal distribution at its
maximum, truncated to positive activations and drawn one coordinate after the other, so that its density is known.
"""

import math
from typing import NamedTuple

import numpy as np

from partwise.kernels.arrays import Floats, LongCounts
from partwise.kernels.cholesky import solve
from partwise.kernels.continuous import normal_above
from partwise.kernels.jit import inner_kernel, kernel
from partwise.kernels.special import log_normal_cdf
from partwise.kernels.streams import Stream, next_uniform

# The proposal is wider than the normal approximation, as the tails of the target are.
_WIDER = 1.2
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_STEPS = 60
_TOLERANCE = 1e-7


Row = tuple[Floats, Floats, float]
"""Counts of a row, what each part has in the cells with counts, and a background."""


class Room(NamedTuple):
    """What `find_mode` leaves at the maximum (rates, slope, curve), and room to work in."""

    rates: Floats
    slope: Floats
    curve: Floats
    root: Floats
    step: Floats
    trial: Floats
    free: LongCounts


@kernel
def new_room(n_cells: int, n_parts: int) -> Room:
    """Arrays of zeros, for up to so many cells and parts."""
    slope, step, trial = np.zeros(n_parts), np.zeros(n_parts), np.zeros(n_parts)
    curve, root = np.zeros((n_parts, n_parts)), np.zeros((n_parts, n_parts))
    return Room(np.zeros(n_cells), slope, curve, root, step, trial, np.zeros(n_parts, np.int64))


@inner_kernel
def _rates(row: Row, members: LongCounts, m: int, h: Floats, rates: Floats) -> None:
    """``rates[:] = background + cells[:, members[:m]] @ h[:m]``."""
    _, cells, background = row
    for i in range(cells.shape[0]):
        total = background
        for j in range(m):
            total += cells[i, members[j]] * h[j]
        rates[i] = total


@inner_kernel
def _target(counts: Floats, rates: Floats, h: Floats, m: int) -> float:
    """``counts @ np.log(rates) - h[:m].sum()``."""
    value = 0.0
    for i in range(counts.shape[0]):
        value += counts[i] * math.log(rates[i])
    for j in range(m):
        value -= h[j]
    return value


@inner_kernel
def _slopes(row: Row, members: LongCounts, m: int, ridge: float, room: Room) -> None:
    """Gradient of t, and its negative Hessian with a ridge, over the members."""
    (counts, cells, _), rates, slope, curve = row, room.rates, room.slope, room.curve
    for a in range(m):
        slope[a] = -1.0
        for b in range(a + 1):
            curve[a, b] = ridge if a == b else 0.0
    for i in range(counts.shape[0]):
        ratio = counts[i] / rates[i]
        square = ratio / rates[i]
        for a in range(m):
            w = cells[i, members[a]]
            slope[a] += ratio * w
            for b in range(a + 1):
                curve[a, b] += square * w * cells[i, members[b]]


@inner_kernel
def _cholesky(curve: Floats, m: int, free: LongCounts, n_free: int, root: Floats) -> None:
    """``root = np.linalg.cholesky(curve[free][:, free])``, with a floor on the diagonal."""
    for a in range(n_free):
        for b in range(a + 1):
            value = curve[max(free[a], free[b]), min(free[a], free[b])]
            for c in range(b):
                value -= root[a, c] * root[b, c]
            if a == b:
                floor = 1e-12 * curve[free[a], free[a]]
                root[a, a] = math.sqrt(max(value, floor))
            else:
                root[a, b] = value / root[b, b]


@inner_kernel
def _try_step(h: Floats, free: LongCounts, n_free: int, step: Floats, length: float, m: int, trial: Floats) -> None:
    """``trial = h``; ``trial[free] = max(h[free] + length * step, 0)``."""
    for j in range(m):
        trial[j] = h[j]
    for a in range(n_free):
        trial[free[a]] = max(h[free[a]] + length * step[a], 0.0)


@inner_kernel
def find_mode(row: Row, members: LongCounts, m: int, ridge: float, h: Floats, room: Room) -> float:
    """Maximise t over h >= 0 by projected Newton steps from ``h``; slope, curve and rates are left at the maximum."""
    counts, rates, slope, step, trial, free = row[0], room.rates, room.slope, room.step, room.trial, room.free
    total = 0.0
    for i in range(counts.shape[0]):
        total += counts[i]
    _rates(row, members, m, h, rates)
    value = _target(counts, rates, h, m)
    for _ in range(_STEPS):
        _slopes(row, members, m, ridge, room)
        n_free, worst = 0, 0.0
        for j in range(m):
            if h[j] > 0.0 or slope[j] > 0.0:
                free[n_free] = j
                n_free += 1
                size = abs(slope[j]) * (h[j] if slope[j] < 0.0 else max(h[j], 1.0))
                worst = max(worst, size)
        if worst <= _TOLERANCE * total:
            break
        _cholesky(room.curve, m, free, n_free, room.root)
        for a in range(n_free):
            step[a] = slope[free[a]]
        solve(room.root, n_free, step)
        length, better = 1.0, False
        for _ in range(30):
            _try_step(h, free, n_free, step, length, m, trial)
            gain = 0.0
            for a in range(n_free):
                gain += slope[free[a]] * (trial[free[a]] - h[free[a]])
            _rates(row, members, m, trial, rates)
            reached = _target(counts, rates, trial, m)
            if reached >= value + 1e-4 * gain and gain >= 0.0:
                better = reached > value
                break
            length *= 0.5
        if not better:
            _rates(row, members, m, h, rates)
            break
        for j in range(m):
            h[j] = trial[j]
        value = reached
    _slopes(row, members, m, ridge, room)
    return value


@inner_kernel
def log_evidence(
    stream: Stream, n_particles: int, row: Row, members: LongCounts, m: int, mode: Floats, room: Room, drawn: Floats
) -> float:
    """Logarithm of an unbiased estimate of the integral of exp(t); ``drawn`` gets one of the particles, by weight."""
    rates, root, centre, trial, order = room.rates, room.root, room.step, room.trial, room.free
    # Coordinates at the bound come last: they are drawn first, as the bound matters most to them.
    for j in range(m):
        order[j] = j
    for a in range(1, m):
        b = a
        while b > 0 and mode[order[b]] > mode[order[b - 1]]:
            order[b], order[b - 1] = order[b - 1], order[b]
            b -= 1
    _cholesky(room.curve, m, order, m, root)
    for a in range(m):
        centre[a] = room.slope[order[a]]
    solve(root, m, centre)
    for a in range(m):
        centre[a] += mode[order[a]]
    total = -math.inf
    for _ in range(n_particles):
        log_density = 0.0
        for a in range(m - 1, -1, -1):
            shift = 0.0
            for b in range(a + 1, m):
                shift += root[b, a] * (trial[order[b]] - centre[b])
            scale = _WIDER / root[a, a]
            middle = centre[a] - shift / root[a, a]
            bound = -middle / scale
            draw = normal_above(stream, bound)
            log_density -= 0.5 * draw * draw + _LOG_ROOT_2PI + math.log(scale) + log_normal_cdf(-bound)
            trial[order[a]] = max(middle + scale * draw, 1e-300)
        _rates(row, members, m, trial, rates)
        weight = _target(row[0], rates, trial, m) - log_density
        joined = max(weight, total) + math.log1p(math.exp(-abs(weight - total)))
        if math.log(next_uniform(stream)) < weight - joined or total == -math.inf:
            for j in range(m):
                drawn[j] = trial[j]
        total = joined
    return total - math.log(n_particles)
