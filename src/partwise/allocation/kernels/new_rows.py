"""Expected allocation totals of new rows under a given dictionary, by a few passes over their cells."""

import numpy as np

from partwise.kernels.arrays import Cells, Floats, Indices, LongCounts, Numbers, Singles
from partwise.kernels.jit import inner_kernel, kernel
from partwise.kernels.lanes import LANES
from partwise.kernels.sums import longest_row

_MOST_UPDATES = 200
_ZERO, _ONE, _TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)
_TINY, _HUGE = np.float32(1e-30), np.float32(1e30)
# Rows with at least this many cells update four of them at once; one by one, each would wait for the one before.
# Their updates take steps 1.5 times as long, and stop at twice the change: fewer updates then come closer to the
# result of many. In short rows a single cell moves a lot, and neither would help.
_MANY_CELLS, _BEYOND, _BACK, _MORE = 32, np.float32(1.5), np.float32(-0.5), 2.0
# Parts that hold at most this many times their prior's counts after the first passes are set aside. Long rows of many
# parts have more passes, which also go further, and set more parts aside.
_LITTLE, _LITTLE_OF_MANY, _MANY_PARTS = np.float32(0.5), np.float32(2.0), 256

_Row = tuple[Indices, Numbers]
"""Features of a row and their counts."""
_Passes = tuple[Singles, Singles, Singles, Singles]
"""Of all parts: prior with expected counts before the last pass, expected counts after it, and sums of squares. By
cell, the sum of all weights."""
_Parts = tuple[Singles, Singles, Singles, Singles, Singles, Singles]
"""Of the parts in use: entries of the dictionary and responsibilities by cell; prior, and prior with expected counts.
By cell, the weight of all parts aside, and the count. Parts are padded to whole lanes, and cells to multiples of 4."""


@inner_kernel
def _first_passes(row: _Row, dictionary: Singles, concentration: Singles, n_passes: int, passes: _Passes) -> None:
    """Pass over the cells from the prior on: ``q = w * held; masses = q.sum(); q /= masses; totals = counts @ q``.

    w is the dictionary of the row's features. The last pass has ``squares = counts @ q**2`` as well. From the third
    pass on, ``held`` goes twice as far as to the totals.
    """
    features, counts = row
    held, totals, squares, masses = passes
    for k in range(held.size):
        held[k], totals[k], squares[k] = concentration[k], _ZERO, _ZERO
    for step in range(n_passes):
        far = _ONE if step < 2 else _TWO
        for k in range(held.size):
            before = held[k] - concentration[k]
            held[k] = concentration[k] + max(before + far * (totals[k] - before), _ZERO)
            totals[k] = _ZERO
        for i in range(0, features.size, 2):
            # Two cells at a time read and write the totals once; the last one may be alone.
            j = min(i + 1, features.size - 1)
            f, g, a, b = features[i], features[j], _ZERO, _ZERO
            for k in range(held.size):
                a += dictionary[f, k] * held[k]
                b += dictionary[g, k] * held[k]
            masses[i], masses[j] = a, b
            a, b = _ONE / a, _ONE / b
            c, d = a * np.float32(counts[i]), b * np.float32(counts[j] * (j - i))
            for k in range(held.size):
                totals[k] += c * dictionary[f, k] + d * dictionary[g, k]
            if step == n_passes - 1:
                a, b = min(a * c, _HUGE), min(b * d, _HUGE)
                for k in range(held.size):
                    squares[k] += a * dictionary[f, k] ** 2 + b * dictionary[g, k] ** 2
        for k in range(held.size):
            totals[k] *= held[k]
    for k in range(held.size):
        squares[k] *= held[k] ** 2


@inner_kernel
def _choose(concentration: Singles, little: np.float32, passes: _Passes, chosen: LongCounts, others: Singles) -> int:
    """Find the parts that hold more than a little, and the weights of the others; return how many there are.

    A word does not count for its own part. For the parts aside it is subtracted on average: ``totals - squares /
    totals`` is the expected total without one word, averaged over the words of the part.
    """
    _, totals, squares, _ = passes
    n_chosen, n_components = 0, concentration.size
    for k in range(n_components):
        chosen[n_chosen] = k
        n_chosen += totals[k] > little * concentration[k]
    # To leave out a few parts saves no time.
    if 4 * -(-n_chosen // LANES) > 3 * -(-n_components // LANES):
        n_chosen = n_components
        for k in range(n_components):
            chosen[k] = k
    for k in range(n_components):
        others[k] = concentration[k] + max(totals[k] - squares[k] / max(totals[k], _TINY), _ZERO)
    for j in range(n_chosen):
        others[chosen[j]] = _ZERO
    return n_chosen


@inner_kernel
def _gather(
    row: _Row, dictionary: Singles, chosen: LongCounts, before: Singles, masses: Singles, others: Singles, parts: _Parts
) -> None:
    """Copy the chosen parts of a row's features; responsibilities are those of the pass that began with ``before``."""
    features, counts = row
    own, mine, _, held, aside, tokens = parts
    for i in range(features.size):
        f, total = features[i], _ZERO
        if chosen.size == others.size:
            for j in range(chosen.size):
                own[i, j] = dictionary[f, j]
        else:
            for j in range(chosen.size):
                own[i, j] = dictionary[f, chosen[j]]
            for k in range(others.size):
                total += dictionary[f, k] * others[k]
        for j in range(chosen.size, held.size):
            own[i, j] = _ZERO
        aside[i], tokens[i], scale = total, counts[i], _ONE / masses[i]
        for j in range(held.size):
            mine[i, j] = own[i, j] * before[j] * scale


@inner_kernel
def _update(parts: _Parts) -> None:
    """Update the responsibilities of cells, one by one, and the totals of the parts."""
    own, mine, prior, held, aside, tokens = parts
    for i in range(tokens.size):
        total, count = aside[i], tokens[i]
        for j in range(held.size):
            total += own[i, j] * max(held[j] - mine[i, j], prior[j])
        scale = _ONE / total
        for j in range(held.size):
            share = scale * own[i, j] * max(held[j] - mine[i, j], prior[j])
            held[j] += count * (share - mine[i, j])
            mine[i, j] = share


@inner_kernel
def _update_by_four(parts: _Parts) -> None:
    """The same with longer steps, four cells at a time."""
    own, mine, prior, held, aside, tokens = parts
    for i in range(0, tokens.size, 4):
        a, b, c, d = aside[i], aside[i + 1], aside[i + 2], aside[i + 3]
        for j in range(held.size):
            h, p = held[j], prior[j]
            a += own[i, j] * max(h - mine[i, j], p)
            b += own[i + 1, j] * max(h - mine[i + 1, j], p)
            c += own[i + 2, j] * max(h - mine[i + 2, j], p)
            d += own[i + 3, j] * max(h - mine[i + 3, j], p)
        a, b, c, d = _BEYOND / a, _BEYOND / b, _BEYOND / c, _BEYOND / d
        e, f, g, o = tokens[i], tokens[i + 1], tokens[i + 2], tokens[i + 3]
        for j in range(held.size):
            h, p = held[j], prior[j]
            q, r, s, t = mine[i, j], mine[i + 1, j], mine[i + 2, j], mine[i + 3, j]
            u = max(a * own[i, j] * max(h - q, p) + _BACK * q, _ZERO)
            v = max(b * own[i + 1, j] * max(h - r, p) + _BACK * r, _ZERO)
            w = max(c * own[i + 2, j] * max(h - s, p) + _BACK * s, _ZERO)
            x = max(d * own[i + 3, j] * max(h - t, p) + _BACK * t, _ZERO)
            held[j] = h + (e * (u - q) + f * (v - r)) + (g * (w - s) + o * (x - t))
            mine[i, j], mine[i + 1, j], mine[i + 2, j], mine[i + 3, j] = u, v, w, x


@inner_kernel
def _last_pass(row: _Row, dictionary: Singles, parts: _Parts, final: Singles, sums: Singles) -> None:
    """Add expected counts after one more update to ``final``; to ``sums`` those of the others, over their weights."""
    own, mine, prior, held, aside, tokens = parts
    for i in range(row[0].size):
        f, total = row[0][i], aside[i]
        for j in range(held.size):
            total += own[i, j] * max(held[j] - mine[i, j], prior[j])
        scale = tokens[i] / total
        for j in range(held.size):
            final[j] += scale * own[i, j] * max(held[j] - mine[i, j], prior[j])
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
    a row of the dictionary matter. If the start gives little to a quarter of the parts or more, the weights of these
    stay as they are until the last pass.
    """
    indptr, indices, values = cells
    n_components, longest = concentration.size, 4 * -(-longest_row(indptr, 0, out.shape[0]) // 4)
    most = LANES * -(-n_components // LANES)
    everything = np.empty((2, longest * most), np.float32)
    by_cell, by_part = np.empty((3, longest), np.float32), np.empty((8, most), np.float32)
    places = np.empty(n_components, np.int64)
    for n in range(out.shape[0]):
        row = indices[indptr[n] : indptr[n + 1]], values[indptr[n] : indptr[n + 1]]
        total, n_cells = row[1].sum(), row[0].size
        long, n_passes, little, tol = n_cells >= _MANY_CELLS, 2, _LITTLE, stop[1] * total
        if long:
            n_cells, tol = 4 * -(-n_cells // 4), _MORE * tol
            if n_components >= _MANY_PARTS:
                n_passes, little = 4, _LITTLE_OF_MANY
        passes = by_part[0, :n_components], by_part[1, :n_components], by_part[2, :n_components], by_cell[0]
        _first_passes(row, dictionary, concentration, n_passes, passes)
        others, sums = by_part[3, :n_components], by_part[4, :n_components]
        chosen = places[: _choose(concentration, little, passes, places, others)]
        width = LANES * -(-chosen.size // LANES)
        prior, held, latest = by_part[5, :width], by_part[6, :width], by_part[7, :width]
        prior[:], held[:], latest[:] = _ZERO, _ZERO, _ZERO
        for j in range(chosen.size):
            prior[j], latest[j] = concentration[chosen[j]], passes[0][chosen[j]]
            held[j] = prior[j] + passes[1][chosen[j]]
        own = everything[0, : n_cells * width].reshape(n_cells, width)
        mine = everything[1, : n_cells * width].reshape(n_cells, width)
        aside, tokens = by_cell[1, :n_cells], by_cell[2, :n_cells]
        own[row[0].size :], mine[row[0].size :], aside[:], tokens[:] = _ZERO, _ZERO, _ONE, _ZERO
        parts = own, mine, prior, held, aside, tokens
        _gather(row, dictionary, chosen, latest, by_cell[0], others, parts)
        for _ in range(min(int(total / stop[0]), _MOST_UPDATES)):
            latest[:] = held
            if long:
                _update_by_four(parts)
            else:
                _update(parts)
            moved = _ZERO
            for j in range(held.size):
                moved += abs(held[j] - latest[j])
            if moved <= tol:
                break
        latest[:], sums[:] = _ZERO, _ZERO
        _last_pass(row, dictionary, parts, latest, sums[: 0 if chosen.size == n_components else n_components])
        for k in range(n_components):
            out[n, k] = sums[k] * others[k]
        for j in range(chosen.size):
            out[n, chosen[j]] = latest[j]
