"""Dask: blocks on the workers of a cluster, with the same bits as threads on this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from partwise.core.data import SparseData
from partwise.engines import tasks
from partwise.engines.distributed import DistributedRows, LazyRows, RemoteRows, StoredPieces
from partwise.engines.local import LocalEngine
from partwise.engines.rows import Made, Ragged, parts
from partwise.engines.stacked import StackedRows
from partwise.engines.touched import unpacked
from partwise.errors import EngineError
from partwise.storage.mapped_counts import MappedCounts
from partwise.storage.writing import write_data

Block = TypeVar("Block")
Value = TypeVar("Value")

# Tasks of a pass for each thread of the cluster: enough for an even load, few enough for the scheduler's half
# millisecond a task.
_TASKS_OF_A_THREAD = 4
# Blocks of a task, where there are enough of them for all threads.
_FEWEST_BLOCKS = 4
# Terms that one task adds: a power of two, so that it adds a branch of the tree.
_BRANCH = 8
# Arrays from this size on are sent once to the cluster, smaller ones with every task.
_SENT_ONCE = 2**13


class DaskEngine:
    """Work on blocks on the workers of a Dask cluster; the same bits as `LocalEngine`, for any number of workers.

    Arrays that an algorithm has placed stay on the workers in pieces. Sums are taken on the workers, in the tree of
    `partwise.engines.tree`: neighbouring blocks that one task works on are a whole branch of it. Every task is a pure
    function, so Dask makes again what is lost with a worker; pieces are written to files now and then, so that this
    never takes more than ``stored_every`` passes.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    folder
        Where data and pieces are written: a folder that the client and all workers see. By default one made in the
        temporary folder, which is right where all run on one machine, and removed in the end.
    stored_every
        Passes after which the pieces of an array are written.
    n_jobs
        Threads of this process, for what is too small to be sent away.

    Examples
    --------
    Not run as a doctest, as it starts two processes; ``tests/engines`` does.

    >>> from distributed import Client, LocalCluster  # doctest: +SKIP
    >>> engine = DaskEngine(Client(LocalCluster(n_workers=2, threads_per_worker=1)))  # doctest: +SKIP
    """

    def __init__(
        self,
        client: Any,
        *,
        folder: str | os.PathLike[str] | None = None,
        stored_every: int = 8,
        n_jobs: int | None = None,
    ) -> None:
        self.client = client
        self.stored_every = stored_every
        self.local = LocalEngine(n_jobs)
        self._folders: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        try:
            if folder is not None:
                Path(folder).mkdir(parents=True, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(prefix="partwise-", dir=folder)).absolute()
        except OSError as error:
            raise EngineError(
                f"cannot write to the folder {folder} ({error}); give one that can be written."
            ) from error
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._check_folder()

    # What every engine can do

    def map_reduce(self, function: Callable[..., Value], blocks: Sequence[Block], *args: Any) -> Value:
        """The sum over blocks, by threads of this process: functions over rows go to the workers, see `map_rows`."""
        return self.local.map_reduce(function, blocks, *args)

    def for_each(self, function: Callable[..., object], blocks: Sequence[Block], *args: Any) -> None:
        """Call a function for every block, by threads of this process."""
        self.local.for_each(function, blocks, *args)

    def fingerprint(self) -> str:
        """The same for every engine."""
        return self.local.fingerprint()

    def place(self, array: Any, data: Any, blocks: Sequence[tuple[int, int]], *, stacked: bool = False) -> Any:
        """Cut an array into the pieces of some blocks and send them to the workers, where they stay."""
        rows, *starts = parts(array)
        if isinstance(rows, RemoteRows | StackedRows):
            return rows
        if stacked:
            each = [array._replace(array=part) if starts else part for part in rows]
            return StackedRows([self.place(part, data, blocks) for part in each])
        rows = np.asarray(rows)
        bounds = _places(array, [(group[0][0], group[-1][1]) for group in self._groups(blocks)])
        paths = self._new_paths(len(bounds))
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
        blocks: Sequence[tuple[int, int]],
        *shared: Any,
        reads: Sequence[Any] = (),
        changes: Sequence[Any] = (),
        makes: Sequence[Made] = (),
        recut: bool = False,
        stay: bool = False,
    ) -> tuple[Value, tuple[Any, ...]]:
        """The sum of a function over rows, and the arrays that it changed and made; see `Engine.map_rows`.

        Arrays that were placed stay on the workers when they are changed, others are fetched. Arrays that are made stay
        if any was placed, or where ``stay`` says so.
        """
        place, prepare = self._place_of(data)
        given_rows = [parts(array)[0] for array in (*reads, *changes)]
        placed = [array for array in given_rows if isinstance(array, RemoteRows)]
        groups = self._recut(placed, blocks) if recut else self._groups(blocks)
        bounds = [(group[0][0], group[-1][1]) for group in groups]
        given = [self.sent(value) for value in shared]
        pieces = [[self._pieces(array, *bound) for array in (*reads, *changes)] for bound in bounds]
        n_reads, n_written = len(reads), len(changes) + len(makes)
        work = function, place, prepare
        results = self.submit_each(
            tasks.work_on_rows,
            [
                (*work, group, own[:n_reads], own[n_reads:], makes, given)
                for group, own in zip(groups, pieces, strict=True)
            ],
        )
        terms, *written = (
            self.submit_each(tasks.item, [(result, at) for result in results]) for at in (n_written, *range(n_written))
        )
        del results
        total = unpacked(self.result(self._summed(terms)))
        depth = 1 + max((array.depth for array in placed), default=0)
        stored = frozenset[StoredPieces]().union(*(array.stored for array in placed))
        stay = stay or bool(placed)
        found = []
        for futures, array in zip(written, (*changes, *makes), strict=True):
            if isinstance(array, Made):
                kept, row_shape, dtype, target = stay, array.shape, array.dtype, None
            else:
                target = parts(array)[0]
                kept, row_shape, dtype = isinstance(target, RemoteRows), target.shape[1:], target.dtype
            if kept:
                rows = DistributedRows(self, _places(array, bounds), futures, row_shape, dtype, depth, stored)
                found.append(self.kept(rows))
            else:
                found.append(self._fetched(futures, target))
        return total, tuple(found)

    def computed(self, rows: LazyRows) -> DistributedRows:
        """An array that is a function of others, computed on the workers."""
        pieces = self.submit_each(tasks.joined, [(rows.between(*bound),) for bound in rows.bounds])
        fresh = DistributedRows(self, rows.bounds, pieces, rows.row_shape, rows.dtype, 1 + rows.depth, rows.stored)
        return self.kept(fresh)

    # Futures

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        """A task."""
        return self.submit_each(function, [args])[0]

    def submit_each(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """A task for each of some lists of arguments, sent all at once."""
        import dask

        name = f"{function.__name__}-{uuid.uuid4().hex}"
        keys = [f"{name}-{number}" for number in range(len(arguments))]
        # Dictionaries are sent with the tasks that give them to the others: these can be run again, messages cannot.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return list(self.client.map(function, *zip(*arguments, strict=True), key=keys, pure=False))

    def result(self, future: Any) -> Any:
        """What a task gave."""
        return self.results([future])[0]

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """What some tasks gave; an error of a worker is raised here as what it is."""
        from distributed import KilledWorker

        try:
            return list(self.client.gather(list(futures)))
        except KilledWorker as error:
            raise EngineError(
                "workers died again and again on the same rows, most often because they ran out of memory: give them"
                " more, or start fewer workers; the last checkpoint is whole."
            ) from error
        except CancelledError as error:
            raise EngineError(
                "the Dask cluster has forgotten this fit, because its scheduler was closed or restarted: start it anew,"
                " and resume from the last checkpoint."
            ) from error

    # Parts

    def _groups(self, blocks: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        """Neighbouring blocks for each task, a power of two of them, so that each task sums a whole branch."""
        threads = max(1, sum(self.client.nthreads().values()))
        size = 1
        while size * 2 * threads * (1 if size < _FEWEST_BLOCKS else _TASKS_OF_A_THREAD) <= len(blocks):
            size *= 2
        return [list(blocks[first : first + size]) for first in range(0, len(blocks), size)]

    def _recut(self, placed: Sequence[RemoteRows], blocks: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        """One block for each piece of an array that was placed: its rows need not move."""
        for array in placed:
            if len(array) == blocks[-1][1]:
                return [[bound] for bound in array.bounds]
        return self._groups(blocks)

    def _summed(self, terms: list[Any]) -> Any:
        while len(terms) > 1:
            branches = [(terms[at : at + _BRANCH],) for at in range(0, len(terms), _BRANCH)]
            terms = self.submit_each(tasks.summed, branches)
        return terms[0]

    def sent(self, value: Any) -> Any:
        """An argument of several tasks: a future of it, where it is large."""
        if isinstance(value, RemoteRows):
            return value.placed().whole()
        if isinstance(value, np.ndarray) and value.nbytes >= _SENT_ONCE:
            return self.submit(tasks.same, value)
        return value

    def _pieces(self, array: Any, start: int, stop: int) -> Any:
        if isinstance(array, Ragged):
            first, last = int(array.starts[start]), int(array.starts[stop])
            starts = array.starts_of or array.starts[start : stop + 1]
            return {"pieces": self._pieces(array.array, first, last), "starts": starts}
        if isinstance(array, RemoteRows):
            return array.between(start, stop)
        rows = np.asarray(array)
        # One row for all.
        if rows.shape[0] == 1 and stop > 1:
            return [(rows, 0, 1)]
        return [(self.sent(rows[start:stop]), 0, stop - start)]

    def _fetched(self, futures: list[Any], target: Any) -> Any:
        array = tasks.whole(self.results(futures))
        if target is None:
            return array
        target[...] = array
        return target

    def kept(self, rows: DistributedRows) -> DistributedRows:
        """The same array, written to files where many passes would have to be run again to make it anew."""
        if rows.depth < self.stored_every:
            return rows
        paths = self._new_paths(len(rows.pieces))
        try:
            self.results(self.submit_each(tasks.store, list(zip(rows.pieces, map(str, paths), strict=True))))
        except OSError as error:
            raise EngineError(f"a worker could not write its part of the state: {error}") from error
        return self._restored(rows.bounds, paths, rows.row_shape, rows.dtype)

    def _new_paths(self, number: int) -> list[Path]:
        name = uuid.uuid4().hex
        return [self.folder / f"{name}-{at}.npy" for at in range(number)]

    def _restored(
        self, bounds: list[tuple[int, int]], paths: list[Path], row_shape: tuple[int, ...], dtype: Any
    ) -> DistributedRows:
        pieces = self.submit_each(tasks.restore, [(str(path),) for path in paths])
        return DistributedRows(self, bounds, pieces, row_shape, dtype, 0, frozenset([StoredPieces(paths)]))

    def _place_of(self, data: Any) -> tuple[tasks.Place, Callable[[Any], Any] | None]:
        """Where workers find the data, written on first use, and what they make of them."""
        if isinstance(data, MappedCounts):
            return (str(data.folder.absolute()), data.checksum), None
        if data not in self._folders:
            folder = self.folder / f"data-{uuid.uuid4().hex}"
            matrix: SparseData = data if isinstance(data, SparseData) else data.matrix
            try:
                write_data(matrix, folder)
            except OSError as error:
                raise EngineError(
                    f"the data could not be written for the workers ({error}): free some space."
                ) from error
            self._folders[data] = str(folder)
            weakref.finalize(data, shutil.rmtree, folder, ignore_errors=True)
        return (self._folders[data], ""), None if isinstance(data, SparseData) else type(data).of

    def _check_folder(self) -> None:
        probe = self.folder / "probe"
        probe.touch()
        seen = self.client.run(tasks.can_read, str(probe))
        if not seen:
            raise EngineError("the Dask cluster has no workers: start some first.")
        blind = [worker for worker, sees in seen.items() if not sees]
        if blind:
            raise EngineError(
                f"the worker {blind[0]} does not see the folder {self.folder}: give DaskEngine a folder that all share."
            )

    def __copy__(self) -> DaskEngine:
        return self

    def __deepcopy__(self, memo: Any) -> DaskEngine:
        return self


def _places(array: Any, bounds: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where the pieces of an array begin and end, given those of the rows."""
    if not isinstance(array, Ragged):
        return bounds
    return [(int(array.starts[start]), int(array.starts[stop])) for start, stop in bounds]
