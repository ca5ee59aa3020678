"""Blocks of rows: where rows are cut, and what a function for a block receives.

The cuts depend on the data alone, never on the number of workers. A function for a block loops over
``range(block.start, block.stop)``: these are positions in the block's data and in every array that it receives. So the
same function works on whole arrays in this process, and on a worker that holds only some of the rows.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

TARGET_NONZEROS = 2**17
MOST_ROWS = 2**15


@dataclass(frozen=True)
class Block:
    """Some rows of data.

    Attributes
    ----------
    data
        The data with these rows: all rows in this process, only the rows of the task on a worker.
    start, stop
        Their positions in ``data``, and in every array with one row per sample.
    first_row
        Position of the first row of ``data`` in the whole data: random streams are keyed by ``first_row + n``.
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
        """Number of rows."""
        return self.stop - self.start

    def own(self, array: Any) -> Any:
        """The rows of an array that belong to this block. An array with a single row is used for all rows."""
        return array if len(array) == 1 else array[self.rows]

    @property
    def own_cells(self) -> tuple[Any, Any, Any]:
        """CSR arrays of these rows alone, for kernels that loop from 0 to ``n_rows``."""
        return self.data.indptr[self.start : self.stop + 1], self.data.indices, self.data.values

    @property
    def own_missing(self) -> tuple[Any, Any]:
        """CSR pattern of the missing cells of these rows alone."""
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
    """An array for a function to fill: its dtype and the shape of one row."""

    shape: tuple[int, ...]
    dtype: DTypeLike = np.float64


class Ragged(NamedTuple):
    """An array with rows of different lengths, stored one after the other. Functions receive it and the row starts.

    Attributes
    ----------
    array
        The array.
    starts_of
        A function at module level that computes, from the data, where each row begins and the last one ends. Workers
        call it for their own rows, so the starts are never sent.
    """

    array: Any
    starts_of: Callable[[Any], NDArray[np.int64]]


def first_tokens(data: Any) -> NDArray[np.int64]:
    """Position of the first token of each row, and the total number of tokens. A token is one unit of a count."""
    return np.concatenate(([0], np.cumsum(data.row_sums))).astype(np.int64)


def row_blocks(
    indptr: NDArray[Any], target_nonzeros: int = TARGET_NONZEROS, most_rows: int = MOST_ROWS
) -> list[tuple[int, int]]:
    """Cut the rows of a CSR matrix into blocks with about equal numbers of nonzeros.

    The cuts depend on the matrix alone, so sums over blocks are the same for any number of threads.

    Parameters
    ----------
    indptr
        Row pointers of the matrix.
    target_nonzeros
        A block has about this many nonzeros or fewer. A row with more becomes a block of its own.
    most_rows
        A block has at most this many rows, however empty they are.

    Returns
    -------
    list of (start, stop)
        Nonempty ranges of rows that cover all rows in order; empty if there are no rows.

    Examples
    --------
    >>> row_blocks(np.array([0, 2, 4, 100, 101]), target_nonzeros=4)
    [(0, 2), (2, 3), (3, 4)]
    """
    if target_nonzeros < 1 or most_rows < 1:
        raise ValueError(f"blocks need at least one row and one nonzero, got {most_rows} and {target_nonzeros}")
    nonzeros = np.asarray(indptr, dtype=np.int64)
    n_rows = len(nonzeros) - 1
    huge = np.flatnonzero(np.diff(nonzeros) > target_nonzeros)
    edges = np.unique(np.concatenate(([0], huge, huge + 1, [n_rows])))
    blocks: list[tuple[int, int]] = []
    for first, last in itertools.pairwise(edges.tolist()):
        in_range = int(nonzeros[last] - nonzeros[first])
        n_blocks = 1 if last == first + 1 else -(-in_range // target_nonzeros)
        # Equal shares of the whole range instead of full blocks one after the other: no small block is left at the end.
        shares = nonzeros[first] + np.arange(1, n_blocks) * in_range // max(n_blocks, 1)
        cuts = np.unique(np.concatenate(([first], np.searchsorted(nonzeros, shares, side="right") - 1, [last])))
        for start, stop in itertools.pairwise(cuts.tolist()):
            pieces = -(-(stop - start) // most_rows)
            bounds = [start + piece * (stop - start) // pieces for piece in range(pieces + 1)]
            blocks.extend(itertools.pairwise(bounds))
    return blocks


def aligned(matrix: Any) -> Any:
    """The same matrix, aligned to a cache line, copied if necessary. What is on workers stays there: they align it.

    NumPy starts large arrays 16 bytes after a cache line, so every wide load of a row touches two lines. If a row is
    not a multiple of 32 bytes long, rows start anywhere and a copy would not help.
    """
    if not isinstance(matrix, np.ndarray) or matrix.shape[1] % 4 or matrix.ctypes.data % 64 == 0:
        return matrix
    memory = np.empty(matrix.size + 7)
    first = -memory.ctypes.data % 64 // 8
    moved = memory[first : first + matrix.size].reshape(matrix.shape)
    moved[...] = matrix
    return moved
