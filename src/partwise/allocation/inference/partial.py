"""Gibbs sampling that draws the dictionary and collapses the activations: exact, and parallel over rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.gibbs import Counts, GibbsState, RowwiseGibbs
from partwise.allocation.inference.labels import keys_of_rows, padded_width, tile_of
from partwise.allocation.kernels.partial import draw_weights, sweep_rows
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.blocks import TARGET_NONZEROS, Block, row_blocks


@dataclass
class PartialGibbs(RowwiseGibbs):
    """A step draws w_.k ~ Dirichlet(α + S_+.k) and, given it, the labels of each row in turn, rows in parallel."""

    name = "gibbs-partial"

    def _blocks(self, data: SparseData) -> list[tuple[int, int]]:
        # Each block counts into an array of its own: blocks so large that this costs little.
        return row_blocks(data.indptr, max(TARGET_NONZEROS, 2 * data.shape[1]))

    def _prepare(
        self, key: Key, data: SparseData, state: GibbsState, chain: int
    ) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        model, n_features = self.model, data.shape[1]
        n_components = model.n_components
        drawn = np.zeros((n_features, padded_width(n_components)))
        words = key.for_stage("dictionary").words

        def some_features(block: tuple[int, int]) -> None:
            counts = state.feature_counts[chain]
            draw_weights(counts, model.dictionary_concentration, n_components, *words, *block, drawn)

        self.engine.for_each(some_features, row_blocks(np.arange(n_features + 1), 2**17 // n_components + 1))
        sums = drawn.sum(axis=0)
        dictionary = (drawn / np.where(sums > 0, sums, 1.0)).astype(np.float32)
        tile, words = tile_of(2 * dictionary.shape[1]), key.for_stage("labels").words
        return _sweep_rows, (dictionary, model.activation_concentration, tile, words, keys_of_rows(data))

    def _finish(self, data: SparseData, state: GibbsState, chain: int, sums: Counts) -> None:
        own = sums[:, : self.model.n_components]
        np.add.at(own, data.missing_indices, state.missing[chain])
        state.feature_counts[chain], state.component_counts[chain] = sums, own.sum(axis=0)


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
