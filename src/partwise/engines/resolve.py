"""From the arguments ``engine`` and ``n_jobs`` of an estimator to an engine."""

from typing import Any

from partwise.engines.base import Engine
from partwise.engines.local import LocalEngine
from partwise.errors import InvalidInputError


def resolve_engine(engine: Any = None, n_jobs: int | None = None) -> Engine:
    """The engine that an estimator's arguments ask for.

    Parameters
    ----------
    engine
        None or ``"local"``: threads on this machine. ``"dask"``: the Dask client that is there, or workers that are
        started on this machine. The address of a Dask scheduler, a ``distributed.Client`` or a cluster such as
        ``LocalCluster``: the workers there. Or an engine.
    n_jobs
        Threads of the local engine, or workers that ``"dask"`` starts; otherwise the cluster has its own number.
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
    """What another process can make of an engine.

    Parameters
    ----------
    engine
        The parameter of an estimator.

    Returns
    -------
    engine
        The address of the scheduler for a Dask client, a cluster, or an engine on one; None if only this process can
        reach it. Anything else as it is.

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
