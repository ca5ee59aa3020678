"""What the workers of a cluster run: pure functions, so that a lost result can be recomputed bit for bit."""

import contextlib
import ctypes
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.blas import one_blas_thread
from partwise.core.data import SparseData
from partwise.engines.base import Function
from partwise.engines.blocks import Block, Made, aligned
from partwise.engines.tree import TreeSum, packed
from partwise.engines.worker_rows import joined
from partwise.io.atomic import atomic_path
from partwise.storage.csr_folder import open_data

DataAddress = tuple[str, str, Callable[[Any], Any] | None]
"""A folder with data, its checksum (the folder may be rewritten under the same name), and a function to apply."""

_GROUPS_KEPT = 64
_WORTH_ALIGNING = 2**14
# From malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@lru_cache(maxsize=4)
def _opened(folder: str, checksum: str) -> SparseData:
    return open_data(folder)


@lru_cache(maxsize=_GROUPS_KEPT)
def _rows(address: DataAddress, first: int, last: int) -> Any:
    """Some rows. A worker mostly gets the same rows in every pass, so their pointers and sums are cached."""
    folder, checksum, prepare = address
    rows = _opened(folder, checksum).rows(first, last)
    return rows if prepare is None else prepare(rows)


@lru_cache(maxsize=1)
def _keep_freed_memory() -> None:
    """Undo a setting of Dask's nannies, in a worker: the C library would give every freed array back to the system.

    The sums of each block would then be mapped, cleared and unmapped page by page: passes took 1.6 times as long.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        return
    with contextlib.suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 2**25)
        mallopt(_M_TRIM_THRESHOLD, 2**28)


def work_on_rows(
    function: Function,
    address: DataAddress,
    blocks: Sequence[tuple[int, int]],
    reads: Sequence[Any],
    changes: Sequence[Any],
    makes: Sequence[Made],
    shared: Sequence[Any],
) -> tuple[Any, ...]:
    """Call a function for some neighbouring blocks. Return the sum, and the changed and new arrays of their rows."""
    _keep_freed_memory()
    first, last = blocks[0][0], blocks[-1][1]
    data = _rows(address, first, last)
    given = [part for read in reads for part in _arguments(read, data)]
    # All tasks of a worker share results, and a task that is run again needs them unchanged.
    changed = [[np.array(part) for part in _arguments(change, data)] for change in changes]
    made = [np.empty((last - first, *kind.shape), dtype=kind.dtype) for kind in makes]
    given += [part for parts in changed for part in parts]
    rest = [_for_kernels(value) for value in shared]
    total: TreeSum[Any] = TreeSum(len(blocks))
    with one_blas_thread():
        for number, (start, stop) in enumerate(blocks):
            total.put(number, function(Block(data, start - first, stop - first, first), *given, *made, *rest))
    return (packed(total.result()), *(parts[0] for parts in changed), *made)


def _for_kernels(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype == np.float64 and value.size > _WORTH_ALIGNING:
        return aligned(np.ascontiguousarray(value))
    return value


def _arguments(given: tuple[Any, Callable[[Any], NDArray[Any]] | None], data: Any) -> list[NDArray[Any]]:
    """An array from its pieces; a ragged one comes with its row starts."""
    pieces, starts_of = given
    return [joined(pieces)] if starts_of is None else [joined(pieces), starts_of(data)]


def work_on_column(function: Function, arguments: Sequence[Any], k: int, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The result of a function for one column of some arrays."""
    with one_blas_thread():
        return tuple(function(*arguments, *(np.ascontiguousarray(array[:, k]) for array in arrays)))


def rows_of_columns(columns: Sequence[NDArray[Any]], start: int, stop: int) -> NDArray[Any]:
    """Some rows of an array that is given by columns."""
    return np.stack([column[start:stop] for column in columns], axis=1)


def same(value: Any) -> Any:
    """A value sent by the client, as the result of a task: unlike a message, it can be recomputed."""
    return value


def store(array: NDArray[Any], path: str) -> str:
    """Write a piece to a file, completely or not at all."""
    with atomic_path(path) as aside:
        np.save(aside, array, allow_pickle=False)
    return path


def can_read(path: str) -> bool:
    """Whether this worker can see a file."""
    return os.access(path, os.R_OK)
