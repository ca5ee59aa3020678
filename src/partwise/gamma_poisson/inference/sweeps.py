"""Sweeps of the Gibbs sampler over all rows.

Rows are processed in parallel, and sums do not depend on the number of threads.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.blocks import TARGET_NONZEROS, Block, Made, row_blocks
from partwise.gamma_poisson.kernels import draws
from partwise.kernels.arrays import Floats, Integers, Words
from partwise.passes.side import Side


@dataclass(frozen=True, eq=False)
class GibbsSweeps(Side):
    """The samples' side, with draws of activations and of allocations."""

    @cached_property
    def _long_side(self) -> SparseData:
        # Loops run over the longer side of the data, so that random access goes to the smaller factor.
        n_samples, n_features = self.data.shape
        return self.data.transposed if n_features > n_samples else self.data

    @cached_property
    def _blocks(self) -> list[tuple[int, int]]:
        # Each block sums into its own array for the shorter side, so blocks are large enough to make this cheap.
        return row_blocks(self._long_side.indptr, max(TARGET_NONZEROS, 8 * self._long_side.shape[1]))

    def activations(self, key: Key, sample_counts: Any, shape: Floats, inverse_rates: Any) -> Any:
        """h_nk ~ Gamma(shape_k + c_n+k) x inverse rate."""
        blocks = row_blocks(np.arange(sample_counts.shape[0] + 1), 2**18 // shape.size + 1)
        words = key.for_stage("activations").words
        reads, made = [sample_counts, inverse_rates], [Made(shape.shape)]
        how: dict[str, Any] = {"reads": reads, "makes": made, "recut": True}
        _, (out,) = self.engine.map_rows(_draw_activations, self.data, blocks, shape, words, **how)
        return out

    def allocations(
        self, key: Key, activations: Any, dictionary: Floats, *, impute: bool = False
    ) -> tuple[Any, Floats]:
        """c_nf. ~ Multinomial(x_nf, ∝ h_nk w_fk), summed: sample counts (rows x parts) and feature counts.

        With ``impute``, missing cells get c_nfk ~ Poisson(h_nk w_fk), as if they had been observed.
        """
        side = self._long_side
        by_features = side is not self.data
        factor, other = (dictionary, activations) if by_features else (activations, dictionary)
        words = key.for_stage("allocations").words
        missing_words = key.for_stage("missing cells").words if impute and side.n_missing else None
        shared, made = (self._padded(other), other.shape[1], words, missing_words), [Made(factor.shape[1:])]
        other_counts, (own_counts,) = self.engine.map_rows(
            _draw_allocations, side, self._blocks, *shared, reads=[factor], makes=made, recut=True
        )
        sums = own_counts, other_counts.astype(np.float64)
        return (sums[1], sums[0]) if by_features else sums

    def _padded(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return _padded(other)
        blocks = row_blocks(np.arange(other.shape[0] + 1))
        made = [Made((-(-other.shape[1] // draws.LANES) * draws.LANES,))]
        return self.engine.map_rows(_pad_rows, self.data, blocks, reads=[other], makes=made, recut=True)[1][0]

    def dirichlet_dictionary(self, key: Key, feature_counts: Floats, concentration: float) -> Floats:
        """w_.k ~ Dirichlet(concentration + c_+.k)."""
        out = np.empty_like(feature_counts)
        words = key.for_stage("dictionary").words

        def one(block: tuple[int, int]) -> None:
            rows = slice(*block)
            draws.draw_dictionary(feature_counts[rows], concentration, words, block[0], out[rows])

        self.engine.for_each(one, row_blocks(np.arange(out.shape[0] + 1)))
        return np.asarray(out / out.sum(axis=0))


def _draw_activations(
    block: Block, sample_counts: Floats, inverse_rates: Floats, out: Floats, shape: Floats, words: Words
) -> None:
    first = block.first_row + block.start
    draws.draw_activations(sample_counts[block.rows], shape, block.own(inverse_rates), words, first, out[block.rows])


def _draw_allocations(
    block: Block,
    factor: Floats,
    own_counts: Floats,
    other: Floats,
    n_components: int,
    words: Words,
    missing_words: Words | None,
) -> Integers:
    counts = np.zeros((other.shape[0], n_components), dtype=np.int64)
    own = np.zeros((block.n_rows, n_components), dtype=np.int64)
    factor, first = _padded(factor[block.rows]), block.first_row + block.start
    draws.draw_allocations(block.own_cells, factor, other, words, first, (own, counts))
    if missing_words is not None:
        draws.draw_missing(block.own_missing, factor, other, missing_words, first, (own, counts))
    own_counts[block.rows] = own
    return counts


def _padded(factor: Floats) -> Floats:
    """Append zeros up to a multiple of the lanes of a draw."""
    n_rows, n_components = factor.shape
    if n_components % draws.LANES == 0:
        return np.ascontiguousarray(factor)
    padded = np.zeros((n_rows, -(-n_components // draws.LANES) * draws.LANES))
    padded[:, :n_components] = factor
    return padded


def _pad_rows(block: Block, factor: Floats, out: Floats) -> None:
    out[block.rows] = _padded(factor[block.rows])
