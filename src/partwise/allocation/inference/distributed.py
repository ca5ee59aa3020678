"""Approximate distributed collapsed Gibbs: blocks of rows sweep side by side, each blind to what the others change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.gibbs import CollapsedGibbs, GibbsState
from partwise.allocation.inference.labels import sweep
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.blocks import row_blocks

# Blocks of a sweep, however many threads there are: the approximation depends on them, so they are part of the model.
N_BLOCKS = 8


@dataclass
class DistributedGibbs(CollapsedGibbs):
    """As `CollapsedGibbs`, but a block sees the other blocks' labels as they were before the sweep.

    Newman et al. (2009). Not exact: use it where a chain is too slow, and compare. The data alone decide the blocks.
    """

    name = "gibbs-distributed"

    def _sweeps(self, key: Key, data: SparseData, state: GibbsState) -> None:
        tokens = np.concatenate(([0], np.cumsum(data.row_sums))).astype(np.int64)
        blocks = row_blocks(tokens, max(1, -(-int(data.total) // N_BLOCKS)))
        for chain in range(self.n_chains):
            self._merged(key.for_chain(chain).for_stage("gibbs"), data, state, chain, blocks)

    def _merged(self, key: Key, data: SparseData, state: GibbsState, chain: int, blocks: list[tuple[int, int]]) -> None:
        before = state.feature_counts[chain].copy(), state.component_counts[chain].copy()

        def one(block: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
            features, components = before[0].copy(), before[1].copy()
            rows = state.labels[chain], state.sample_counts[chain]
            sweep(key, data, self.model, block, *rows, features, components)
            return features - before[0], components - before[1]

        features, components = self.engine.map_reduce(one, blocks)
        state.feature_counts[chain] += features
        state.component_counts[chain] += components
