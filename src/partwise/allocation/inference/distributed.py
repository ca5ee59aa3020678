"""Approximate distributed collapsed Gibbs: blocks of rows sweep side by side, each blind to what the others change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.gibbs import GibbsState, RowwiseGibbs
from partwise.allocation.inference.labels import keys_of_rows, sweep
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.blocks import Block, first_tokens, row_blocks

# Blocks of a sweep, however many threads there are: the approximation depends on them, so they are part of the model.
N_BLOCKS = 8


@dataclass
class DistributedGibbs(RowwiseGibbs):
    """As `CollapsedGibbs`, but a block sees the other blocks' labels as they were before the sweep.

    Newman et al. (2009). Not exact: use it where a chain is too slow, and compare. The data alone decide the blocks.
    """

    name = "gibbs-distributed"

    def _blocks(self, data: SparseData) -> list[tuple[int, int]]:
        return row_blocks(first_tokens(data), max(1, -(-int(data.total) // N_BLOCKS)))

    def _prepare(
        self, key: Key, data: SparseData, state: GibbsState, chain: int
    ) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        before = state.feature_counts[chain].copy(), state.component_counts[chain].copy()
        return _sweep, (self.model, key.for_stage("gibbs"), *before, keys_of_rows(data))

    def _finish(
        self,
        data: SparseData,
        state: GibbsState,
        chain: int,
        sums: tuple[NDArray[np.int32], NDArray[np.int64]],
    ) -> None:
        state.feature_counts[chain] += sums[0]
        state.component_counts[chain] += sums[1]


def _sweep(
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
    sweep(key, block.data, model, rows, *counts, first_row=block.first_row, row_keys=row_keys)
    return features - features_before, components - components_before
