"""Activations of new rows for a given dictionary: posterior means."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.kernels.new_rows import mean_sample_counts
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks
from partwise.kernels.arrays import Floats, Singles

# Number of rows of a dictionary (it may be stored by columns) copied at a time.
_AT_ONCE = 256
STOP = (1.0, 0.01)
"""A row has at most one update per token, and ends when an update moves at most 1% of its tokens (2% in long rows,
whose updates go further).

Fewer updates would be faster, but leave similar parts unresolved.
"""


def expected_activations(data: SparseData, model: AllocationModel, dictionary: Floats, engine: Engine) -> Floats:
    """E[h_nk L_n | x_n]. A row's result does not depend on other rows."""
    totals, used = data.row_sums, np.arange(data.shape[1])
    if not data.by_rows and data.nnz < 8 * data.shape[1]:
        # Some rows need only some rows of the dictionary.
        used, places = np.unique(data.indices, return_inverse=True)
        narrow = data.shape[0], used.size
        data = replace(data, shape=narrow, indices=places.astype(np.int32), column_labels=None)
    shared = *_scaled(dictionary, used), model.activation_concentration.astype(np.float32)
    blocks = row_blocks(data.indptr, 2**12)
    _, (counts,) = engine.map_rows(_mean_counts, data, blocks, *shared, makes=[Made((model.n_components,))])
    shares = model.activation_posterior(counts)
    # Features that no part holds say nothing about activations, but count for the length.
    shape, rate = model.length_posterior(totals)
    return np.asarray(shares * (shape / rate / shares.sum(axis=1))[:, None])


def _scaled(dictionary: Floats, used: NDArray[np.integer]) -> tuple[Singles, NDArray[np.bool_]]:
    """Some rows of the dictionary divided by their largest entries, and which rows have an entry above 0.

    Only ratios within a row matter, and scaling keeps all of them in single precision.
    """
    scaled, known = np.empty((used.size, dictionary.shape[1]), np.float32), np.empty(used.size, np.bool_)
    for first in range(0, used.size, _AT_ONCE):
        rows = slice(first, first + _AT_ONCE)
        some = dictionary[used[rows]]
        largest = some.max(axis=1, initial=0.0)
        known[rows] = largest > 0
        np.divide(some, np.where(known[rows], largest, 1.0)[:, None], out=scaled[rows], casting="same_kind")
    return scaled, known


def _mean_counts(
    block: Block, counts: Floats, dictionary: Singles, known: NDArray[np.bool_], concentration: Singles
) -> None:
    rows = block.data.rows(block.start, block.stop)
    rows = rows.only(known[rows.indices])
    cells = rows.indptr, rows.indices, rows.values
    mean_sample_counts(cells, dictionary, concentration, STOP, counts[block.rows])
