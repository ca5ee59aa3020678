"""One pass of a kernel over one side of the data, in parallel over blocks of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import row_blocks
from partwise.poisson import kernels

Floats = NDArray[np.float64]

# About a millisecond of work: enough blocks for every thread also where the data are small.
_NONZEROS_AT_ONCE = 2**15


@dataclass(frozen=True, eq=False)
class Side:
    """The samples' side of the data, or, on transposed data, the features' side.

    Every method takes the ``factor`` of this side (rows x components) and the ``other`` side's (columns x components).
    """

    data: SparseData
    engine: Engine

    @cached_property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of rows with about equally many nonzeros."""
        return row_blocks(self.data.indptr, _NONZEROS_AT_ONCE)

    @property
    def _cells(self) -> tuple[Any, Any, Any]:
        return self.data.indptr, self.data.indices, self.data.values

    @property
    def _missing(self) -> tuple[Any, Any]:
        return self.data.missing_indptr, self.data.missing_indices

    def expected_counts(self, factor: Floats, other: Floats, *, with_logs: bool = False) -> tuple[Floats, float]:
        """Expected allocation totals of each row (E-step), and Σ x log rate if asked for."""
        out = np.empty_like(factor)
        other = _aligned(other)

        def one(block: tuple[int, int]) -> float:
            start, stop = block
            return kernels.expected_counts(*self._cells, factor, other, with_logs, start, stop, out)

        return out, float(self.engine.map_reduce(one, self.blocks))

    def exposure(self, other: Floats) -> Floats:
        """What each component is exposed to in each row: one row for all where nothing is missing."""
        totals: Floats = other.sum(axis=0)
        if self.data.n_missing == 0:
            return np.atleast_2d(totals)
        out = np.empty((self.data.shape[0], other.shape[1]))

        def one(block: tuple[int, int]) -> None:
            start, stop = block
            kernels.exposures(*self._missing, totals, other, start, stop, out)

        self.engine.for_each(one, self.blocks)
        return out

    def coordinate_descent(
        self, factor: Floats, other: Floats, *, floors: Floats, max_sweeps: int, tol: float = 0.0
    ) -> float:
        """Improve ``factor`` in place; returns the log-likelihood (without the log x! terms) that it reaches.

        ``floors`` holds the smallest value allowed in each row. Without sweeps, only the value is computed.
        """
        totals = other.sum(axis=0)

        def one(block: tuple[int, int]) -> float:
            start, stop = block
            return kernels.coordinate_descent(
                *self._cells, *self._missing, other, totals, floors, max_sweeps, tol, start, stop, factor
            )

        return float(self.engine.map_reduce(one, self.blocks))

    def kkt_residual(self, factor: Floats, other: Floats) -> float:
        """Largest violation of the optimality conditions of this side."""
        totals = other.sum(axis=0)
        worst = np.zeros(len(self.blocks))
        unit = self.data.total / self.data.shape[0]

        def one(numbered: tuple[int, tuple[int, int]]) -> None:
            at, (start, stop) = numbered
            worst[at] = kernels.kkt_residual(*self._cells, *self._missing, factor, other, totals, unit, start, stop)

        self.engine.for_each(one, list(enumerate(self.blocks)))
        return float(worst.max(initial=0.0))


def _aligned(matrix: Floats) -> Floats:
    """The same matrix from the edge of a cache line on, copied if need be.

    NumPy begins large arrays 16 bytes beyond one, so that every wide load of a row touches two lines. Where the length
    of a row is no multiple of 32 bytes, rows begin anywhere, and a copy would not help.
    """
    if matrix.shape[1] % 4 or matrix.ctypes.data % 64 == 0:
        return matrix
    memory = np.empty(matrix.size + 7)
    first = -memory.ctypes.data % 64 // 8
    aligned = memory[first : first + matrix.size].reshape(matrix.shape)
    aligned[...] = matrix
    return aligned
