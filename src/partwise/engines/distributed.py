"""Arrays with a row for each sample whose pieces stay on the workers that made them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from partwise.engines import tasks

if TYPE_CHECKING:
    from partwise.engines.dask import DaskEngine


class StoredPieces:
    """Files that hold the pieces of an array: removed when no array is left that would be made again from them."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._finalizer = weakref.finalize(self, _remove, list(paths))


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


class DistributedRows(NDArrayOperatorsMixin):
    """An array of a `DaskEngine`, which takes the place of an array of NumPy in the state of an algorithm.

    Functions over rows get its pieces where they are. For anything else it is an array: NumPy fetches all of it.

    Parameters
    ----------
    engine
        Where it lives.
    bounds
        Rows of each piece.
    pieces
        Futures of them.
    row_shape, dtype
        Shape of a row, and type.
    depth
        How many passes would have to be run again to make it anew.
    stored
        The files that these passes would begin from.
    """

    def __init__(
        self,
        engine: DaskEngine,
        bounds: Sequence[tuple[int, int]],
        pieces: Sequence[Any],
        row_shape: tuple[int, ...],
        dtype: Any,
        depth: int,
        stored: frozenset[StoredPieces],
    ) -> None:
        self.engine, self.bounds, self.pieces = engine, list(bounds), list(pieces)
        self.row_shape, self.dtype = row_shape, np.dtype(dtype)
        self.depth, self.stored = depth, stored
        self._whole: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, and the shape of one."""
        return (self.bounds[-1][1], *self.row_shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return 1 + len(self.row_shape)

    def whole(self) -> Any:
        """A future of the whole array, on a worker."""
        if self._whole is None:
            self._whole = self.engine.submit(tasks.whole, self.pieces)
        return self._whole

    def sum(self, axis: int | None = None) -> Any:
        """Sums over rows (axis 0), taken on a worker in the order of NumPy."""
        if axis != 0:
            return np.asarray(self).sum(axis=axis)
        return self.engine.result(self.engine.submit(tasks.column_sums, self.whole()))

    def mean(self, axis: int | None = None) -> Any:
        """Means over rows."""
        return np.asarray(self).mean(axis=axis)

    def copy(self) -> DistributedRows:
        """The same: its pieces never change."""
        return self

    def between(self, start: int, stop: int) -> list[Any]:
        """Which pieces, and which of their rows, make up some rows."""
        found = []
        for (first, last), piece in zip(self.bounds, self.pieces, strict=True):
            if first < stop and last > start:
                found.append((piece, max(start, first) - first, min(stop, last) - first))
        return found or [(self.pieces[0], 0, 0)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = tasks.whole(self.engine.results(self.pieces))
        return np.array(array, dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(value) if isinstance(value, DistributedRows) else value for value in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        taken: NDArray[Any] = np.asarray(self)[index]
        return taken

    def __len__(self) -> int:
        return self.shape[0]

    def __deepcopy__(self, memo: Any) -> DistributedRows:
        return self
