"""Gibbs sampling that draws the dictionary and collapses the activations: exact, and parallel over rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.gibbs import CollapsedGibbs, Counts, GibbsState
from partwise.allocation.inference.labels import keys_of_rows, padded_width, tile_of
from partwise.allocation.kernels.partial import draw_weights, sweep_rows
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.blocks import TARGET_NONZEROS, row_blocks
from partwise.engines.rows import Block, Ragged, put_back


@dataclass
class PartialGibbs(CollapsedGibbs):
    """A step draws w_.k ~ Dirichlet(α + S_+.k) and, given it, the labels of each row in turn, rows in parallel."""

    name = "gibbs-partial"

    def _sweeps(self, key: Key, data: SparseData, state: GibbsState) -> None:
        # Each block counts into an array of its own: blocks so large that this costs little.
        blocks = row_blocks(data.indptr, max(TARGET_NONZEROS, 2 * data.shape[1]))
        self._place(data, state, blocks)
        for chain in range(self.n_chains):
            self._sweep(key.for_chain(chain), data, state, chain, blocks)

    def _sweep(self, key: Key, data: SparseData, state: GibbsState, chain: int, blocks: list[tuple[int, int]]) -> None:
        model, n_features = self.model, data.shape[1]
        n_components = model.n_components
        feature_counts = state.feature_counts[chain]
        drawn = np.zeros((n_features, padded_width(n_components)))
        words = key.for_stage("dictionary").words

        def some_features(block: tuple[int, int]) -> None:
            draw_weights(feature_counts, model.dictionary_concentration, n_components, *words, *block, drawn)

        self.engine.for_each(some_features, row_blocks(np.arange(n_features + 1), 2**17 // n_components + 1))
        sums = drawn.sum(axis=0)
        dictionary = (drawn / np.where(sums > 0, sums, 1.0)).astype(np.float32)
        words = key.for_stage("labels").words
        tile = tile_of(2 * dictionary.shape[1])
        shared = dictionary, model.activation_concentration, tile, words, keys_of_rows(data)
        rows = [Ragged.tokens(state.labels[chain], data), state.sample_counts[chain]]
        feature_counts[...], (labels, sample_counts) = self.engine.map_rows(
            _sweep_rows, data, blocks, *shared, changes=rows
        )
        put_back(state.labels, chain, labels)
        put_back(state.sample_counts, chain, sample_counts)
        np.add.at(feature_counts[:, :n_components], data.missing_indices, state.missing[chain])
        state.component_counts[chain] = feature_counts[:, :n_components].sum(axis=0)


def _sweep_rows(
    block: Block,
    labels: NDArray[Any],
    starts: NDArray[np.int64],
    sample_counts: Counts,
    dictionary: NDArray[np.float32],
    concentration: NDArray[np.float64],
    tile: int,
    words: tuple[np.uint64, np.uint64, np.uint64],
    row_keys: int,
) -> Counts:
    counts = np.zeros(dictionary.shape, np.int32)
    span = block.first_row, row_keys, block.start, block.stop
    sweep_rows(*block.cells, starts, dictionary, concentration, tile, *words, *span, labels, sample_counts, counts)
    return counts
