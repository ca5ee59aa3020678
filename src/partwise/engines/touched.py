"""Large sums of features x components of which few features are touched travel as these features alone.

Where nothing was added stands +0.0, and only rows in which all bits are those of +0.0 are left out: what is unpacked
has the bits of what was packed, and sums have those of dense sums (-0.0 + 0.0 is +0.0, so 0.0 is added to rows that one
term alone touches).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Entries from which on an array is worth looking through.
_FEWEST_ENTRIES = 10**6
# Largest share of rows that is worth being told apart: less than half of the bytes.
_LARGEST_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class TouchedRows:
    """A matrix by those of its rows that hold something.

    Attributes
    ----------
    shape
        Of the matrix.
    rows
        Their numbers, rising.
    values
        What they hold.
    """

    shape: tuple[int, ...]
    rows: NDArray[Any]
    values: NDArray[np.float64]

    def dense(self, n_rows: int | None = None, rows: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """The matrix, or some of its rows, among which are all that hold something."""
        matrix = np.zeros((self.shape[0] if n_rows is None else n_rows, *self.shape[1:]))
        matrix[self.rows if rows is None else np.searchsorted(rows, self.rows)] = self.values
        return matrix

    def __sizeof__(self) -> int:
        """Bytes in memory: workers decide by them what to keep."""
        return int(self.rows.nbytes + self.values.nbytes)


def packed(value: Any) -> Any:
    """A term of a sum with every large array, of which few rows are touched, as `TouchedRows`.

    Parameters
    ----------
    value
        An array, a number, or a tuple or dataclass of them.
    """
    return _each(_packed, value)


def unpacked(value: Any) -> Any:
    """The same with arrays again.

    Parameters
    ----------
    value
        What `packed` gave, or a sum of such.
    """
    return _each(lambda part: part.dense() if isinstance(part, TouchedRows) else part, value)


def added(left: Any, right: Any) -> Any:
    """The sum of two matrices of which one is `TouchedRows` at least, with the bits of a dense sum.

    Parameters
    ----------
    left, right
        The terms; a left one that is an array is used up.
    """
    if isinstance(left, TouchedRows) and isinstance(right, TouchedRows):
        rows = np.union1d(left.rows, right.rows)
        if rows.size <= _LARGEST_SHARE * left.shape[0]:
            values = left.dense(rows.size, rows)
            values += right.dense(rows.size, rows)
            return TouchedRows(left.shape, rows, values)
    total: NDArray[np.float64] = left.dense() if isinstance(left, TouchedRows) else left
    total += right.dense() if isinstance(right, TouchedRows) else right
    return total


def _packed(array: Any) -> Any:
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype != np.float64:
        return array
    if array.size < _FEWEST_ENTRIES or not array.flags.c_contiguous:
        return array
    rows = np.flatnonzero(array.view(np.int64).any(axis=1))
    if rows.size > _LARGEST_SHARE * array.shape[0]:
        return array
    return TouchedRows(array.shape, rows.astype(np.int32), array[rows])


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, TouchedRows):
        return function(value)
    if isinstance(value, tuple):
        parts = [_each(function, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: _each(function, getattr(value, name)) for name in names})
    return function(value)
