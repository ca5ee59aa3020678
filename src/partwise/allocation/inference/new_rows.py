"""Activations of new rows, the dictionary given: posterior means."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.kernels.new_rows import mean_sample_counts
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks
from partwise.kernels.arrays import Floats, Singles

Stop = tuple[float, float]

STOP: Stop = (1.0, 0.01)
"""A row has at most one update for each of its tokens, and ends when one moves at most 1% of them.

Fewer updates are faster, but leave parts that resemble each other unresolved.
"""


def expected_activations(
    data: SparseData, model: AllocationModel, dictionary: Floats, engine: Engine, *, stop: Stop = STOP
) -> Floats:
    """E[h_nk L_n | x_n]; a row's result does not depend on the others."""
    totals = data.row_sums
    if not data.by_rows and data.nnz < data.shape[1]:
        # A few rows need a few rows of the dictionary.
        used, places = np.unique(data.indices, return_inverse=True)
        narrow = data.shape[0], used.size
        data = replace(data, shape=narrow, indices=places.astype(np.int32), column_labels=None)
        dictionary = dictionary[used]
    largest = dictionary.max(axis=1, initial=0.0)
    # Only ratios within a row matter: scaled, none of them is lost in single precision.
    scaled = np.empty(dictionary.shape, np.float32)
    np.divide(dictionary, np.where(largest > 0, largest, 1.0)[:, None], out=scaled, casting="same_kind")
    shared = scaled, largest > 0, model.activation_concentration.astype(np.float32), stop
    blocks = row_blocks(data.indptr, 2**12)
    _, (counts,) = engine.map_rows(_mean_counts, data, blocks, *shared, makes=[Made((model.n_components,))])
    shares = model.activation_posterior(counts)
    # Features that no part holds say nothing about activations, but count for the length.
    shape, rate = model.length_posterior(totals)
    return np.asarray(shares * (shape / rate / shares.sum(axis=1))[:, None])


def _mean_counts(
    block: Block, counts: Floats, dictionary: Singles, known: NDArray[np.bool_], concentration: Singles, stop: Stop
) -> float:
    rows = block.data.rows(block.start, block.stop)
    rows = rows.only(known[rows.indices])
    cells = rows.indptr, rows.indices, rows.values
    mean_sample_counts(cells, dictionary, concentration, stop, counts[block.rows])
    return 0.0
