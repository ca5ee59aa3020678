"""Sums in a fixed binary tree, in whatever order the terms arrive.

Between workers, a large array with few nonzero rows is sent as those rows alone.
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

    The terms are level 0; if a level has an odd number of nodes, its last node moves up unchanged. Two neighbours are
    added as soon as both are there, by the thread that brings the second one, in the memory of the left one. Once terms
    0 .. m - 1 have all arrived, they take up at most log2(m) + 1 nodes.

    Parameters
    ----------
    n_terms
        Number of terms, at least 1.

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
        """Add a term. From now on its memory belongs to the sum."""
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
        """The sum, once all terms have arrived."""
        if self._root is _ABSENT:
            raise RuntimeError("the sum is not complete")
        return self._root


def add(left: Any, right: Any) -> Any:
    """The sum of two terms, in the memory of the left one if it is an array."""
    return map_parts(_add_parts, left, right)


def map_parts(function: Callable[..., Any], *terms: Any) -> Any:
    """Call a function for each array or number in some terms, including those inside tuples and dataclasses."""
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
    return None if left is None else left + right


# An array with fewer entries is sent as a whole.
_FEWEST_ENTRIES = 10**6
# An array with more than this share of nonzero rows is sent as a whole, too.
_LARGEST_SHARE = 0.5


class TouchedRows:
    """A matrix stored as the rows that are not entirely +0.0. It is restored bit for bit.

    Parameters
    ----------
    matrix
        The matrix.
    rows
        Numbers of the rows that are kept.
    """

    def __init__(self, matrix: NDArray[np.float64], rows: NDArray[np.intp]) -> None:
        self.shape, self.rows, self.values = matrix.shape, rows.astype(np.int32), matrix[rows]

    def dense(self) -> NDArray[np.float64]:
        """The matrix."""
        matrix = np.zeros(self.shape)
        matrix[self.rows] = self.values
        return matrix

    def __sizeof__(self) -> int:
        """Size in bytes, which Dask uses to decide what a worker can hold."""
        return int(self.rows.nbytes + self.values.nbytes)


def packed(term: Any) -> Any:
    """A term of a sum, packed for sending."""
    return map_parts(_packed, term)


def unpacked(term: Any) -> Any:
    """Unpack a term of a sum."""
    return map_parts(lambda part: part.dense() if isinstance(part, TouchedRows) else part, term)


def summed(terms: Sequence[Any]) -> Any:
    """Sum packed terms in the tree, and pack the result. The terms do not change."""
    total: TreeSum[Any] = TreeSum(len(terms))
    for number, term in enumerate(terms):
        # The sum is taken in the memory of the left term.
        total.put(number, unpacked(term if number % 2 else copy.deepcopy(term)))
    return packed(total.result())


def _packed(part: Any) -> Any:
    if not isinstance(part, np.ndarray) or part.ndim != 2 or part.dtype != np.float64:
        return part
    if part.size < _FEWEST_ENTRIES or not part.flags.c_contiguous:
        return part
    rows = np.flatnonzero(part.view(np.int64).any(axis=1))
    return part if rows.size > _LARGEST_SHARE * part.shape[0] else TouchedRows(part, rows)
