"""Approximate distributed collapsed Gibbs sampling: blocks of rows sweep in parallel, blind to each other's changes."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.gibbs import AllocationCollapsedGibbs, AllocationGibbsState
from partwise.allocation.inference.labels import keys_of_rows, sweep
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.blocks import Block, first_tokens, row_blocks

# Number of blocks per sweep, for any number of threads: the approximation depends on it, so it is part of the model.
N_BLOCKS = 8


@dataclass
class DistributedGibbs(AllocationCollapsedGibbs):
    """Like `AllocationCollapsedGibbs`, but a block sees the labels of other blocks as they were before the sweep.

    Newman et al. (2009). It is not exact: use it if a chain is too slow, and compare. The data alone determine the
    blocks.
    """

    name: ClassVar[str] = "gibbs-distributed"
    rows_in_parallel: ClassVar[bool] = True

    def _blocks(self, data: SparseData) -> list[tuple[int, int]]:
        return row_blocks(first_tokens(data), max(1, -(-int(data.total) // N_BLOCKS)))

    def _sweep(self, key: Key, data: SparseData, state: AllocationGibbsState, chain: int) -> None:
        before = state.feature_counts[chain].copy(), state.component_counts[chain].copy()
        shared = self.present(state, chain), key.for_stage("gibbs"), *before, keys_of_rows(data)
        by_feature, by_component = self._sweep_tokens_by_blocks(_sweep_block, data, state, chain, shared)
        state.feature_counts[chain] += by_feature
        state.component_counts[chain] += by_component


def _sweep_block(
    block: Block,
    labels: NDArray[Any],
    _: NDArray[np.int64],
    sample_counts: NDArray[np.int32],
    model: AllocationModel,
    key: Key,
    features_before: NDArray[np.int32],
    components_before: NDArray[np.int64],
    row_keys: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    features, components = features_before.copy(), components_before.copy()
    rows, counts = (block.start, block.stop), (labels, sample_counts, features, components)
    sweep(key, block.data, model, rows, counts, streams=(block.first_row, row_keys))
    return features - features_before, components - components_before
