"""Expected allocation totals of new rows under a given dictionary, by a few passes over their cells."""

import numpy as np

from partwise.kernels.arrays import Cells, Floats, Indices, LongCounts, Numbers, Singles
from partwise.kernels.jit import inner_kernel, kernel
from partwise.kernels.lanes import LANES
from partwise.kernels.sums import sum_of

# Parts to which the first pass gives less than this share of their prior's counts are set aside.
_NEXT_TO_NOTHING = np.float32(0.5)
_MOST_UPDATES = 200
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
# Rows with at least this many cells update several of them at once; one by one, each would wait for the one before.
# Their updates take steps 1.5 times as long, and stop at twice the change: fewer updates then come closer to the
# result of many. In short rows a single cell moves a lot, and neither would help.
_MANY_CELLS, _TOGETHER, _BEYOND, _MORE = 32, 4, np.float32(1.5), 2.0

_Row = tuple[Indices, Numbers]
"""Features of a row and their counts."""
_Parts = tuple[Singles, Singles, Singles, Singles, Singles, Singles, Singles, Singles]
"""Of the parts in use: entries of the dictionary and responsibilities by cell; prior, and prior with expected counts;
room for the weights of some cells. By cell, the weight of all parts aside, and the count."""


@inner_kernel
def _first_pass(
    row: _Row, dictionary: Singles, concentration: Singles, room: Singles, masses: Singles, out: Singles
) -> None:
    """``masses = w @ β; out = (counts / masses) @ (w * β)``, w being the dictionary of the row's features."""
    features, counts = row
    for k in range(concentration.size):
        out[k] = _ZERO
    for i in range(features.size):
        f = features[i]
        for k in range(concentration.size):
            room[k] = dictionary[f, k] * concentration[k]
        masses[i] = sum_of(room)
        scale = np.float32(counts[i]) / masses[i]
        for k in range(concentration.size):
            out[k] += scale * room[k]


@kernel
def _gather(
    row: _Row, dictionary: Singles, concentration: Singles, chosen: LongCounts, masses: Singles, start: Singles
) -> _Parts:
    """Copy the chosen parts, padded with zeros to whole lanes; the first responsibilities come from ``start``."""
    features, counts = row
    n_cells, width = features.size, -(-chosen.size // LANES) * LANES
    own, mine = np.zeros((n_cells, width), np.float32), np.zeros((n_cells, width), np.float32)
    prior, held = np.zeros(width, np.float32), np.zeros(width, np.float32)
    weights, first = np.zeros((_TOGETHER, width), np.float32), np.zeros(width, np.float32)
    aside, tokens = np.ones(n_cells, np.float32), np.zeros(n_cells, np.float32)
    for j in range(chosen.size):
        prior[j] = held[j] = concentration[chosen[j]]
        first[j] = prior[j] + start[chosen[j]]
    for i in range(features.size):
        f, tokens[i] = features[i], counts[i]
        if chosen.size == concentration.size:
            for j in range(chosen.size):
                own[i, j] = dictionary[f, j]
            aside[i] = _ZERO
        else:
            for j in range(chosen.size):
                own[i, j] = dictionary[f, chosen[j]]
            for j in range(width):
                weights[0, j] = own[i, j] * prior[j]
            aside[i] = max(masses[i] - sum_of(weights[0]), _ZERO)
        for j in range(width):
            weights[0, j] = own[i, j] * first[j]
        scale = _ONE / (aside[i] + sum_of(weights[0]))
        for j in range(width):
            mine[i, j] = weights[0, j] * scale
            held[j] += tokens[i] * mine[i, j]
    return own, mine, prior, held, weights, aside, tokens, np.empty(_TOGETHER, np.float32)


@inner_kernel
def _update(parts: _Parts, together: int, beyond: np.float32) -> None:
    """Update the responsibilities of cells, a few at a time, and the totals of the parts."""
    own, mine, prior, held, weights, aside, tokens, scales = parts
    width = held.size
    for first in range(0, tokens.size, together):
        last = min(first + together, tokens.size)
        for i in range(first, last):
            c = i - first
            for j in range(width):
                weights[c, j] = own[i, j] * max(held[j] - mine[i, j], prior[j])
            total = aside[i]
            for j in range(width):
                total += weights[c, j]
            scales[c] = _ONE / total
        for i in range(first, last):
            c = i - first
            count, scale = tokens[i], scales[c]
            for j in range(width):
                share = max(mine[i, j] + beyond * (weights[c, j] * scale - mine[i, j]), _ZERO)
                held[j] += count * (share - mine[i, j])
                mine[i, j] = share


@inner_kernel
def _last_pass(row: _Row, dictionary: Singles, parts: _Parts, n_chosen: int, final: Singles, sums: Singles) -> None:
    """``final``: expected counts of the chosen parts after one more update; ``sums``: of the others, over priors."""
    own, mine, prior, held, weights, aside, tokens, _ = parts
    for k in range(sums.size):
        sums[k] = _ZERO
    for i in range(tokens.size):
        f = row[0][i]
        for j in range(prior.size):
            weights[0, j] = own[i, j] * max(held[j] - mine[i, j], prior[j])
        total = aside[i]
        for j in range(prior.size):
            total += weights[0, j]
        scale = tokens[i] / total
        for j in range(prior.size):
            final[j] += scale * weights[0, j]
        if n_chosen < sums.size:
            for k in range(sums.size):
                sums[k] += scale * dictionary[f, k]


@kernel
def mean_sample_counts(
    cells: Cells, dictionary: Singles, concentration: Singles, stop: tuple[float, float], out: Floats
) -> None:
    """``q_i = w_i * (β + n - q_i); q_i /= q_i.sum(); n = counts @ q``, cells of each row in turn, n being ``out[row]``.

    Collapsed variational Bayes of order 0 (Asuncion et al. 2009): q_ik is the probability that part k made a token of
    cell i, and n_k the expected total of part k. It starts from the prior. ``stop = tokens, share`` allows a row one
    update per ``tokens`` of its tokens, and stops it when an update moves at most ``share`` of them. Only ratios within
    a row of the dictionary matter. If the start gives almost nothing to half of the parts or more, these keep the
    prior's share of each token.
    """
    indptr, indices, values = cells
    n_components = concentration.size
    start, sums = np.empty(n_components, np.float32), np.empty(n_components, np.float32)
    for n in range(out.shape[0]):
        row = indices[indptr[n] : indptr[n + 1]], values[indptr[n] : indptr[n + 1]]
        masses, total = np.empty(row[0].size, np.float32), row[1].sum()
        _first_pass(row, dictionary, concentration, sums, masses, start)
        chosen = np.flatnonzero(start > _NEXT_TO_NOTHING * concentration)
        if 2 * chosen.size > n_components:
            chosen = np.arange(n_components)  # to copy rows whole takes less time than to pick from them
        parts = _gather(row, dictionary, concentration, chosen, masses, start)
        held, latest = parts[3], np.empty(parts[3].size, np.float32)
        together, beyond, tol = 1, _ONE, stop[1] * total
        if row[0].size >= _MANY_CELLS:
            together, beyond, tol = _TOGETHER, _BEYOND, _MORE * tol
        for _ in range(min(int(total / stop[0]), _MOST_UPDATES)):
            latest[:] = held
            _update(parts, together, beyond)
            moved = _ZERO
            for j in range(held.size):
                moved += abs(held[j] - latest[j])
            if moved <= tol:
                break
        latest[:] = _ZERO
        _last_pass(row, dictionary, parts, chosen.size, latest, sums)
        for k in range(n_components):
            out[n, k] = sums[k] * concentration[k]
        for j in range(chosen.size):
            out[n, chosen[j]] = latest[j]
