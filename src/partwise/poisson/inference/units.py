"""Data of extreme size, brought to a usual one by powers of 2, which change no digit: squares of 1e200 overflow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData

# Counts never need it: 2**63 is the largest sum that is accepted for them.
_USUAL = 200
_NOTHING = 1e-100


def usual_size(data: SparseData) -> tuple[SparseData, int]:
    """The data divided by a power of 2, whose exponent comes with it: 0 unless the values are extreme.

    Values that are nothing beside the average one are left out: products of such factors underflow. Data on disk are
    left as they are.
    """
    if data.is_integer or data.by_rows or not data.nnz:
        return data, 0
    average = data.total / data.nnz
    data = data.only(data.values >= _NOTHING * average)
    _, exponent = np.frexp(average)
    if abs(exponent) <= _USUAL:
        return data, 0
    return data.with_values(np.ldexp(data.values, -exponent)), int(exponent)


def rows_of_usual_size(data: SparseData) -> tuple[SparseData, NDArray[np.int32]]:
    """The data with each row of extreme size divided by a power of 2 of its own, and the exponents of all rows."""
    _, exponents = np.frexp(data.row_sums)
    exponents = np.where(np.abs(exponents) > _USUAL, exponents, 0)
    if not exponents.any():
        return data, exponents
    values = np.ldexp(np.asarray(data.values, dtype=np.float64), -np.repeat(exponents, np.diff(data.indptr)))
    return data.with_values(values), exponents
