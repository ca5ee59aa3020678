"""A handle to an array with one row per sample whose pieces stay on the workers of a cluster."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from partwise.engines.dask import DaskEngine

Bounds = tuple[int, int]


class StoredPieces:
    """Files with the pieces of an array. They are removed once no array would be recomputed from them."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._finalizer = weakref.finalize(self, _remove, list(paths))


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


class RowsOnWorkers:
    """An array that `DaskEngine` keeps on its workers.

    Functions of blocks read and change it on the workers (`Engine.map_rows`), and ``np.asarray`` fetches it. NumPy's
    operators refuse it, so that no rows are fetched by accident.

    Parameters
    ----------
    engine
        The engine that keeps it.
    bounds
        Rows of each piece.
    pieces
        Futures of the pieces. A piece never changes.
    row_shape, dtype
        Shape of a row, and type.
    depth
        Number of passes that would have to be run again if a worker that holds a piece were lost.
    stored
        The files that these passes would start from.
    """

    __array_ufunc__ = None

    def __init__(
        self,
        engine: DaskEngine,
        bounds: Sequence[Bounds],
        pieces: Sequence[Any],
        row_shape: tuple[int, ...],
        dtype: Any,
        depth: int,
        stored: frozenset[StoredPieces],
    ) -> None:
        self.engine, self.bounds, self.pieces = engine, list(bounds), list(pieces)
        self.shape, self.dtype = (self.bounds[-1][1], *row_shape), np.dtype(dtype)
        self.depth, self.stored = depth, stored
        self._whole: Any = None

    def whole(self) -> Any:
        """A future of the whole array, for tasks that need all rows."""
        if self._whole is None:
            self._whole = self.engine.submit(joined, [(piece, slice(None)) for piece in self.pieces])
        return self._whole

    def between(self, start: int, stop: int) -> list[tuple[Any, slice]]:
        """The pieces that contain some rows, and which of their rows."""
        found = [
            (piece, slice(max(start, first) - first, min(stop, last) - first))
            for (first, last), piece in zip(self.bounds, self.pieces, strict=True)
            if first < stop and last > start
        ]
        return found or [(self.pieces[0], slice(0))]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        pieces = self.engine.results(self.pieces)
        return np.asarray(np.concatenate(pieces) if len(pieces) > 1 else pieces[0].copy(), dtype=dtype)

    def __deepcopy__(self, memo: Any) -> RowsOnWorkers:
        return self


def joined(pieces: Sequence[tuple[NDArray[Any], slice]]) -> NDArray[Any]:
    """One array with some rows of several pieces."""
    parts = [piece[rows] for piece, rows in pieces]
    return np.ascontiguousarray(parts[0]) if len(parts) == 1 else np.concatenate(parts)
