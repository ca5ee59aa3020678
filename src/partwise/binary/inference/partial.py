"""A Gibbs sampler that draws the Dirichlet factor and integrates out the beta factor: parallel over rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.gibbs import BinaryCollapsedGibbs, BinaryGibbsState
from partwise.binary.inference.priors import Exceeding, exceeding_rows
from partwise.binary.kernels.cells import to_row_order
from partwise.binary.kernels.partial import draw_columns, sweep_rows
from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.engines.blocks import Block, row_blocks
from partwise.errors import InvalidInputError
from partwise.kernels.alias import build_tables
from partwise.kernels.arrays import Counts, Floats


@dataclass
class BinaryPartialGibbs(BinaryCollapsedGibbs):
    """Beta-Dir: draw w from Dirichlet(concentration + counts), then all labels given w, independently for each row.

    It has the same stationary distribution as the collapsed sampler, but mixes more slowly, because w ties all labels
    of a column to their old values. Labels are ordered by rows here.
    """

    rows_in_parallel: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.model.kind == "dir-dir":
            raise InvalidInputError(
                "inference='gibbs-partial' needs a beta factor, which model='dir-dir' does not have: use 'gibbs'."
            )

    def init(self, key: Key, data: Cells) -> BinaryGibbsState:
        """The start of the collapsed sampler, in another order."""
        state = super().init(key, data)
        for chain, labels in enumerate(state.labels):
            state.labels[chain] = np.empty_like(labels)
            to_row_order(data.ordered, labels, state.labels[chain])
        return state

    def _sweep_labels(self, key: Key, data: Cells, state: BinaryGibbsState, chain: int) -> None:
        n_columns, priors = data.shape[1], self._model_of(state, chain).priors
        columns = np.empty((n_columns, self.model.n_components))
        thresholds, aliases = np.empty_like(columns), np.empty(columns.shape, np.int32)
        words = key.for_stage("factor").words

        def prepare(block: tuple[int, int]) -> None:
            draw_columns(state.column_counts[chain], priors.concentration, words, *block, columns)
            build_tables(columns, *block, thresholds, aliases)

        self.engine.for_each(prepare, row_blocks(np.arange(n_columns + 1), 64))
        words = key.for_stage("gibbs").words
        shared = (columns, thresholds, aliases), priors.of_bits, self.attempts, words
        state.row_counts[chain] = self.engine.place(state.row_counts[chain], data, data.blocks)
        arrays = state.labels, state.row_counts
        state.column_counts[chain] = self._sweep_blocks(
            _sweep_block, data, data.blocks, shared, *arrays, chain, _row_starts
        )

    def _exceeding(self, data: Cells, row_counts: Any) -> tuple[Exceeding, ...]:
        size = int(data.row_sizes.max(initial=0))
        found, _ = self.engine.map_rows(
            _exceeding_block, data, data.blocks, self.model, size, reads=[row_counts], recut=True
        )
        return tuple(above[:, : np.count_nonzero(above.any(axis=0))] for above in found)


def _exceeding_block(block: Block, row_counts: Counts, model: BinaryModel, size: int) -> tuple[Exceeding, ...]:
    return exceeding_rows(model, row_counts[block.rows], size)


def _row_starts(data: Cells) -> NDArray[np.int64]:
    return data.row_starts


def _sweep_block(
    block: Block,
    labels: NDArray[Any],
    _: NDArray[np.int64],
    row_counts: Counts,
    tables: tuple[Any, Any, Any],
    prior: Floats,
    attempts: int,
    words: tuple[np.uint64, np.uint64, np.uint64],
) -> Counts:
    counts = np.zeros(tables[0].shape, np.int32)
    cells, span = (block.data.row_starts, block.data.codes), (block.first_row, block.start, block.stop)
    sweep_rows(cells, prior, tables, attempts, words, span, labels, row_counts, counts)
    return counts
