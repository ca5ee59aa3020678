"""Arrays with a row for each sample whose pieces stay on the workers that made them."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from partwise.engines import formulas, tasks
from partwise.engines.pairwise import PairwiseSum

if TYPE_CHECKING:
    from partwise.engines.dask import DaskEngine

Bounds = tuple[int, int]


class StoredPieces:
    """Files that hold the pieces of an array: removed when no array is left that would be made again from them."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._finalizer = weakref.finalize(self, _remove, list(paths))


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


class RemoteRows(NDArrayOperatorsMixin, ABC):
    """An array of a `DaskEngine`, which takes the place of an array of NumPy in the state of an algorithm.

    Functions over rows get its pieces where they are. NumPy's functions of each entry, and `rowwise` functions, give
    such an array again, whose pieces are computed by the tasks that need them. Sums are taken on the workers, in the
    order of NumPy. For anything else it is an array: NumPy fetches all of it.
    """

    engine: DaskEngine
    bounds: list[Bounds]
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    @abstractmethod
    def depth(self) -> int:
        """How many passes would have to be run again to make it anew."""

    @property
    @abstractmethod
    def stored(self) -> frozenset[StoredPieces]:
        """The files that these passes would begin from."""

    @abstractmethod
    def placed(self) -> DistributedRows:
        """The same with its pieces computed, or being computed, where they stay."""

    @abstractmethod
    def between(self, start: int, stop: int) -> Any:
        """What a task needs to have some of the rows: see `tasks.joined`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, and the shape of one."""
        return (self.bounds[-1][1], *self.row_shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return 1 + len(self.row_shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape))

    def sum(self, axis: int | None = None, out: None = None) -> Any:
        """Sums over rows (axis 0), within rows (axis 1) or of all, in the order of NumPy and on the workers."""
        if axis == 1 and self.ndim == 2:
            return self.rowwise(tasks.row_sums, self)
        if self.size == len(self) and axis in (0, None):
            return np.reshape(total([self]), self.row_shape if axis == 0 else ())[()]
        if axis == 0:
            # NumPy adds row after row: so do the pieces, one after the other.
            found: Any = None
            for piece in self.placed().pieces:
                found = self.engine.submit(tasks.added_rows, found, piece)
            return self.engine.result(found)
        return total([self]) if axis is None else np.asarray(self).sum(axis=axis)

    def mean(self, axis: int | None = None) -> Any:
        """Means over rows (axis 0), or of all."""
        return self.sum(axis=axis) / (self.shape[0] if axis == 0 else self.size)

    def astype(self, dtype: Any) -> RemoteRows:
        """The same numbers as another type."""
        return self.rowwise(tasks.converted, self, np.dtype(dtype).str)

    def copy(self) -> RemoteRows:
        """The same: its pieces never change."""
        return self

    def rowwise(self, function: Callable[..., Any], *arguments: Any) -> RemoteRows:
        """A function of a module, row by row: see `partwise.engines.rows.rowwise`."""
        return LazyRows.of(self.engine, formulas.name_of(function), arguments)

    def __iadd__(self, other: Any) -> Any:
        return self + other

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        pieces = self.engine.results(self.placed().pieces)
        return np.array(tasks.whole(pieces), dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if any(hasattr(value, "parts") for value in inputs):
            return NotImplemented  # several arrays, which do it one by one
        if method == "__call__" and not options and ufunc.nout == 1 and formulas.fit_together(self, inputs):
            return LazyRows.of(self.engine, formulas.name_of(ufunc), inputs)
        arrays = [np.asarray(value) if isinstance(value, RemoteRows) else value for value in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        taken: NDArray[Any] = np.asarray(self)[index]
        return taken

    def __len__(self) -> int:
        return self.shape[0]

    def __deepcopy__(self, memo: Any) -> RemoteRows:
        return self


class DistributedRows(RemoteRows):
    """An array whose pieces are results of tasks.

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
        bounds: Sequence[Bounds],
        pieces: Sequence[Any],
        row_shape: tuple[int, ...],
        dtype: Any,
        depth: int,
        stored: frozenset[StoredPieces],
    ) -> None:
        self.engine, self.bounds, self.pieces = engine, list(bounds), list(pieces)
        self.row_shape, self.dtype = row_shape, np.dtype(dtype)
        self._depth, self._stored = depth, stored
        self._whole: Any = None

    @property
    def depth(self) -> int:
        """How many passes would have to be run again to make it anew."""
        return self._depth

    @property
    def stored(self) -> frozenset[StoredPieces]:
        """The files that these passes would begin from."""
        return self._stored

    def placed(self) -> DistributedRows:
        """Itself."""
        return self

    def whole(self) -> Any:
        """A future of the whole array, on a worker."""
        if self._whole is None:
            self._whole = self.engine.submit(tasks.whole, self.pieces)
        return self._whole

    def between(self, start: int, stop: int) -> list[tasks.Piece]:
        """Which pieces, and which of their rows, make up some rows."""
        found = []
        for (first, last), piece in zip(self.bounds, self.pieces, strict=True):
            if first < stop and last > start:
                found.append((piece, max(start, first) - first, min(stop, last) - first))
        return found or [(self.pieces[0], 0, 0)]


class LazyRows(RemoteRows):
    """An array that is a function of others, entry by entry or row by row; tasks that need its rows compute them.

    Parameters
    ----------
    engine
        Where it lives.
    formula
        How it is computed.
    row_shape, dtype
        Shape of a row, and type.
    """

    def __init__(
        self, engine: DaskEngine, formula: formulas.Formula, row_shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.engine, self.formula = engine, formula
        self.row_shape, self.dtype = row_shape, dtype
        self.bounds = list(formula.leaves[0].bounds)
        self._placed: DistributedRows | None = None

    @classmethod
    def of(cls, engine: DaskEngine, function: str, arguments: Sequence[Any]) -> RemoteRows:
        """A function of arrays of the workers, arrays with as many rows or one for all, and numbers."""
        n_rows = next(len(argument) for argument in arguments if isinstance(argument, RemoteRows))
        one_row = formulas.tried(function, [_first_row(argument, n_rows) for argument in arguments])
        formula = formulas.Formula.of(function, [_operand(argument) for argument in arguments], n_rows)
        lazy = cls(engine, formula, one_row.shape[1:], one_row.dtype)
        return lazy.placed() if formula.is_long else lazy

    @property
    def depth(self) -> int:
        """That of what it is computed from."""
        return int(max(leaf.depth for leaf in self.formula.leaves))

    @property
    def stored(self) -> frozenset[StoredPieces]:
        """The files of what it is computed from."""
        return frozenset[StoredPieces]().union(*(leaf.stored for leaf in self.formula.leaves))

    def placed(self) -> DistributedRows:
        """The same, computed on the workers, where it stays."""
        if self._placed is None:
            self._placed = self.engine.computed(self)
        return self._placed

    def between(self, start: int, stop: int) -> Any:
        """The formula, with what it needs of these rows."""
        if self._placed is not None:
            return self._placed.between(start, stop)
        return self.formula.between(self.engine.sent, start, stop)


def total(arrays: Sequence[RemoteRows]) -> Any:
    """The sum of all entries of some arrays, as NumPy sums them one behind the other."""
    engine, sizes = arrays[0].engine, np.cumsum([0, *(array.size for array in arrays)])
    plan = PairwiseSum(int(sizes[-1]))
    work = [
        (array.between(*bound), plan, int(first) + bound[0] * (array.size // len(array)))
        for array, first in zip(arrays, sizes[:-1], strict=True)
        for bound in array.bounds
    ]
    return plan.total(engine.results(engine.submit_each(tasks.part_of_sum, work)))


def _operand(argument: Any) -> Any:
    """What a formula is made of: formulas, arrays of the workers, and the rest."""
    if isinstance(argument, LazyRows):
        return argument.formula if argument._placed is None else argument._placed
    return argument


def _first_row(argument: Any, n_rows: int) -> Any:
    if isinstance(argument, RemoteRows):
        return np.ones((1, *argument.row_shape), dtype=argument.dtype)
    return argument[:1] if formulas.has_rows(argument, n_rows) else argument
