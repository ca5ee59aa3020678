"""What the workers of a cluster run: pure functions, so that a lost result can be made again, to the bit."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.blas import one_blas_thread
from partwise.core.data import SparseData
from partwise.engines import formulas
from partwise.engines.pairwise import PairwiseSum, Part
from partwise.engines.rows import Block, Made, aligned
from partwise.engines.touched import packed
from partwise.engines.tree import TreeSum
from partwise.io.atomic import atomic_path
from partwise.io.npy import load_npy
from partwise.storage.mapped_counts import open_data

Piece = tuple[Any, int, int]
"""A piece of an array with rows, and which of its rows are wanted."""

Place = tuple[str, str]
"""A folder with data, and a checksum of these: it may be written anew under the same name."""

_WORTH_ALIGNING = 2**14
_GROUPS_KEPT = 64
# Of malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@lru_cache(maxsize=4)
def _opened(place: Place) -> SparseData:
    return open_data(place[0])


@lru_cache(maxsize=_GROUPS_KEPT)
def _rows(place: Place, prepare: Callable[[Any], Any] | None, first: int, last: int) -> Any:
    """Some rows; a worker mostly gets the same ones in every pass, and keeps their pointers and sums."""
    rows = _opened(place).rows(first, last)
    return rows if prepare is None else prepare(rows)


@lru_cache(maxsize=1)
def _keep_freed_memory() -> None:
    """Undo, in a worker, what Dask's nannies ask of the C library: to give every freed array back to the system.

    Each block's sums would then be mapped, cleared and unmapped page by page: passes took 1.6 times as long.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    with contextlib.suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 2**25)
        mallopt(_M_TRIM_THRESHOLD, 2**28)


def work_on_rows(
    function: Callable[..., Any],
    place: Place,
    prepare: Callable[[Any], Any] | None,
    blocks: Sequence[tuple[int, int]],
    reads: Sequence[Any],
    changes: Sequence[Any],
    makes: Sequence[Made],
    shared: Sequence[Any],
) -> tuple[Any, ...]:
    """Call a function over rows for some neighbouring blocks: changed and made arrays of their rows, and the sum."""
    _keep_freed_memory()
    first, last = blocks[0][0], blocks[-1][1]
    data = _rows(place, prepare, first, last)
    given = [part for pieces in reads for part in _arguments(pieces, data)]
    # Results are shared by all tasks of a worker, and must stay as they are for tasks that are run again.
    changed = [[np.array(part) for part in _arguments(pieces, data)] for pieces in changes]
    made = [np.empty((last - first, *kind.shape), dtype=kind.dtype) for kind in makes]
    rest = [_for_kernels(value) for value in shared]
    total: TreeSum[Any] = TreeSum(len(blocks))
    written = [array for arrays in changed for array in arrays]
    with one_blas_thread():
        for number, (start, stop) in enumerate(blocks):
            block = Block(data, start - first, stop - first, first)
            total.put(number, function(block, *given, *written, *made, *rest))
    return (*(arrays[0] for arrays in changed), *made, packed(total.result()))


def _for_kernels(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype == np.float64 and value.size > _WORTH_ALIGNING:
        return aligned(np.ascontiguousarray(value))
    return value


def _arguments(pieces: Any, data: Any) -> list[NDArray[Any]]:
    """The array of a list of pieces; of ragged rows, where they start in it too."""
    if isinstance(pieces, dict) and "starts" in pieces:
        starts = pieces["starts"]
        starts = np.asarray(starts(data) if callable(starts) else starts)
        return [joined(pieces["pieces"]), starts - starts[0]]
    return [joined(pieces)]


def joined(pieces: Any) -> NDArray[Any]:
    """One array of the rows of some pieces, or computed from such: see `formulas.Formula.between`."""
    if isinstance(pieces, dict):
        return formulas.computed([*map(joined, pieces["rows"]), *pieces["constants"]], pieces["steps"])
    parts = [array if stop - start == len(array) else array[start:stop] for array, start, stop in pieces]
    return np.ascontiguousarray(parts[0]) if len(parts) == 1 else np.concatenate(parts)


def converted(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The same numbers as another type."""
    return array.astype(dtype)


def row_sums(array: NDArray[Any]) -> NDArray[Any]:
    """Sums within rows."""
    return np.asarray(array.sum(axis=1))


def added_rows(before: NDArray[Any] | None, array: NDArray[Any]) -> NDArray[Any]:
    """Sums over rows, added one after the other to those before."""
    return np.asarray((array if before is None else np.concatenate([before[None], array])).sum(axis=0))


def column_values(arrays: Sequence[Any]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """The different values in each column of some rows of several arrays, and how often each is there."""
    rows = np.concatenate([joined(pieces) for pieces in arrays])
    return [np.unique(column, return_counts=True) for column in rows.T]


def on_column(function: Callable[..., Any], arguments: Sequence[Any], k: int, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """What a function gives for one column of some arrays."""
    with one_blas_thread():
        return tuple(function(*arguments, *(np.ascontiguousarray(array[:, k]) for array in arrays)))


def rows_of_columns(columns: Sequence[NDArray[Any]], start: int, stop: int) -> NDArray[Any]:
    """Some rows of an array that is there column by column."""
    return np.stack([column[start:stop] for column in columns], axis=1)


def part_of_sum(pieces: Any, plan: PairwiseSum, first: int) -> Part:
    """What some rows give to the sum of all entries."""
    return plan.part(joined(pieces).ravel(), first)


def whole(pieces: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """All rows."""
    return np.concatenate(pieces) if len(pieces) > 1 else pieces[0]


def same(value: Any) -> Any:
    """A value that the client has sent, as the result of a task: it can be made again."""
    return value


def item(values: tuple[Any, ...], position: int) -> Any:
    """One of several results."""
    return values[position]


def summed(terms: Sequence[Any]) -> Any:
    """The sum of a branch of the tree; the terms stay as they are."""
    total: TreeSum[Any] = TreeSum(len(terms))
    for number, term in enumerate(terms):
        # Sums are taken in the memory of the left one of two.
        total.put(number, term if number % 2 else copy.deepcopy(term))
    return packed(total.result())


def store(array: NDArray[Any], path: str) -> str:
    """Write a piece to a file, whole or not at all."""
    with atomic_path(path) as aside:
        np.save(aside, array, allow_pickle=False)
    return path


def restore(path: str) -> NDArray[Any]:
    """Read a piece."""
    array: NDArray[Any] = load_npy(path)
    return array


def can_read(path: str) -> bool:
    """Whether this worker sees a file."""
    return os.access(path, os.R_OK)
