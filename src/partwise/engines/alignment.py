"""Matrices that begin where a cache line does."""

from __future__ import annotations

import numpy as np

from partwise.kernels.arrays import Floats


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
