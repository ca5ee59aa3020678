"""Activations of samples given the dictionary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.kernels.partial import mean_sample_counts
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import row_blocks

Floats = NDArray[np.float64]

BURN_IN, N_DRAWS = 50, 200


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
    dictionary = np.ascontiguousarray(dictionary)
    # Features that no component holds say nothing about activations, but count for the length.
    lengths = data.row_sums
    known = data.only(np.any(dictionary > 0, axis=1)[data.indices])
    counts = np.empty((data.shape[0], model.n_components))
    seed, stage_chain, _ = Key(0).for_stage("activations").words

    def one(block: tuple[int, int]) -> None:
        cells = known.indptr, known.indices, known.values, dictionary, model.activation_concentration
        mean_sample_counts(*cells, burn_in, n_draws, seed, stage_chain, *block, counts)

    engine.for_each(one, row_blocks(known.indptr, 2**12))
    shares = model.activation_posterior(counts)
    shape, rate = model.length_posterior(lengths)
    return np.asarray(shares * (shape / rate / shares.sum(axis=1))[:, None])
