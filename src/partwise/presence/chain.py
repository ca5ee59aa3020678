"""A Markov chain over sets of parts of one sample: add, remove and swap, with estimated marginal likelihoods.

The estimates are unbiased, and the chain keeps that of the current set, so that it has exactly the posterior over sets
and activations as its stationary distribution (Beaumont, 2003; Andrieu and Roberts, 2009).
"""

import math

import numpy as np

from partwise.kernels.arrays import Floats, LongCounts, Words
from partwise.kernels.continuous import gamma
from partwise.kernels.jit import inner_kernel, kernel
from partwise.kernels.streams import Stream, new_stream, next_uniform, seek_row
from partwise.presence.evidence import Row, find_mode, log_evidence, new_room

# Weights of candidates mix what the data suggest with a floor, so that every set can be reached.
_FLOOR = 0.3
_LARGEST_GAIN = 12.0
_ADD, _REMOVE, _SWAP, _REFRESH = 0, 1, 2, 3


@inner_kernel
def _suggest(
    counts: Floats, cells: Floats, rates: Floats, inside: LongCounts, odds: Floats, bends: Floats, suggested: Floats
) -> None:
    """Weights with which parts outside the set are proposed: by how much the likelihood would gain at the mode."""
    n_parts = cells.shape[1]
    for k in range(n_parts):
        suggested[k], bends[k] = -1.0, 1e-12
    for i in range(counts.shape[0]):
        ratio = counts[i] / rates[i]
        square = ratio / rates[i]
        for k in range(n_parts):
            suggested[k] += ratio * cells[i, k]
            bends[k] += square * cells[i, k] * cells[i, k]
    n_open, total = 0, 0.0
    for k in range(n_parts):
        if inside[k] or odds[k] == 0.0:
            suggested[k] = 0.0
            continue
        slope = max(suggested[k], 0.0)
        suggested[k] = math.exp(0.5 * min(0.5 * slope * slope / bends[k], _LARGEST_GAIN))
        n_open += 1
        total += suggested[k]
    for k in range(n_parts):
        if suggested[k] > 0.0:
            suggested[k] = (1.0 - _FLOOR) * suggested[k] / total + _FLOOR / n_open


@inner_kernel
def _alike_total(alike: Floats, inside: LongCounts, odds: Floats, leaves: int) -> float:
    """Sum of the weights of the parts that may take the place of one."""
    total = 0.0
    for k in range(odds.shape[0]):
        if not inside[k] and odds[k] > 0.0:
            total += alike[leaves, k]
    return total


@inner_kernel
def _pick(stream: Stream, weights: Floats, inside: LongCounts, odds: Floats, total: float) -> int:
    """A part outside the set, drawn by weights of a given sum."""
    rest, last = next_uniform(stream) * total, -1
    for k in range(odds.shape[0]):
        if not inside[k] and odds[k] > 0.0 and weights[k] > 0.0:
            rest -= weights[k]
            last = k
            if rest <= 0.0:
                break
    return last


@kernel
def fit_all(counts: Floats, cells: Floats, background: float, members: LongCounts, h: Floats) -> None:
    """``h[:] = argmax counts @ np.log(background + cells[:, members] @ h) - h.sum()`` over h >= 0, from a start."""
    m = members.shape[0]
    ridge = 1.0 / ((counts.sum() + 1.0) * (counts.sum() + 1.0))
    find_mode((counts, cells, background), members, m, ridge, h, new_room(counts.shape[0], m))


@kernel
def run_chain(
    words: Words,
    at_row: int,
    row: Row,
    prior: tuple[Floats, Floats],
    start: LongCounts,
    lengths: tuple[int, int, int, int],
    presence: Floats,
    draws: Floats,
) -> float:
    """Run one chain; add the share of kept iterations with each part to ``presence``, fill ``draws`` (draws x parts).

    ``prior`` has the odds of each part's presence, 0 if it is forbidden, infinite if it is always present. The result
    is the share of proposals that were accepted.
    """
    (counts, cells, _), (odds, alike), (n_burn, n_draws, thin, n_particles) = row, prior, lengths
    n_parts = odds.shape[0]
    stream = new_stream()
    seek_row(stream, words, at_row)
    total = counts.sum()
    ridge = 1.0 / ((total + 1.0) * (total + 1.0))
    members, others = np.zeros(n_parts, np.int64), np.zeros(n_parts, np.int64)
    inside, inside_next = np.zeros(n_parts, np.int64), np.zeros(n_parts, np.int64)
    mode, mode_next = np.zeros(n_parts), np.zeros(n_parts)
    drawn, drawn_next = np.zeros(n_parts), np.zeros(n_parts)
    suggested, suggested_next = np.zeros(n_parts), np.zeros(n_parts)
    room = new_room(counts.shape[0], n_parts)
    m = 0
    for k in range(n_parts):
        if start[k]:
            members[m], inside[k], mode[m] = k, 1, 1.0
            m += 1
    for j in range(m):
        mode[j] = total / m
    find_mode(row, members, m, ridge, mode, room)
    _suggest(counts, cells, room.rates, inside, odds, room.step, suggested)
    value = log_evidence(stream, n_particles, row, members, m, mode, room, drawn)
    value += math.lgamma(m) - math.lgamma(total + m)
    accepted, proposed = 0, 0
    n_steps = n_burn + n_draws * thin
    for at in range(n_steps):
        kind = min(int(next_uniform(stream) * 4.0), _REFRESH)
        # What leaves and what enters, and the ratio of the proposals there and back.
        n_loose = 0
        for j in range(m):
            if odds[members[j]] < math.inf:
                others[n_loose] = members[j]
                n_loose += 1
        leaves, enters, ratio, possible = -1, -1, 0.0, True
        if kind == _REFRESH:
            pass  # the same set with new particles, so that its activations are drawn again
        elif kind == _ADD:
            enters = _pick(stream, suggested, inside, odds, 1.0)
            possible = enters >= 0
            if possible:
                ratio = math.log(odds[enters]) - math.log(suggested[enters]) - math.log(n_loose + 1.0)
        elif n_loose == 0 or (kind == _REMOVE and m == 1):
            possible = False
        else:
            leaves = others[min(int(next_uniform(stream) * n_loose), n_loose - 1)]
            if kind == _SWAP:
                weight = _alike_total(alike, inside, odds, leaves)
                enters = _pick(stream, alike[leaves], inside, odds, weight) if weight > 0.0 else -1
                possible = enters >= 0
                if possible:
                    ratio = math.log(odds[enters] / odds[leaves]) - math.log(alike[leaves, enters] / weight)
            else:
                ratio = -math.log(odds[leaves]) + math.log(n_loose)
        proposed += 1
        if possible:
            size = 0
            for k in range(n_parts):
                inside_next[k] = inside[k]
            for j in range(m):
                if members[j] != leaves:
                    others[size], mode_next[size] = members[j], mode[j]
                    size += 1
                elif enters >= 0:
                    others[size], mode_next[size], inside_next[enters] = enters, max(mode[j], 0.01 * total), 1
                    size += 1
            if leaves >= 0:
                inside_next[leaves] = 0
            elif enters >= 0:
                others[size], mode_next[size], inside_next[enters] = enters, 0.01 * total, 1
                size += 1
            find_mode(row, others, size, ridge, mode_next, room)
            _suggest(counts, cells, room.rates, inside_next, odds, room.step, suggested_next)
            value_next = log_evidence(stream, n_particles, row, others, size, mode_next, room, drawn_next)
            value_next += math.lgamma(size) - math.lgamma(total + size)
            if kind == _REMOVE:
                ratio += math.log(suggested_next[leaves])
            elif kind == _SWAP:
                weight = _alike_total(alike, inside_next, odds, enters)
                ratio += math.log(alike[enters, leaves] / weight)
            if math.log(next_uniform(stream)) < value_next - value + ratio:
                accepted += 1
                m, value = size, value_next
                for j in range(m):
                    members[j], mode[j], drawn[j] = others[j], mode_next[j], drawn_next[j]
                for k in range(n_parts):
                    inside[k], suggested[k] = inside_next[k], suggested_next[k]
        if at >= n_burn:
            for j in range(m):
                presence[members[j]] += 1.0 / (n_draws * thin)
            if (at - n_burn) % thin == thin - 1:
                # The total is integrated out: its posterior is Gamma(N, 1), whatever the shares.
                size_drawn = 0.0
                for j in range(m):
                    size_drawn += drawn[j]
                level = gamma(stream, total) / size_drawn
                for j in range(m):
                    draws[(at - n_burn) // thin, members[j]] = drawn[j] * level
    return accepted / max(proposed, 1)
