"""Sweeps of the Gibbs sampler over all rows, in parallel, with sums that do not depend on the number of threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import TARGET_NONZEROS, row_blocks
from partwise.gamma_poisson import kernels

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sweeps:
    """Draws of activations and of allocations for some data."""

    data: SparseData
    engine: Engine

    @cached_property
    def _blocks(self) -> list[tuple[int, int]]:
        # Each block sums into features x components of its own: blocks so large that this costs little.
        return row_blocks(self.data.indptr, max(TARGET_NONZEROS, 8 * self.data.shape[1]))

    @property
    def _cells(self) -> tuple[Any, Any, Any]:
        return self.data.indptr, self.data.indices, self.data.values

    @property
    def _missing(self) -> tuple[Any, Any]:
        return self.data.missing_indptr, self.data.missing_indices

    def activations(self, key: Key, sample_counts: Floats, shape: Floats, inverse_rates: Floats) -> Floats:
        """h_nk ~ Gamma(shape_k + c_n+k) x inverse rate."""
        out = np.empty_like(sample_counts)
        words = key.for_stage("activations").words

        def one(block: tuple[int, int]) -> None:
            start, stop = block
            kernels.draw_activations(sample_counts, shape, inverse_rates, *words, start, stop, out)

        self.engine.for_each(one, self._blocks)
        return out

    def allocations(
        self, key: Key, activations: Floats, dictionary: Floats, *, impute: bool = False
    ) -> tuple[Floats, Floats]:
        """c_nf. ~ Multinomial(x_nf, ∝ h_nk w_fk), summed: sample counts (rows x components) and feature counts.

        With ``impute``, the missing cells have c_nfk ~ Poisson(h_nk w_fk), as if they had been observed.
        """
        sample_counts = np.empty_like(activations)
        words = key.for_stage("allocations").words
        missing_words = key.for_stage("missing cells").words if impute and self.data.n_missing else None

        def one(block: tuple[int, int]) -> Floats:
            start, stop = block
            feature_counts = np.zeros_like(dictionary)
            kernels.draw_allocations(
                *self._cells, activations, dictionary, *words, start, stop, sample_counts, feature_counts
            )
            if missing_words is not None:
                kernels.draw_missing(
                    *self._missing, activations, dictionary, *missing_words, start, stop, sample_counts, feature_counts
                )
            return feature_counts

        return sample_counts, self.engine.map_reduce(one, self._blocks)

    def dirichlet_dictionary(self, key: Key, feature_counts: Floats, concentration: float) -> Floats:
        """w_.k ~ Dirichlet(concentration + c_+.k)."""
        out = np.empty_like(feature_counts)
        words = key.for_stage("dictionary").words

        def one(block: tuple[int, int]) -> None:
            start, stop = block
            kernels.draw_dictionary(feature_counts, concentration, *words, start, stop, out)

        self.engine.for_each(one, row_blocks(np.arange(out.shape[0] + 1)))
        return np.asarray(out / out.sum(axis=0))
