"""Labels drawn from weights."""

from __future__ import annotations

import numpy as np

from partwise.kernels.arrays import Floats, Indices, Numbers, Starts, Word
from partwise.kernels.categories import categorical
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, seek
from partwise.kernels.sums import sum_of


@kernel
def draw_labels(
    row_starts: Starts,
    codes: Indices,
    column_starts: Starts,
    zeros: Floats,
    ones: Floats,
    columns: Floats,
    seed: Word,
    stage_chain: Word,
    out: Numbers,
) -> None:
    """For each cell: ``rng.choice(K, p=normalise(columns[f] * (ones if X[n, f] else zeros)[n]))``, by columns."""
    weights = np.empty(columns.shape[1])
    stream = new_stream()
    cursor = column_starts[:-1].copy()
    for n in range(row_starts.size - 1):
        seek(stream, seed, stage_chain, np.uint64(0), n)
        for p in range(row_starts[n], row_starts[n + 1]):
            f, is_one = codes[p] >> 1, codes[p] & 1 == 1
            for k in range(weights.size):
                weights[k] = columns[f, k] * (ones[n, k] if is_one else zeros[n, k])
            out[cursor[f]] = max(categorical(stream, weights, sum_of(weights)), 0)
            cursor[f] += 1
