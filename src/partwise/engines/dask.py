"""Dask: process blocks on the workers of a cluster, with the same result as threads, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from partwise.engines import worker_tasks as tasks
from partwise.engines.base import Calls, Function
from partwise.engines.blocks import Made, Ragged
from partwise.engines.cluster_tasks import ClusterTasks, SharedFolder, n_threads
from partwise.engines.local import LocalEngine
from partwise.engines.tree import unpacked
from partwise.engines.worker_rows import RowsOnWorkers, StoredPieces
from partwise.errors import EngineError
from partwise.io.arrays import load_npy

Item = TypeVar("Item")
Value = TypeVar("Value")
Bounds = Sequence[tuple[int, int]]

# Tasks per pass and thread of the cluster: enough to balance the load, and few enough for the scheduler, which needs
# half a millisecond per task.
_TASKS_OF_A_THREAD = 4
# Number of blocks per task, if there are enough blocks for all threads.
_FEWEST_BLOCKS = 4
# Arrays of at least this size are sent to the cluster once, smaller ones with every task.
_SENT_ONCE = 2**13


class DaskEngine(ClusterTasks):
    """Process blocks on the workers of a Dask cluster. The result is that of `LocalEngine`, bit for bit.

    Arrays with one row per sample stay on the workers in pieces (`RowsOnWorkers`). Sums are taken on the workers, in
    the tree of `partwise.engines.tree`: the neighbouring blocks of one task form a whole branch of it. Every task is a
    pure function, so Dask recomputes what is lost with a worker. Pieces are written to files from time to time, so that
    this never takes more than ``stored_every`` passes.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    folder
        Where data and pieces are written: a folder that the client and all workers can see. By default a new one in the
        temporary folder, which works if everything runs on one machine. It is removed at the end.
    stored_every
        The pieces of an array are written after this many passes.
    patience
        Seconds without any worker, or without the scheduler, after which a fit ends with an `EngineError`.

    Examples
    --------
    Not run as a doctest, because it starts two processes; ``tests/engines`` does.

    >>> from distributed import Client, LocalCluster  # doctest: +SKIP
    >>> engine = DaskEngine(Client(LocalCluster(n_workers=2, threads_per_worker=1)))  # doctest: +SKIP
    """

    def __init__(
        self,
        client: Any,
        *,
        folder: str | os.PathLike[str] | None = None,
        stored_every: int = 8,
        patience: float = 60.0,
    ) -> None:
        super().__init__(client, patience)
        self.stored_every = stored_every
        self.here = LocalEngine()
        self._shared = SharedFolder(folder)
        try:
            self._shared.check(client)
        except BaseException:
            self.close()
            raise

    @property
    def folder(self) -> Path:
        """Where data and pieces are written for the workers."""
        return self._shared.path

    def close(self) -> None:
        """Remove the data and pieces that were written for the workers. The engine cannot be used afterwards."""
        self._shared.remove()

    @property
    def closed(self) -> bool:
        """Whether `close` was called, by the user or after a failure of the cluster."""
        return not self._shared.remove.alive

    # What every engine can do

    def map_reduce(self, function: Callable[..., Value], blocks: Sequence[Item], *args: Any) -> Value:
        """The sum over blocks, with threads of this process. Functions of rows go to the workers: see `map_rows`."""
        return self.here.map_reduce(function, blocks, *args)

    def for_each(self, function: Callable[..., object], blocks: Sequence[Item], *args: Any) -> None:
        """Call a function for every block, with threads of this process."""
        self.here.for_each(function, blocks, *args)

    def fingerprint(self) -> str:
        """The same for every engine."""
        return self.here.fingerprint()

    def place(self, array: Any, data: Any, blocks: Bounds) -> Any:
        """Cut an array into pieces along some blocks and send them to the workers, where they stay."""
        rows = _values(array)
        if isinstance(rows, RowsOnWorkers):
            return rows
        bounds = _bounds_in(array, data, [(group[0][0], group[-1][1]) for group in self._groups(blocks)])
        paths = self._shared.new_paths(len(bounds))
        try:
            for (start, stop), path in zip(bounds, paths, strict=True):
                tasks.store(rows[start:stop], str(path))
        except OSError as error:
            raise EngineError(f"the state could not be written for the workers: {error}") from error
        return self._restored(bounds, paths, rows.shape[1:], rows.dtype)

    def map_rows(
        self,
        function: Callable[..., Value],
        data: Any,
        blocks: Bounds,
        *shared: Any,
        reads: Sequence[Any] = (),
        changes: Sequence[Any] = (),
        makes: Sequence[Made] = (),
        recut: bool = False,
        stay: bool = False,
    ) -> tuple[Value, tuple[Any, ...]]:
        """The sum of a function over blocks, and the arrays that it changed and made; see `Engine.map_rows`.

        Arrays of this process are sent in pieces, and sent again if they were changed. New arrays stay on the workers
        if any given array is there, or if ``stay`` is set.
        """
        address = self._shared.address_of(data)
        placed = [rows for rows in map(_values, (*reads, *changes)) if isinstance(rows, RowsOnWorkers)]
        groups = self._groups(blocks)
        if recut:
            # One block per piece of an array on the workers, so that its rows need not move.
            cuts = (array.bounds for array in (*reads, *changes) if isinstance(array, RowsOnWorkers))
            groups = next(([[bound] for bound in cut] for cut in cuts), groups)
        bounds = [(group[0][0], group[-1][1]) for group in groups]
        pieces = [self._pieces(array, data, bounds) for array in (*reads, *changes)]
        given = [self._sent(value) for value in shared]
        n_reads, n_results = len(reads), 1 + len(changes) + len(makes)
        work = [
            (function, address, group, own[:n_reads], own[n_reads:], makes, given)
            for group, *own in zip(groups, *pieces, strict=True)
        ]
        terms, *written = self._submit_several(tasks.work_on_rows, work, n_results)
        total: Value = unpacked(self.result(self._summed(terms)))
        kinds = [*(Made(rows.shape[1:], rows.dtype) for rows in map(_values, changes)), *makes]
        stays = [isinstance(_values(array), RowsOnWorkers) for array in changes]
        stays += [stay or bool(placed)] * len(makes)
        found = [
            self._kept(_bounds_in(array, data, bounds), futures, *kind, placed)
            if there
            else np.concatenate(self.results(futures))
            for array, futures, kind, there in zip((*changes, *makes), written, kinds, stays, strict=True)
        ]
        return total, tuple(found)

    def map_columns(
        self, function: Function, arguments: Calls, *arrays: Any, n_made: int, order: Sequence[int] | None = None
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """Call a function for each column, and join the columns that it returns; see `Engine.map_columns`.

        Each worker that processes a column receives all rows of the arrays.
        """
        first = arrays[0]
        if not isinstance(first, RowsOnWorkers):
            return self.here.map_columns(function, arguments, *arrays, n_made=n_made, order=order)
        order = range(len(arguments)) if order is None else order
        given = [self._sent(array) for array in arrays]
        work = [(function, arguments[k], k, given) for k in order]
        in_order = np.argsort(order)
        submitted = self._submit_several(tasks.work_on_column, work, 1 + n_made)
        found, *columns = ([futures[k] for k in in_order] for futures in submitted)
        placed = [array for array in arrays if isinstance(array, RowsOnWorkers)]
        made = []
        for own in columns:
            pieces = self.submit_each(tasks.rows_of_columns, [(own, *bound) for bound in first.bounds])
            made.append(self._kept(first.bounds, pieces, first.shape[1:], first.dtype, placed))
        return self.results(found), tuple(made)

    # Pieces

    def _sent(self, value: Any) -> Any:
        """An argument of several tasks. A large one is sent once, as a future."""
        if isinstance(value, RowsOnWorkers):
            return value.whole()
        if isinstance(value, np.ndarray) and value.nbytes >= _SENT_ONCE:
            return self.submit(tasks.same, value)
        return value

    def _groups(self, blocks: Bounds) -> list[list[tuple[int, int]]]:
        """Neighbouring blocks for each task: a power of two, so that each task sums a whole branch."""
        threads = max(1, n_threads(self.client))
        size = 1
        while size * 2 * threads * (1 if size < _FEWEST_BLOCKS else _TASKS_OF_A_THREAD) <= len(blocks):
            size *= 2
        return [list(blocks[first : first + size]) for first in range(0, len(blocks), size)]

    def _pieces(self, array: Any, data: Any, bounds: Bounds) -> list[Any]:
        """The rows of an array that each task needs: see `worker_tasks.work_on_rows`."""
        rows, starts_of = _values(array), array.starts_of if isinstance(array, Ragged) else None
        own = _bounds_in(array, data, bounds)
        if isinstance(rows, RowsOnWorkers):
            return [(rows.between(*bound), starts_of) for bound in own]
        if starts_of is None and rows.shape[0] == 1:
            return [([(rows, slice(None))], None)] * len(bounds)
        return [([(self._sent(rows[start:stop]), slice(None))], starts_of) for start, stop in own]

    def _kept(
        self, bounds: Bounds, pieces: list[Any], shape: tuple[int, ...], dtype: Any, made_from: Sequence[RowsOnWorkers]
    ) -> RowsOnWorkers:
        """A new array on the workers. It is written to files if many passes would be needed to recompute it."""
        depth = 1 + max((array.depth for array in made_from), default=0)
        if depth < self.stored_every:
            stored = frozenset[StoredPieces]().union(*(array.stored for array in made_from))
            return RowsOnWorkers(self, bounds, pieces, shape, dtype, depth, stored)
        paths = self._shared.new_paths(len(pieces))
        try:
            self.results(self.submit_each(tasks.store, list(zip(pieces, map(str, paths), strict=True))))
        except OSError as error:
            raise EngineError(f"a worker could not write its part of the state: {error}") from error
        return self._restored(bounds, paths, shape, dtype)

    def _restored(self, bounds: Bounds, paths: list[Path], row_shape: tuple[int, ...], dtype: Any) -> RowsOnWorkers:
        pieces = self.submit_each(load_npy, [(str(path),) for path in paths])
        return RowsOnWorkers(self, bounds, pieces, row_shape, dtype, 0, frozenset([StoredPieces(paths)]))

    def __copy__(self) -> DaskEngine:
        return self

    def __deepcopy__(self, memo: Any) -> DaskEngine:
        return self


def _values(array: Any) -> Any:
    return array.array if isinstance(array, Ragged) else array


def _bounds_in(array: Any, data: Any, bounds: Bounds) -> Bounds:
    """Where the pieces of an array begin and end, given the cuts of the rows."""
    if not isinstance(array, Ragged):
        return bounds
    starts = array.starts_of(data)
    return [(int(starts[start]), int(starts[stop])) for start, stop in bounds]
