"""How sums travel between workers: large arrays in which few rows hold anything are sent as those rows alone."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.engines.tree import TreeSum, map_parts

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
