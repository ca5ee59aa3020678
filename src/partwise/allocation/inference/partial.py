"""Gibbs sampling that draws the dictionary and collapses the activations: exact, and parallel over rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.allocation.inference.gibbs import CollapsedGibbs, Counts, GibbsState
from partwise.allocation.inference.labels import first_tokens, padded_width, tile_of
from partwise.allocation.kernels.partial import draw_weights, sweep_rows
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.blocks import TARGET_NONZEROS, row_blocks


@dataclass
class PartialGibbs(CollapsedGibbs):
    """A step draws w_.k ~ Dirichlet(α + S_+.k) and, given it, the labels of each row in turn, rows in parallel."""

    name = "gibbs-partial"

    def _sweeps(self, key: Key, data: SparseData, state: GibbsState) -> None:
        for chain in range(self.n_chains):
            self._sweep(key.for_chain(chain), data, state, chain)

    def _sweep(self, key: Key, data: SparseData, state: GibbsState, chain: int) -> None:
        model, n_features = self.model, data.shape[1]
        n_components = model.n_components
        feature_counts, sample_counts = state.feature_counts[chain], state.sample_counts[chain]
        drawn = np.zeros((n_features, padded_width(n_components)))
        words = key.for_stage("dictionary").words

        def some_features(block: tuple[int, int]) -> None:
            draw_weights(feature_counts, model.dictionary_concentration, n_components, *words, *block, drawn)

        self.engine.for_each(some_features, row_blocks(np.arange(n_features + 1), 2**17 // n_components + 1))
        sums = drawn.sum(axis=0)
        dictionary = (drawn / np.where(sums > 0, sums, 1.0)).astype(np.float32)
        starts, words = first_tokens(data), key.for_stage("labels").words
        labels, tile = state.labels[chain], tile_of(2 * dictionary.shape[1])

        def some_rows(block: tuple[int, int]) -> Counts:
            counts = np.zeros(dictionary.shape, np.int32)
            cells = data.indptr, data.indices, data.values, starts
            priors = dictionary, model.activation_concentration
            sweep_rows(*cells, *priors, tile, *words, *block, labels, sample_counts, counts)
            return counts

        # Each block counts into an array of its own: blocks so large that this costs little.
        blocks = row_blocks(data.indptr, max(TARGET_NONZEROS, 2 * n_features))
        feature_counts[...] = self.engine.map_reduce(some_rows, blocks)
        np.add.at(feature_counts[:, :n_components], data.missing_indices, state.missing[chain])
        state.component_counts[chain] = feature_counts[:, :n_components].sum(axis=0)
