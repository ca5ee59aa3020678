"""A Gibbs sampler that also draws the dictionary. Given the dictionary, rows are processed in parallel."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.gibbs import AllocationCollapsedGibbs, AllocationGibbsState
from partwise.allocation.inference.labels import keys_of_rows, padded_width, tile_of
from partwise.allocation.kernels.by_features import room_for, sweep_rows_by_features
from partwise.allocation.kernels.partial import draw_weights, sweep_rows
from partwise.allocation.model import MANY_COMPONENTS
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.blocks import TARGET_NONZEROS, Block, row_blocks
from partwise.kernels.arrays import Counts, Floats


@dataclass
class AllocationPartialGibbs(AllocationCollapsedGibbs):
    """A step draws w_.k ~ Dirichlet(α + S_+.k) and, given it, the labels of each row in turn, rows in parallel."""

    name: ClassVar[str] = "gibbs-partial"
    rows_in_parallel: ClassVar[bool] = True

    def init(self, key: Key, data: SparseData) -> AllocationGibbsState:
        """The start of the collapsed sampler, then a sweep to move tokens out of fixed parts without their feature."""
        state = super().init(key, data)
        if self.model.n_fixed:
            for chain in range(self.n_chains):
                self._sweep(key.for_chain(chain), data, state, chain)
        return state

    def _blocks(self, data: SparseData) -> list[tuple[int, int]]:
        # Each block counts into its own array and may visit all features, so blocks are large enough to make this
        # cheap.
        by_features = self.model.n_components >= MANY_COMPONENTS
        return row_blocks(data.indptr, max(TARGET_NONZEROS, (16 if by_features else 2) * data.shape[1]))

    def _sweep(self, key: Key, data: SparseData, state: AllocationGibbsState, chain: int) -> None:
        model, n_features = self.present(state, chain), data.shape[1]
        n_components = model.n_components
        drawn = np.zeros((n_features, padded_width(n_components)), np.float32)
        words = key.for_stage("dictionary").words

        def some_features(block: tuple[int, int]) -> None:
            counts = state.feature_counts[chain]
            draw_weights(counts, model.dictionary_concentration, n_components, words, *block, drawn)

        self.engine.for_each(some_features, row_blocks(np.arange(n_features + 1), 2**17 // n_components + 1))
        totals = drawn.sum(axis=0, dtype=np.float64)
        drawn /= np.where(totals > 0, totals, 1.0).astype(np.float32)
        dictionary = model.with_fixed(drawn)
        prior, tile = model.activation_concentration, tile_of(2 * drawn.shape[1])
        shared = dictionary, prior, tile, key.for_stage("labels").words, keys_of_rows(data)
        sums = self._sweep_tokens_by_blocks(_sweep_block, data, state, chain, shared)
        own = sums[:, :n_components]
        cells, parts = np.nonzero(state.missing[chain])  # few: most missing cells of sparse data are zeros
        np.add.at(own, (data.missing_indices[cells], parts), state.missing[chain][cells, parts])
        state.feature_counts[chain], state.component_counts[chain] = sums, own.sum(axis=0)


def _sweep_block(
    block: Block,
    labels: NDArray[Any],
    starts: NDArray[np.int64],
    sample_counts: Counts,
    dictionary: NDArray[np.float32],
    concentration: Floats,
    tile: int,
    words: tuple[np.uint64, np.uint64, np.uint64],
    row_keys: int,
) -> Counts:
    counts = np.zeros(dictionary.shape, np.int32)
    span = block.first_row, row_keys, block.start, block.stop
    tokens, state = (*block.cells, starts), (labels, sample_counts, counts)
    if concentration.size >= MANY_COMPONENTS:
        hidden = bool(block.data.n_missing)
        room = room_for(span[2:], concentration.size, labels, starts, hidden)
        sweep_rows_by_features(tokens, dictionary, concentration, words, span, hidden, room, state)
    else:
        sweep_rows(tokens, dictionary, concentration, tile, words, span, state)
    return counts
