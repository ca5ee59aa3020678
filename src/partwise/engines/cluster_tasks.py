"""Tasks on a Dask cluster: sending them, waiting for what they return, and what it means if the cluster is lost."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

from partwise.engines import worker_tasks as tasks
from partwise.engines.sum_messages import summed
from partwise.engines.waiting import gathered
from partwise.errors import EngineError

# Terms that one task adds: a power of two, so that it adds a branch of the tree.
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
        """Give up what was kept for the cluster, which is lost."""

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        """A task."""
        return self.submit_each(function, [args])[0]

    def submit_each(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """A task for each of some lists of arguments, sent all at once."""
        import dask

        name = f"{function.__name__}-{uuid.uuid4().hex}"
        keys = [f"{name}-{number}" for number in range(len(arguments))]
        # Arrays are sent with the tasks that give them to the others: these can be run again, messages cannot.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return list(self.client.map(function, *zip(*arguments, strict=True), key=keys, pure=False))

    def result(self, future: Any) -> Any:
        """What a task returned."""
        return self.results([future])[0]

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """What some tasks gave; an error of a worker is raised here as what it is."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            return gathered(self.client, list(futures), self.patience)
        except KilledWorker as error:
            self.close()
            raise EngineError(
                "workers died again and again on the same rows, most often because they ran out of memory: give them"
                " more, or start fewer workers; the last checkpoint is whole."
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

    def _submit_several(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], n_results: int
    ) -> list[list[Any]]:
        """Tasks that return tuples: futures of all first items, of all second ones, and so on."""
        tuples = self.submit_each(function, arguments)
        return [self.submit_each(tasks.item, [(future, at) for future in tuples]) for at in range(n_results)]

    def _summed(self, terms: list[Any]) -> Any:
        while len(terms) > 1:
            branches = [(terms[at : at + _BRANCH],) for at in range(0, len(terms), _BRANCH)]
            terms = self.submit_each(summed, branches)
        return terms[0]
