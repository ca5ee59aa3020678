"""What a function over rows is given: a block of the data, its part of arrays with a row for each sample, and the rest.

An engine decides where arrays with a row for each sample live. On this machine they are whole arrays of NumPy; on a
cluster they are `partwise.engines.distributed.DistributedRows`, cut into pieces that stay on the workers that made
them. Functions over rows serve both: they go over ``range(block.start, block.stop)``, which are positions in whatever
arrays they were given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """Some rows of data.

    Attributes
    ----------
    data
        The data that hold them: all of them on this machine, only those that a worker has to do with on a cluster.
    start, stop
        Their positions in ``data``, and in every array with a row for each sample.
    first_row
        What the first row of ``data`` is in all of the data: random streams are keyed by ``first_row + n``.
    """

    data: Any
    start: int
    stop: int
    first_row: int

    @property
    def rows(self) -> slice:
        """The positions as a slice."""
        return slice(self.start, self.stop)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.stop - self.start

    @property
    def own_cells(self) -> tuple[Any, Any, Any]:
        """The cells of these rows alone, for kernels that go from 0 to ``n_rows``."""
        return self.data.indptr[self.start : self.stop + 1], self.data.indices, self.data.values

    @property
    def own_missing(self) -> tuple[Any, Any]:
        """The missing cells of these rows alone."""
        return self.data.missing_indptr[self.start : self.stop + 1], self.data.missing_indices

    @property
    def cells(self) -> tuple[Any, Any, Any]:
        """CSR arrays of the observed nonzeros."""
        return self.data.indptr, self.data.indices, self.data.values

    @property
    def missing(self) -> tuple[Any, Any]:
        """CSR pattern of the missing cells."""
        return self.data.missing_indptr, self.data.missing_indices


class Made(NamedTuple):
    """An array that a function over rows fills: the shape of one of its rows, and its type."""

    shape: tuple[int, ...]
    dtype: DTypeLike = np.float64


class Ragged(NamedTuple):
    """An array in which row n has the places ``starts[n]`` to ``starts[n + 1]``; functions are given both.

    Attributes
    ----------
    array, starts
        The array, and where each row begins, with the end of the last.
    starts_of
        A function of a module that finds ``starts`` from the data: workers call it for their rows, so that nothing has
        to be sent. None: there is none.
    """

    array: Any
    starts: NDArray[np.int64]
    starts_of: Callable[[Any], NDArray[np.int64]] | None = None

    @classmethod
    def tokens(cls, array: Any, data: Any) -> Ragged:
        """An array with a place for each token, which is one unit of a count."""
        return cls(array, first_tokens(data), first_tokens)


def first_tokens(data: Any) -> NDArray[np.int64]:
    """Position of the first token of each row, and the number of all."""
    return np.concatenate(([0], np.cumsum(data.row_sums))).astype(np.int64)


def parts(array: Any) -> list[Any]:
    """What a function over rows is given of an array: itself; of ragged rows, where they start too."""
    return [array.array, array.starts] if isinstance(array, Ragged) else [array]


def rowwise(function: Callable[..., Any], *arguments: Any) -> Any:
    """A function of arrays, where these are: each row of what it gives depends on that row of theirs alone.

    Parameters
    ----------
    function
        A function of a module (workers import it), which must not change its arguments.
    arguments
        Arrays with a row for each sample, or a single row for all, and whatever else it needs but arrays of two axes.

    Examples
    --------
    >>> rowwise(np.cumsum, np.ones((2, 3)), 1)
    array([[1., 2., 3.],
           [1., 2., 3.]])
    """
    for argument in arguments:
        if hasattr(argument, "rowwise"):
            return argument.rowwise(function, *arguments)
    return function(*arguments)


def as_floats(array: Any) -> Any:
    """The numbers of an array as floating-point numbers, where they are."""
    return array.astype(np.float64) if hasattr(array, "rowwise") else np.asarray(array, dtype=np.float64)


def put_back(stack: Any, at: int, changed: Any) -> None:
    """Take over what a function over rows has changed of one of several arrays; in NumPy's it was changed in place."""
    if not isinstance(stack, np.ndarray):
        stack[at] = changed


def aligned(matrix: Floats) -> Floats:
    """The same matrix from the edge of a cache line on, copied if need be.

    NumPy begins large arrays 16 bytes beyond one, so that every wide load of a row touches two lines. Where the length
    of a row is no multiple of 32 bytes, rows begin anywhere, and a copy would not help.
    """
    if matrix.shape[1] % 4 or matrix.ctypes.data % 64 == 0:
        return matrix
    memory = np.empty(matrix.size + 7)
    first = -memory.ctypes.data % 64 // 8
    moved = memory[first : first + matrix.size].reshape(matrix.shape)
    moved[...] = matrix
    return moved
