"""Turn the user's description of a cluster into an engine."""

import atexit
import contextlib
import threading
from collections.abc import Sequence
from typing import Any

from partwise.engines.dask import DaskEngine
from partwise.engines.local import LocalEngine
from partwise.errors import EngineError
from partwise.io.optional import require

# Dask gives up a task after it has killed this many workers. A fit survives many kills, and still ends if a
# block does not fit into memory.
_ALLOWED_FAILURES = 10
_CONNECT_SECONDS = 20

_lock = threading.Lock()
_engines: dict[Any, DaskEngine] = {}


def dask_engine(cluster: Any, n_jobs: int | None = None) -> DaskEngine:
    """The engine for a cluster.

    Parameters
    ----------
    cluster
        ``"dask"``: the current client or, without one, new workers on this machine; the address of a scheduler, such as
        ``"tcp://host:8786"``; a ``distributed.Client``; or a cluster, such as ``LocalCluster``.
    n_jobs
        Number of workers to start for ``"dask"``, counted like the threads of `LocalEngine`; None = one per core.
    """
    distributed = require("distributed", "dask", "engine='dask'")
    with _lock:
        for name in [name for name, engine in _engines.items() if engine.client.status != "running" or engine.closed]:
            _engines.pop(name).close()
        if isinstance(cluster, distributed.Client):
            client = cluster
            if client.status != "running":
                raise EngineError(f"the Dask client that engine names is {client.status}: connect a new one.")
        elif cluster == "dask":
            client = _current_client(distributed) or _started(distributed, n_jobs)
        else:
            client = _connected(distributed, cluster)
        return _engines.setdefault(client.id, DaskEngine(client) if client.id not in _engines else _engines[client.id])


def abandon(client: Any, futures: Sequence[Any]) -> None:
    """Release tasks on a cluster; a cluster that is gone has nothing to release.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    futures
        Futures of the tasks.
    """
    if client.status == "running":
        with contextlib.suppress(OSError, RuntimeError):
            client.cancel(list(futures))


def _current_client(distributed: Any) -> Any:
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _started(distributed: Any, n_jobs: int | None) -> Any:
    """Workers with one thread each on this machine. They end with this process."""
    import dask

    n_workers = LocalEngine(-1 if n_jobs is None else n_jobs).n_threads
    with dask.config.set({"distributed.scheduler.allowed-failures": _ALLOWED_FAILURES}):
        cluster = distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0")
    client = distributed.Client(cluster)
    atexit.register(_closed, client, cluster)
    return client


def _connected(distributed: Any, cluster: Any) -> Any:
    """A client for a running cluster; the same client for the same address."""
    address = cluster if isinstance(cluster, str) else cluster.scheduler_address
    for engine in _engines.values():
        if engine.client.scheduler is not None and engine.client.scheduler.address == address:
            return engine.client
    try:
        client = distributed.Client(cluster, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        told = f"no Dask scheduler answers at {address} ({error})"
        raise EngineError(f"{told}: check the address, and that the scheduler runs.") from error
    atexit.register(_closed, client, None)
    return client


def _closed(client: Any, cluster: Any) -> None:
    client.close()
    if cluster is not None:
        cluster.close()
