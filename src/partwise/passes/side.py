"""One pass of a kernel over one side of the data, in parallel over blocks of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.engines.alignment import aligned
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks
from partwise.passes import kernels

Floats = NDArray[np.float64]

# About a millisecond of work: enough blocks for every thread also where the data are small.
NONZEROS_AT_ONCE = 2**15


@dataclass(frozen=True, eq=False)
class Side:
    """The samples' side of the data, or, on transposed data, the features' side.

    Methods take the ``factor`` of this side (rows x components) and the ``other`` side's (columns x components). Arrays
    with one row per sample may be on workers; then what is made of them is, too.
    """

    data: SparseData
    engine: Engine

    @cached_property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of rows with about equally many nonzeros."""
        return row_blocks(self.data.indptr, NONZEROS_AT_ONCE)

    def map_rows(self, function: Callable[..., Any], *shared: Any, **options: Any) -> tuple[Any, tuple[Any, ...]]:
        """`Engine.map_rows` over the blocks of this side."""
        return self.engine.map_rows(function, self.data, self.blocks, *shared, **options)

    def place(self, factor: Any) -> Any:
        """Store the factor of this side on the workers, if there are any."""
        return self.engine.place(factor, self.data, self.blocks)

    def totals(self, factor: Any) -> Floats:
        """The factor's sum over rows, block by block in the fixed tree."""
        return np.asarray(self.map_rows(_totals, reads=[factor])[0])

    def even_counts(self, n_components: int) -> Any:
        """Each row's total, spread evenly over the components."""
        return self.map_rows(_even_counts, makes=[Made((n_components,))], stay=True)[1][0]

    def expected_counts(self, factor: Any, other: Any, *, with_logs: bool = False) -> tuple[Any, float]:
        """Expected allocation totals of each row (E-step), and Σ x log rate if asked for."""
        shared = ready(other), with_logs
        logs, (counts,) = self.map_rows(_expected, *shared, reads=[factor], makes=[Made(factor.shape[1:])])
        return counts, float(logs)

    def exposure(self, other: Any, *, totals: Floats | None = None, stay: bool = False) -> Any:
        """What each component is exposed to in each row: one row for all where nothing is missing.

        Parameters
        ----------
        other
            The other side's factor.
        totals
            Its sums over rows; needed where it is on workers.
        stay
            Whether rows stay on the workers.
        """
        totals = other.sum(axis=0) if totals is None else totals
        if self.data.n_missing == 0:
            return np.atleast_2d(totals)
        return self.map_rows(_exposures, totals, other, makes=[Made(other.shape[1:])], stay=stay)[1][0]


def ready(other: Any) -> Any:
    """A factor of this process for kernels that go over all components of a column at once; workers align their own."""
    return aligned(other) if isinstance(other, np.ndarray) else other


def own_exposure(block: Block, other: Floats, totals: Floats) -> Floats:
    """What each component is exposed to in each row of a block: one row for all where nothing is missing."""
    if not block.data.n_missing:
        return np.atleast_2d(totals)
    exposure = np.empty((block.n_rows, totals.size))
    kernels.exposures(*block.own_missing, totals, other, 0, block.n_rows, exposure)
    return exposure


def _totals(block: Block, factor: Floats) -> Floats:
    return np.asarray(factor[block.rows].sum(axis=0))


def _even_counts(block: Block, out: Floats) -> float:
    out[block.rows] = block.data.row_sums[block.rows, None] / out.shape[1]
    return 0.0


def _expected(block: Block, factor: Floats, out: Floats, other: Floats, with_logs: bool) -> float:
    return kernels.expected_counts(*block.cells, factor, other, with_logs, block.start, block.stop, out)


def _exposures(block: Block, out: Floats, totals: Floats, other: Floats) -> float:
    kernels.exposures(*block.missing, totals, other, block.start, block.stop, out)
    return 0.0
