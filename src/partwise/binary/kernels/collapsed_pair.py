"""Collapsed Gibbs sweeps of Dir-Dir: both labels of a cell are drawn together."""

from __future__ import annotations

import numpy as np

from partwise.binary.kernels.collapsed import propose
from partwise.kernels.arrays import Counts, Indices, Numbers, Starts, Word
from partwise.kernels.categories import categorical
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, seek
from partwise.kernels.sums import sum_of


@kernel
def sweep_dirichlet_dirichlet(
    row_starts: Starts,
    codes: Indices,
    column_starts: Starts,
    concentration: float,
    row_concentration: float,
    attempts: int,
    seed: Word,
    stage_chain: Word,
    iteration: Word,
    labels: Numbers,
    row_labels: Numbers,
    row_counts: Counts,
    column_counts: Counts,
) -> None:
    """For each cell: ``z, c = np.divmod(rng.choice(K * K, p=normalise(pairs)), K)`` (Eq. 59; 60 and 61 jointly).

    ``pairs = np.outer(concentration + column_counts[f], row_concentration + row_counts[n])`` without the cell, kept
    only on the diagonal for a one, only off it for a zero. Labels z are ordered by columns, row labels c by rows.

    The column proposes z, the row proposes c, and the pair is accepted if it agrees with the bit; after some attempts
    it is drawn from all weights, in O(K).
    """
    n_components = column_counts.shape[1]
    stream = new_stream()
    cursor = column_starts[:-1].copy()
    weights = np.empty(n_components)
    for n in range(row_starts.size - 1):
        seek(stream, seed, stage_chain, iteration, n)
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
                z, _rest = propose(stream, labels, start, at, column_others, concentration, n_components)
                c, _rest = propose(stream, row_labels, first, p, row_others, row_concentration, n_components)
                accepted = (z == c) == is_one
                if accepted:
                    break
            old_z, old_c = int(labels[at]), int(row_labels[p])
            column_counts[f, old_z] -= 1
            row_counts[n, old_c] -= 1
            if not accepted:
                if is_one:
                    for k in range(n_components):
                        weights[k] = (concentration + column_counts[f, k]) * (row_concentration + row_counts[n, k])
                    z = categorical(stream, weights, sum_of(weights))
                    c = z
                else:
                    for k in range(n_components):
                        # what the row gives to all others; nonnegative terms, so that no difference rounds to 0
                        rest_of_row = row_others - row_counts[n, k] + row_concentration * (n_components - 1)
                        weights[k] = (concentration + column_counts[f, k]) * rest_of_row
                    z = categorical(stream, weights, sum_of(weights))
                    for k in range(n_components):
                        weights[k] = 0.0 if k == z else row_concentration + row_counts[n, k]
                    c = categorical(stream, weights, sum_of(weights))
            labels[at] = z
            row_labels[p] = c
            column_counts[f, z] += 1
            row_counts[n, c] += 1
