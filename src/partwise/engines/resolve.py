"""Turn the arguments ``engine`` and ``n_jobs`` of an estimator into an engine."""

from typing import Any

from partwise.engines.base import Engine
from partwise.engines.local import LocalEngine
from partwise.errors import InvalidInputError


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
