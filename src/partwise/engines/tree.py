"""Sums in a fixed binary tree, whatever the order in which the terms arrive.

How sums travel between workers: large arrays in which few rows hold anything are sent as those rows alone.
"""

import copy
import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Value = TypeVar("Value")
_ABSENT: Any = object()


class TreeSum(Generic[Value]):
    """Adds terms number 0 .. n - 1 in the tree ``node[level, j] = node[level - 1, 2 j] + node[level - 1, 2 j + 1]``.

    The terms are level 0; the last node of a level of odd length goes up as it is. Neighbours are added as soon as both
    are there, by the thread that brings the second, and into the memory of the left one. If terms 0 .. m - 1 have all
    arrived, they take up at most log2(m) + 1 nodes.

    Parameters
    ----------
    n_terms
        How many terms there will be, at least 1.

    Examples
    --------
    >>> total = TreeSum(3)
    >>> for index, term in [(2, 0.3), (0, 0.1), (1, 0.2)]:
    ...     total.put(index, term)
    >>> total.result() == (0.1 + 0.2) + 0.3
    True
    """

    def __init__(self, n_terms: int) -> None:
        if n_terms < 1:
            raise ValueError("a sum needs at least one term")
        self._n_terms = n_terms
        self._waiting: dict[tuple[int, int], Value] = {}
        self._root: Value = _ABSENT
        self._lock = threading.Lock()

    def put(self, index: int, term: Value) -> None:
        """Bring a term; the sum owns it from now on."""
        level, width = 0, self._n_terms
        while width > 1:
            if index ^ 1 < width:
                with self._lock:
                    neighbour = self._waiting.pop((level, index ^ 1), _ABSENT)
                    if neighbour is _ABSENT:
                        self._waiting[level, index] = term
                        return
                term = add(neighbour, term) if index & 1 else add(term, neighbour)
                del neighbour
            level, index, width = level + 1, index >> 1, (width + 1) >> 1
        self._root = term

    def result(self) -> Value:
        """The sum, once all terms have been brought."""
        if self._root is _ABSENT:
            raise RuntimeError("the sum is not complete")
        return self._root


def add(left: Any, right: Any) -> Any:
    """The sum of two terms, in the memory of the left one where that is an array."""
    return map_parts(_add_parts, left, right)


def map_parts(function: Callable[..., Any], *terms: Any) -> Any:
    """Call a function for each array or number of some terms: themselves, or all parts of tuples and dataclasses."""
    first = terms[0]
    if isinstance(first, tuple):
        parts = [map_parts(function, *parts) for parts in zip(*terms, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in dataclasses.fields(first)]
        found = {name: map_parts(function, *(getattr(term, name) for term in terms)) for name in names}
        return dataclasses.replace(first, **found)
    return function(*terms)


def _add_parts(left: Any, right: Any) -> Any:
    if isinstance(left, np.ndarray):
        if left.shape != right.shape:
            raise ValueError(f"blocks gave arrays of different shapes, {left.shape} and {right.shape}")
        left += right
        return left
    return left + right


# An array with fewer entries is sent whole.
_FEWEST_ENTRIES = 10**6
# So is one of which more than this share of the rows holds something.
_LARGEST_SHARE = 0.5


class TouchedRows:
    """A matrix given by the rows that hold anything but +0.0, whose bits it keeps.

    Parameters
    ----------
    matrix
        The matrix.
    rows
        Numbers of its rows that are kept.
    """

    def __init__(self, matrix: NDArray[np.float64], rows: NDArray[np.intp]) -> None:
        self.shape, self.rows, self.values = matrix.shape, rows.astype(np.int32), matrix[rows]

    def dense(self) -> NDArray[np.float64]:
        """The matrix."""
        matrix = np.zeros(self.shape)
        matrix[self.rows] = self.values
        return matrix

    def __sizeof__(self) -> int:
        """Bytes in memory, by which Dask decides what a worker can hold."""
        return int(self.rows.nbytes + self.values.nbytes)


def packed(term: Any) -> Any:
    """A term of a sum as it is sent."""
    return map_parts(_packed, term)


def unpacked(term: Any) -> Any:
    """A term of a sum as it was before it was sent."""
    return map_parts(lambda part: part.dense() if isinstance(part, TouchedRows) else part, term)


def summed(terms: Sequence[Any]) -> Any:
    """The sum of terms that were sent, in the tree, to be sent on; the terms stay as they are."""
    total: TreeSum[Any] = TreeSum(len(terms))
    for number, term in enumerate(terms):
        # Sums are taken in the memory of the left one of two.
        total.put(number, unpacked(term if number % 2 else copy.deepcopy(term)))
    return packed(total.result())


def _packed(part: Any) -> Any:
    if not isinstance(part, np.ndarray) or part.ndim != 2 or part.dtype != np.float64:
        return part
    if part.size < _FEWEST_ENTRIES or not part.flags.c_contiguous:
        return part
    rows = np.flatnonzero(part.view(np.int64).any(axis=1))
    return part if rows.size > _LARGEST_SHARE * part.shape[0] else TouchedRows(part, rows)
