"""Collapsed Gibbs sweeps: labels are proposed by a column, and accepted by a row (Beta-Dir) or a bit (Dir-Dir)."""

import numpy as np

from partwise.binary.kernels.cells import Ordered
from partwise.kernels.arrays import Counts, Floats, Numbers, Words
from partwise.kernels.categories import categorical
from partwise.kernels.jit import inline_kernel, kernel
from partwise.kernels.streams import Stream, new_stream, next_uniform, seek_row
from partwise.kernels.sums import longest_row, sum_of


@inline_kernel
def propose(
    stream: Stream, labels: Numbers, start: int, at: int, n_others: float, cumulative: Floats
) -> tuple[int, float]:
    """``k = rng.choice(K, p=normalise(concentration + others)), rng.random()``, where ``others`` counts other labels.

    ``cumulative = concentration.cumsum()``. To draw a label with probability proportional to its
    count, take the label of another cell at random. No count is read, and the cost does not depend on K. One uniform
    number serves both draws: what is left of it after the choice is uniform again.
    """
    last = cumulative.size - 1
    t = next_uniform(stream) * (n_others + cumulative[last])
    if t < n_others:
        chosen = int(t)
        rest = t - chosen
        chosen += start
        chosen += chosen >= at  # the cell itself is not among the others
        return int(labels[chosen]), rest
    t -= n_others
    k = min(np.searchsorted(cumulative, t, side="right"), last)
    before = cumulative[k - 1] if k > 0 else 0.0
    return int(k), (t - before) / (cumulative[k] - before)


@inline_kernel
def start_row(row_counts: Counts, n: int, prior: Floats, counts: Floats, bounds: Floats) -> None:
    """``counts[:] = row_counts[n]; w = prior + counts; bounds[:] = (w / w.sum(axis=1, keepdims=True)).max(axis=0)``.

    Load a row: its counts of labels, and for each bit the largest share of any component.
    """
    bounds[0], bounds[1] = 0.0, 0.0
    for k in range(counts.shape[0]):
        zeros, ones = float(row_counts[n, k, 0]), float(row_counts[n, k, 1])
        counts[k, 0], counts[k, 1] = zeros, ones
        inverse = 1.0 / (prior[k, 0] + prior[k, 1] + zeros + ones)
        bounds[0] = max(bounds[0], (prior[k, 0] + zeros) * inverse)
        bounds[1] = max(bounds[1], (prior[k, 1] + ones) * inverse)


@inline_kernel
def share_of(counts: Floats, k: int, x: np.uint32, prior: Floats) -> float:
    """``(prior[k, x] + counts[k, x]) / (prior[k] + counts[k]).sum()``: how likely component k shows bit x in a row."""
    return float((prior[k, x] + counts[k, x]) / (prior[k, 0] + prior[k, 1] + counts[k, 0] + counts[k, 1]))


@inline_kernel
def end_row(counts: Floats, n: int, row_counts: Counts) -> None:
    """``row_counts[n] = counts``."""
    for k in range(counts.shape[0]):
        row_counts[n, k, 0] = np.int32(counts[k, 0])
        row_counts[n, k, 1] = np.int32(counts[k, 1])


@kernel
def sweep_beta_dirichlet(
    cells: Ordered,
    priors: tuple[Floats, Floats],
    attempts: int,
    words: Words,
    labels: Numbers,
    row_counts: Counts,
    column_counts: Counts,
) -> None:
    """For each cell: ``k = rng.choice(K, p=normalise((concentration + column_counts[f]) * share))`` (Eq. 25).

    ``share = (prior[:, x] + row_counts[n, :, x]) / (prior + row_counts[n]).sum(axis=1)``, counts without the cell;
    ``prior`` holds beta and alpha of each component. Labels are ordered by columns.

    The first factor proposes a label; the second accepts it, relative to an upper bound of the row's shares. Together
    they draw from the product. After some attempts the label is drawn from all weights instead, with the same
    distribution. The cells of a row are in different columns, so the first proposals of a row do not depend on what the
    row changes, and are made together.
    """
    (row_starts, codes, column_starts), (prior, concentration) = cells, priors
    n_components = column_counts.shape[1]
    stream = new_stream()
    cursor = column_starts[:-1].copy()
    counts = np.empty((n_components, 2))
    weights = np.empty(n_components)
    longest = longest_row(row_starts, 0, row_starts.size - 1)
    proposals = np.empty(longest, np.uint32)
    present = np.empty(longest, np.uint32)
    rests = np.empty(longest)
    cumulative = np.cumsum(concentration)
    bounds = np.empty(2)
    for n in range(row_starts.size - 1):
        seek_row(stream, words, n)
        start_row(row_counts, n, prior, counts, bounds)
        first = row_starts[n]
        n_cells = row_starts[n + 1] - first
        for i in range(n_cells):
            f = codes[first + i] >> 1
            start, at = column_starts[f], cursor[f]
            cursor[f] = at + 1
            present[i] = labels[at]
            n_others = float(column_starts[f + 1] - start - 1)
            proposals[i], rests[i] = propose(stream, labels, start, at, n_others, cumulative)
        for i in range(n_cells):
            x = np.uint32(codes[first + i] & 1)
            old = int(present[i])
            new = int(proposals[i])
            own = 1.0 if new == old else 0.0
            scaled = rests[i] * bounds[x]
            both = prior[new, 0] + prior[new, 1] + counts[new, 0] + counts[new, 1]
            accepted = scaled * (both - own) < prior[new, x] + counts[new, x] - own
            if accepted and new == old:
                continue
            f = codes[first + i] >> 1
            at = cursor[f] - 1
            counts[old, x] -= 1.0
            if not accepted:
                start = column_starts[f]
                n_others = float(column_starts[f + 1] - start - 1)
                for _ in range(attempts):
                    new, rest = propose(stream, labels, start, at, n_others, cumulative)
                    accepted = rest * bounds[x] < share_of(counts, new, x, prior)
                    if accepted:
                        break
                if not accepted:
                    column_counts[f, old] -= 1
                    for k in range(n_components):
                        weights[k] = (concentration[k] + column_counts[f, k]) * share_of(counts, k, x, prior)
                    new = categorical(stream, weights, sum_of(weights))
                    column_counts[f, old] += 1
            counts[new, x] += 1.0
            if new != old:
                labels[at] = new
                column_counts[f, old] -= 1
                column_counts[f, new] += 1
                # Shares that rose: of the other bit where a cell was removed, of this bit where it was added.
                y = np.uint32(1) - x
                bounds[y] = max(bounds[y], share_of(counts, old, y, prior))
                bounds[x] = max(bounds[x], share_of(counts, new, x, prior))
        end_row(counts, n, row_counts)


@kernel
def sweep_dirichlet_dirichlet(
    cells: Ordered,
    priors: tuple[Floats, Floats],
    attempts: int,
    words: Words,
    both_labels: tuple[Numbers, Numbers],
    row_counts: Counts,
    column_counts: Counts,
) -> None:
    """For each cell: ``z, c = np.divmod(rng.choice(K * K, p=normalise(pairs)), K)`` (Eq. 59; 60 and 61 jointly).

    ``pairs = np.outer(concentration + column_counts[f], row_concentration + row_counts[n])`` without the cell, kept
    only on the diagonal for a one, only off it for a zero. Labels z are ordered by columns, row labels c by rows.

    The column proposes z, the row proposes c, and the pair is accepted if it agrees with the bit; after some attempts
    it is drawn from all weights, in O(K).
    """
    (row_starts, codes, column_starts), (concentration, row_concentration) = cells, priors
    labels, row_labels = both_labels
    n_components = column_counts.shape[1]
    stream = new_stream()
    cursor = column_starts[:-1].copy()
    weights = np.empty(n_components)
    cumulative, row_cumulative = np.cumsum(concentration), np.cumsum(row_concentration)
    row_from = np.cumsum(row_concentration[::-1])[::-1]
    for n in range(row_starts.size - 1):
        seek_row(stream, words, n)
        first, last = row_starts[n], row_starts[n + 1]
        row_others = float(last - first - 1)
        for p in range(first, last):
            f, is_one = codes[p] >> 1, (codes[p] & 1) == 1
            start, at = column_starts[f], cursor[f]
            cursor[f] = at + 1
            column_others = float(column_starts[f + 1] - start - 1)
            z, c = 0, 0
            accepted = False
            for _ in range(attempts):
                z, _rest = propose(stream, labels, start, at, column_others, cumulative)
                c, _rest = propose(stream, row_labels, first, p, row_others, row_cumulative)
                accepted = (z == c) == is_one
                if accepted:
                    break
            old_z, old_c = int(labels[at]), int(row_labels[p])
            column_counts[f, old_z] -= 1
            row_counts[n, old_c] -= 1
            if not accepted:
                if is_one:
                    for k in range(n_components):
                        weights[k] = (concentration[k] + column_counts[f, k]) * (
                            row_concentration[k] + row_counts[n, k]
                        )
                    z = categorical(stream, weights, sum_of(weights))
                    c = z
                else:
                    for k in range(n_components):
                        # what the row gives to all others: a sum of nonnegative terms, as a difference could round to 0
                        before = row_cumulative[k - 1] if k > 0 else 0.0
                        after = row_from[k + 1] if k + 1 < n_components else 0.0
                        rest_of_row = row_others - row_counts[n, k] + before + after
                        weights[k] = (concentration[k] + column_counts[f, k]) * rest_of_row
                    z = categorical(stream, weights, sum_of(weights))
                    for k in range(n_components):
                        weights[k] = 0.0 if k == z else row_concentration[k] + row_counts[n, k]
                    c = categorical(stream, weights, sum_of(weights))
            labels[at] = z
            row_labels[p] = c
            column_counts[f, z] += 1
            row_counts[n, c] += 1
