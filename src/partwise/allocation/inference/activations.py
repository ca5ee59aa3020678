"""Activations of samples given the dictionary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.kernels.partial import mean_sample_counts
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.validation import refuse_long_rows
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks

Floats = NDArray[np.float64]

BURN_IN, N_DRAWS = 50, 200
_BYTES_OF_A_LABEL = 4


def expected_activations(
    data: SparseData,
    model: AllocationModel,
    dictionary: Floats,
    engine: Engine,
    *,
    burn_in: int = BURN_IN,
    n_draws: int = N_DRAWS,
) -> Floats:
    """E[h_nk L_n | x_n], by collapsed Gibbs sampling with the same stream for every row."""
    refuse_long_rows(data.row_sums, _BYTES_OF_A_LABEL, "transform")
    shared = np.ascontiguousarray(dictionary), model.activation_concentration, burn_in, n_draws
    blocks = row_blocks(data.indptr, 2**12)
    _, (counts,) = engine.map_rows(_mean_counts, data, blocks, *shared, makes=[Made((model.n_components,))])
    shares = model.activation_posterior(counts)
    # Features that no component holds say nothing about activations, but count for the length.
    shape, rate = model.length_posterior(data.row_sums)
    return np.asarray(shares * (shape / rate / shares.sum(axis=1))[:, None])


def _mean_counts(
    block: Block, counts: Floats, dictionary: Floats, concentration: Floats, burn_in: int, n_draws: int
) -> float:
    rows = block.data.rows(block.start, block.stop)
    known = rows.only(np.any(dictionary > 0, axis=1)[rows.indices])
    seed, stage_chain, _ = Key(0).for_stage("activations").words
    cells = known.indptr, known.indices, known.values, dictionary, concentration
    mean_sample_counts(*cells, burn_in, n_draws, seed, stage_chain, 0, block.n_rows, counts[block.rows])
    return 0.0
