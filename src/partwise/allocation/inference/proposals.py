"""Rows given the dictionary, in parallel, at a constant cost per token: Metropolis-Hastings steps inside Gibbs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.gibbs import AllocationCollapsedGibbs, AllocationGibbsState
from partwise.allocation.kernels.proposals import draw_dictionary, move_counts, share_features, sweep_by_proposals
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.blocks import Block, row_blocks
from partwise.kernels.alias import build_tables
from partwise.kernels.arrays import Counts, Floats, LongCounts, Singles
from partwise.sampling.draws import label_type

# Times that each token's label may change from one draw of the dictionary to the next.
N_CYCLES = 2
# Entries of the dictionary that a thread draws at a time.
_ENTRIES_AT_ONCE = 2**17
Tables = tuple[Singles, Singles, NDArray[Any]]


@dataclass
class AllocationAliasGibbs(AllocationCollapsedGibbs):
    """As `AllocationPartialGibbs`, but labels are proposed by alias tables and by the row, and accepted or not.

    Exact too: each step leaves the conditional distribution of a label as it is. It moves less than a draw from that
    distribution, and its cost does not grow with the number of components.
    """

    name: ClassVar[str] = "gibbs-alias"
    rows_in_parallel: ClassVar[bool] = True

    _room: Tables | None = field(default=None, init=False, repr=False, compare=False)

    def _sweep(self, key: Key, data: SparseData, state: AllocationGibbsState, chain: int) -> None:
        model, counts = self.present(state, chain), state.feature_counts[chain]
        n_components, beta = model.n_components, model.activation_concentration
        tables = self._draw_tables(key.for_stage("dictionary"), counts, model.dictionary_concentration)
        own = np.empty((1, n_components)), np.empty((1, n_components), np.int32)
        build_tables(beta[None] / beta.sum(), 0, 1, *own)
        shared = tables, beta, own, N_CYCLES, key.for_stage("labels").words
        for moves in self._sweep_tokens_by_blocks(_sweep_block, data, state, chain, shared):
            move_counts(moves, n_components, counts)
        state.component_counts[chain] = counts[:, :n_components].sum(axis=0)

    def _draw_tables(self, key: Key, counts: Counts, concentration: Floats) -> Tables:
        """Draw the dictionary, as shares of each feature, and make the features' alias tables."""
        shape = counts.shape[0], self.model.n_components
        if self._room is None:
            # For all sweeps: to allocate such large arrays again takes as long as to fill them.
            single = np.empty(shape, np.float32), np.empty(shape, np.float32)
            self._room = *single, np.empty(shape, label_type(shape[1]))
        dictionary, thresholds, aliases = self._room
        blocks = row_blocks(np.arange(shape[0] + 1), _ENTRIES_AT_ONCE // shape[1] + 1)

        def draw(block: tuple[int, int]) -> Floats:
            sums = np.zeros(shape[1])
            draw_dictionary(counts, concentration, *key.words, *block, dictionary, sums)
            return sums

        totals = self.engine.map_reduce(draw, blocks)

        def share(block: tuple[int, int]) -> None:
            share_features(totals, *block, dictionary)
            build_tables(dictionary, *block, thresholds, aliases)

        self.engine.for_each(share, blocks)
        return self._room


def _sweep_block(
    block: Block,
    labels: NDArray[Any],
    starts: NDArray[np.int64],
    sample_counts: Counts,
    tables: Tables,
    concentration: Floats,
    own_tables: tuple[Any, Any],
    n_cycles: int,
    words: tuple[np.uint64, np.uint64, np.uint64],
) -> list[LongCounts]:
    moves = np.empty((int(starts[block.stop] - starts[block.start]), 2), np.int64)
    span = block.first_row, block.start, block.stop
    given: tuple[Any, ...] = *block.cells, starts, *tables, concentration, *own_tables, n_cycles, *words, *span
    n_moves = sweep_by_proposals(*(*given, labels, sample_counts, moves))
    return [moves[:n_moves].copy()]
