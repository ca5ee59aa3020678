"""Labels drawn from weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.categories import categorical
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, seek

Floats = NDArray[np.float64]


@kernel
def draw_labels(
    row_starts: NDArray[np.int64],
    codes: NDArray[np.int32],
    column_starts: NDArray[np.int64],
    zeros: Floats,
    ones: Floats,
    columns: Floats,
    seed: np.uint64,
    stage_chain: np.uint64,
    out: NDArray[Any],
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
            total = 0.0
            for k in range(weights.size):
                total += weights[k]
            out[cursor[f]] = max(categorical(stream, weights, total), 0)
            cursor[f] += 1
