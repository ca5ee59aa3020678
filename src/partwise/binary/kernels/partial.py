"""Partially collapsed Gibbs sweeps of Beta-Dir: with the Dirichlet factor drawn, rows are independent."""

import numpy as np

from partwise.binary.kernels.cells import Listed
from partwise.binary.kernels.collapsed import end_row, share_of, start_row
from partwise.kernels.alias import draw_from_table
from partwise.kernels.arrays import Counts, Floats, Indices, Numbers, Words
from partwise.kernels.categories import categorical
from partwise.kernels.continuous import dirichlet
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, seek_row
from partwise.kernels.sums import sum_of


@kernel
def draw_columns(
    column_counts: Counts, concentration: Floats, words: Words, start: int, stop: int, out: Floats
) -> None:
    """``out[f] = rng.dirichlet(concentration + column_counts[f])`` (Eq. 26) for columns ``start`` to ``stop``."""
    stream = new_stream()
    parameters = np.empty(column_counts.shape[1])
    for f in range(start, stop):
        seek_row(stream, words, f)
        for k in range(parameters.size):
            parameters[k] = concentration[k] + column_counts[f, k]
        dirichlet(stream, parameters, out[f])


@kernel
def sweep_rows(
    cells: Listed,
    prior: Floats,
    tables: tuple[Floats, Floats, Indices],
    attempts: int,
    words: Words,
    span: tuple[int, int, int],
    labels: Numbers,
    row_counts: Counts,
    column_counts: Counts,
) -> None:
    """For each cell of some rows: ``k = rng.choice(K, p=normalise(columns[f] * share))``.

    ``share`` as in `partwise.binary.kernels.collapsed.sweep_beta_dirichlet`, from counts without the cell. The
    column's weights propose by an alias table, and the row's share accepts. After some attempts the label is drawn from
    all weights. Labels are ordered by rows. The new labels of these rows are added to ``column_counts``.
    """
    (row_starts, codes), (columns, thresholds, aliases), (first_row, start, stop) = cells, tables, span
    n_components = columns.shape[1]
    stream = new_stream()
    counts = np.empty((n_components, 2))
    weights = np.empty(n_components)
    bounds = np.empty(2)
    for n in range(start, stop):
        seek_row(stream, words, first_row + n)
        start_row(row_counts, n, prior, counts, bounds)
        for p in range(row_starts[n], row_starts[n + 1]):
            f, x = codes[p] >> 1, np.uint32(codes[p] & 1)
            y = np.uint32(1) - x
            old = int(labels[p])
            counts[old, x] -= 1.0
            left = share_of(counts, old, y, prior)
            new = old
            accepted = False
            for _ in range(attempts):
                new, rest = draw_from_table(stream, thresholds, aliases, f)
                accepted = rest * bounds[x] < share_of(counts, new, x, prior)
                if accepted:
                    break
            if not accepted:
                for k in range(n_components):
                    weights[k] = columns[f, k] * share_of(counts, k, x, prior)
                new = categorical(stream, weights, sum_of(weights))
            counts[new, x] += 1.0
            if new != old:
                labels[p] = new
                bounds[y] = max(bounds[y], left)
                bounds[x] = max(bounds[x], share_of(counts, new, x, prior))
            column_counts[f, new] += 1
        end_row(counts, n, row_counts)
