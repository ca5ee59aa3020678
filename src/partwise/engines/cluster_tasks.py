"""Send tasks to a Dask cluster, wait for their results, and handle the loss of the cluster.

Data and pieces of arrays are written to a folder that this process and all workers can see. Waiting has a limit: a
cluster without workers, or without its scheduler, is an error after a while.
"""

import asyncio
import concurrent.futures
import operator
import shutil
import tempfile
import time
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from partwise.core.data import SparseData
from partwise.engines import worker_tasks as tasks
from partwise.engines.base import Calls, Function
from partwise.engines.tree import summed
from partwise.errors import EngineError
from partwise.io.atomic import FilePath, sweep, temporary_name
from partwise.storage.csr_folder import MappedCounts
from partwise.storage.writing import write_data

# Seconds between two checks of the cluster.
_LOOK_EVERY = 1.0


def gathered(client: Any, futures: Sequence[Any], patience: float) -> list[Any]:
    """The results of some tasks.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    futures
        Futures of the tasks.
    patience
        Seconds without any worker after which to give up.

    Raises
    ------
    EngineError
        No worker was left for that long.
    """

    async def gather() -> list[Any]:
        return list(await client.gather(list(futures), asynchronous=True))

    waiting = asyncio.run_coroutine_threadsafe(gather(), client.loop.asyncio_loop)
    alone_since: float | None = None
    try:
        while True:
            # A check sends a message to the scheduler, so wait for quick results without one.
            done, _ = concurrent.futures.wait([waiting], timeout=min(_LOOK_EVERY, patience))
            if done:
                return waiting.result()
            if _has_workers(client):
                alone_since = None
            elif alone_since is None:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since >= patience:
                raise EngineError(
                    f"the Dask cluster has had no worker for {patience:g} seconds: start workers, and resume from the"
                    " last checkpoint."
                )
    finally:
        waiting.cancel()


def n_threads(client: Any) -> int:
    """Number of threads of all workers.

    Raises
    ------
    EngineError
        The scheduler does not answer.
    """
    try:
        return sum(client.nthreads().values())
    except (OSError, RuntimeError) as error:
        raise EngineError(
            f"the Dask scheduler does not answer ({error}): start it again, and resume from the last checkpoint."
        ) from error


def _has_workers(client: Any) -> bool:
    """Whether the client is connected to a scheduler that has workers."""
    try:
        return client.status == "running" and bool(client.scheduler_info()["workers"])
    except (OSError, RuntimeError):
        return False


class SharedFolder:
    """A new folder that is removed at the end.

    Parameters
    ----------
    parent
        Where it is made; None = the temporary folder, which works if everything runs on one machine.
    """

    def __init__(self, parent: FilePath | None) -> None:
        within = Path(tempfile.gettempdir() if parent is None else parent).absolute()
        self.path = within / temporary_name()
        self._data: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        try:
            within.mkdir(parents=True, exist_ok=True)
            sweep(within)
            self.path.mkdir(mode=0o700)
        except OSError as error:
            raise EngineError(f"cannot write to the folder {within} ({error}); give another one.") from error
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def new_paths(self, number: int) -> list[Path]:
        """Names of files that do not exist yet."""
        name = uuid.uuid4().hex
        return [self.path / f"{name}-{at}.npy" for at in range(number)]

    def address_of(self, data: Any) -> tasks.DataAddress:
        """Where workers find the data (written on first use), and what they derived from the data."""
        if isinstance(data, MappedCounts):
            return str(data.folder.absolute()), data.checksum, None
        if isinstance(data, SparseData):
            data = data.unweighted
        if data not in self._data:
            folder = self.path / f"data-{uuid.uuid4().hex}"
            matrix: SparseData = data if isinstance(data, SparseData) else data.matrix
            try:
                write_data(matrix, folder)
            except OSError as error:
                raise EngineError(f"the data could not be written for workers ({error}): free some space.") from error
            self._data[data] = str(folder)
            weakref.finalize(data, shutil.rmtree, folder, ignore_errors=True)
        return self._data[data], "", None if isinstance(data, SparseData) else type(data).of

    def check(self, client: Any) -> None:
        """Raise ``EngineError`` unless all workers can see the folder."""
        probe = self.path / "probe"
        probe.touch()
        seen = client.run(tasks.can_read, str(probe))
        if not seen:
            raise EngineError("the Dask cluster has no workers: start some first.")
        blind = [worker for worker, sees in seen.items() if not sees]
        if blind:
            raise EngineError(
                f"the worker {blind[0]} does not see the folder {self.path}: give DaskEngine a folder that all share."
            )


# Number of terms that one task adds: a power of two, so that it adds a whole branch of the tree.
_BRANCH = 8


class ClusterTasks(ABC):
    """Sends tasks to a cluster, and waits for them.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    patience
        Seconds without any worker, or without the scheduler, after which to give up.
    """

    def __init__(self, client: Any, patience: float) -> None:
        self.client = client
        self.patience = patience

    @abstractmethod
    def close(self) -> None:
        """Drop everything that was kept for a cluster that is lost."""

    def submit(self, function: Function, *args: Any) -> Any:
        """Send one task."""
        return self.submit_each(function, [args])[0]

    def submit_each(self, function: Function, arguments: Calls) -> list[Any]:
        """Send one task per list of arguments, all at once."""
        import dask

        name = f"{function.__name__}-{uuid.uuid4().hex}"
        keys = [f"{name}-{number}" for number in range(len(arguments))]
        # Arrays are sent as tasks that pass them on: a task can be run again, a message cannot.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return list(self.client.map(function, *zip(*arguments, strict=True), key=keys, pure=False))

    def result(self, future: Any) -> Any:
        """The result of one task."""
        return self.results([future])[0]

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """The results of some tasks; an error on a worker is raised here unchanged."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            return gathered(self.client, list(futures), self.patience)
        except KilledWorker as error:
            self.close()
            raise EngineError(
                "workers died again and again on the same rows, most often because they ran out of memory: give them"
                " more, or start fewer workers; the last checkpoint is intact."
            ) from error
        except (CancelledError, CommClosedError) as error:
            self.close()
            raise EngineError(
                "the Dask cluster has lost this fit, because its scheduler was closed or restarted: start it again,"
                " and resume from the last checkpoint."
            ) from error
        except EngineError:
            self.close()
            raise

    def _submit_several(self, function: Function, arguments: Calls, n_results: int) -> list[list[Any]]:
        """Tasks that return tuples: futures of all first items, of all second items, and so on."""
        tuples = self.submit_each(function, arguments)
        return [self.submit_each(operator.getitem, [(future, at) for future in tuples]) for at in range(n_results)]

    def _summed(self, terms: list[Any]) -> Any:
        while len(terms) > 1:
            terms = self.submit_each(summed, [(terms[at : at + _BRANCH],) for at in range(0, len(terms), _BRANCH)])
        return terms[0]
