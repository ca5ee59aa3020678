"""Approximate distributed collapsed Gibbs: blocks of rows sweep side by side, each blind to what the others change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.gibbs import CollapsedGibbs, GibbsState
from partwise.allocation.inference.labels import keys_of_rows, sweep
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.blocks import row_blocks
from partwise.engines.rows import Block, Ragged, first_tokens, put_back

# Blocks of a sweep, however many threads there are: the approximation depends on them, so they are part of the model.
N_BLOCKS = 8


@dataclass
class DistributedGibbs(CollapsedGibbs):
    """As `CollapsedGibbs`, but a block sees the other blocks' labels as they were before the sweep.

    Newman et al. (2009). Not exact: use it where a chain is too slow, and compare. The data alone decide the blocks.
    """

    name = "gibbs-distributed"

    def _sweeps(self, key: Key, data: SparseData, state: GibbsState) -> None:
        blocks = row_blocks(first_tokens(data), max(1, -(-int(data.total) // N_BLOCKS)))
        self._place(data, state, blocks)
        for chain in range(self.n_chains):
            self._merged(key.for_chain(chain).for_stage("gibbs"), data, state, chain, blocks)

    def _merged(self, key: Key, data: SparseData, state: GibbsState, chain: int, blocks: list[tuple[int, int]]) -> None:
        before = state.feature_counts[chain].copy(), state.component_counts[chain].copy()

        shared = self.model, key, *before, keys_of_rows(data)
        rows = [Ragged.tokens(state.labels[chain], data), state.sample_counts[chain]]
        (features, components), (labels, sample_counts) = self.engine.map_rows(
            _sweep, data, blocks, *shared, changes=rows
        )
        put_back(state.labels, chain, labels)
        put_back(state.sample_counts, chain, sample_counts)
        state.feature_counts[chain] += features
        state.component_counts[chain] += components


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
