"""Threads on this machine. Kernels release the interpreter lock, so a pool of threads over blocks is enough.

Also the choice between these threads and a cluster, from the arguments ``engine`` and ``n_jobs`` of an estimator.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from partwise.engines.base import Calls, Engine, Function
from partwise.engines.blocks import Block, Made, Ragged
from partwise.engines.tree import TreeSum
from partwise.errors import InvalidInputError

Item = TypeVar("Item")
Value = TypeVar("Value")

# Blocks per thread that may be ahead of the first unfinished one. This limits the number of waiting partial sums.
_AHEAD = 4
_MOST_THREADS = 1024

_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


@dataclass(frozen=True)
class LocalEngine:
    """Process blocks in threads; the result does not depend on their number.

    An engine is a plain value that can be copied and pickled. All engines share one pool of threads, which is created
    when first needed and grows on demand. The calling thread works, too. At most ``4 * n_threads + log2(n_blocks) + 1``
    partial results exist at any time.

    Parameters
    ----------
    n_jobs
        Number of threads; None = 1, -1 = one per core that this process may use, -2 = one less, and so on.

    Examples
    --------
    >>> LocalEngine(2).map_reduce(lambda block: float(block), [1, 2, 3])
    6.0
    """

    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if self.n_jobs == 0 or isinstance(self.n_jobs, bool):
            raise InvalidInputError(f"n_jobs must be a number of threads, -1 (all cores) or None, got {self.n_jobs}.")

    @property
    def n_threads(self) -> int:
        """Number of threads that are used, including the calling one."""
        if self.n_jobs is None:
            return 1
        if self.n_jobs < 0:
            from joblib import cpu_count  # type: ignore[import-untyped]  # knows the limits of containers; comes with scikit-learn

            return max(1, int(cpu_count()) + 1 + self.n_jobs)
        return min(self.n_jobs, _MOST_THREADS)

    @property
    def here(self) -> LocalEngine:
        """The engine itself."""
        return self

    def map_reduce(self, function: Callable[..., Value], blocks: Sequence[Item], *args: Any) -> Value:
        """The sum of ``function(block, *args)`` over blocks, in the tree of `partwise.engines.tree.TreeSum`.

        Parameters
        ----------
        function
            Returns new arrays, floats, or tuples or dataclasses of them. The sum is taken in their memory.
        blocks
            At least one.
        args
            Further arguments, the same for all blocks.
        """
        total: TreeSum[Value] = TreeSum(len(blocks))
        self._run(lambda index: total.put(index, function(blocks[index], *args)), len(blocks))
        return total.result()

    def for_each(self, function: Callable[..., object], blocks: Sequence[Item], *args: Any) -> None:
        """Call ``function(block, *args)`` for every block. Blocks write to disjoint parts of shared arrays."""
        self._run(lambda index: function(blocks[index], *args), len(blocks))

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
        """The sum of a function over blocks, and the arrays that it changed and made; see `Engine.map_rows`."""
        made = [np.empty((blocks[-1][1], *kind.shape), dtype=kind.dtype) for kind in makes]
        given: list[Any] = []
        for array in (*reads, *changes):  # a ragged array comes with its row starts
            given += [array.array, array.starts_of(data)] if isinstance(array, Ragged) else [array]
        rows = [Block(data, start, stop, 0) for start, stop in blocks]
        total = self.map_reduce(function, rows, *given, *made, *shared)
        return total, (*(self.place(array, data, blocks) for array in changes), *made)

    def map_columns(
        self, function: Function, arguments: Calls, *arrays: Any, n_made: int, order: Sequence[int] | None = None
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """Call a function for each column, and join the columns that it returns; see `Engine.map_columns`."""
        columns = [np.ascontiguousarray(array.T) for array in arrays]
        made = [np.empty_like(columns[0]) for _ in range(n_made)]
        found: list[Any] = [None] * len(arguments)

        def one(k: int) -> None:
            found[k], *values = function(*arguments[k], *(array[k] for array in columns))
            for array, column in zip(made, values, strict=True):
                array[k] = column

        self.for_each(one, range(len(arguments)) if order is None else order)
        return found, tuple(np.ascontiguousarray(array.T) for array in made)

    def place(self, array: Any, data: Any, blocks: Sequence[tuple[int, int]]) -> Any:
        """The array itself."""
        return array.array if isinstance(array, Ragged) else array

    def fingerprint(self) -> str:
        """The same for every engine: the number of threads never changes a result."""
        return "engine"

    def _run(self, work: Callable[[int], object], n_blocks: int) -> None:
        n_threads = 1 if n_blocks < 2 else min(self.n_threads, n_blocks)
        if n_threads == 1:
            for index in range(n_blocks):
                work(index)
            return
        schedule = _Schedule(work, n_blocks, _AHEAD * n_threads)
        helpers: list[Future[None]] = []
        try:
            pool = _shared_pool()
            # Each thread gets a copy of the caller's context, so that settings such as np.errstate hold there, too.
            helpers = [pool.submit(contextvars.copy_context().run, schedule.work_through) for _ in range(n_threads - 1)]
            schedule.work_through()
        finally:
            # A second Ctrl-C may come in the middle of a block. No thread may write to the arrays after this returns.
            schedule.stop()
            wait([helper for helper in helpers if not helper.cancel()])
        schedule.raise_first_error()


class _Schedule:
    """Hands out blocks in order to threads, and not too far ahead of the first unfinished one."""

    def __init__(self, work: Callable[[int], object], n_blocks: int, window: int) -> None:
        self._work = work
        self._n_blocks = n_blocks
        self._window = window
        self._next = 0
        self._first_unfinished = 0
        self._finished: set[int] = set()
        self._errors: list[tuple[int, BaseException]] = []
        self._changed = threading.Condition(threading.Lock())

    def work_through(self) -> None:
        """Process blocks until none is left."""
        index = self._take(None)
        while index is not None:
            try:
                self._work(index)
            except BaseException as error:
                self._errors.append((index, error))
                self.stop()
                return
            index = self._take(index)

    def stop(self) -> None:
        """Hand out no more blocks."""
        with self._changed:
            self._n_blocks = self._next
            self._changed.notify_all()

    def raise_first_error(self) -> None:
        """Raise the error of the first failed block. All blocks before it were handed out, so it is always the same."""
        if self._errors:
            raise min(self._errors, key=lambda failed: failed[0])[1]

    def _take(self, finished: int | None) -> int | None:
        with self._changed:
            if finished is not None:
                self._finished.add(finished)
                while self._first_unfinished in self._finished:
                    self._finished.remove(self._first_unfinished)
                    self._first_unfinished += 1
                    self._changed.notify_all()
            while self._next < self._n_blocks:
                if self._next < self._first_unfinished + self._window:
                    self._next += 1
                    return self._next - 1
                self._changed.wait()
            return None


def _shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="partwise")
        return _pool


def _forget_pool() -> None:
    """The threads of the pool do not exist in a forked child."""
    global _pool, _pool_lock
    _pool = None
    _pool_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def resolve_engine(engine: Any = None, n_jobs: int | None = None) -> Engine:
    """The engine for an estimator's arguments.

    Parameters
    ----------
    engine
        None or ``"local"``: threads on this machine. ``"dask"``: the current Dask client, or new workers on this
        machine. The address of a Dask scheduler, a ``distributed.Client`` or a cluster such as ``LocalCluster``: its
        workers. Or an engine.
    n_jobs
        Threads of the local engine, or workers that ``"dask"`` starts. Other clusters have their own number of workers.
    """
    if engine is None or engine == "local":
        return LocalEngine(n_jobs)
    if isinstance(engine, Engine) and not isinstance(engine, type):
        return engine
    address = isinstance(engine, str) and (engine == "dask" or "://" in engine)
    if address or hasattr(engine, "scheduler_info") or hasattr(engine, "scheduler_address"):
        from partwise.engines.cluster import dask_engine

        return dask_engine(engine, n_jobs)
    raise InvalidInputError(
        "engine must be None, 'local', 'dask', the address of a Dask scheduler (tcp://...), a Dask client or cluster,"
        f" or an engine, got {engine!r}."
    )


def portable_engine(engine: Any) -> Any:
    """A form of an engine that another process can use.

    Parameters
    ----------
    engine
        The parameter of an estimator.

    Returns
    -------
    engine
        The address of the scheduler for a Dask client, a cluster, or an engine on one; None if only this process can
        reach it. Anything else unchanged.

    Examples
    --------
    >>> portable_engine("dask")
    'dask'
    """
    client = getattr(engine, "client", engine)
    if isinstance(engine, str) or not (hasattr(client, "scheduler_info") or hasattr(client, "scheduler_address")):
        return engine
    address = getattr(client, "scheduler_address", None) or getattr(client.scheduler, "address", None)
    return address if address and not address.startswith("inproc://") else None
