"""Wait for a cluster, but not for ever: one without workers, or without its scheduler, is an error after a while."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Sequence
from typing import Any

from partwise.errors import EngineError

# Seconds between two looks at the cluster.
_LOOK_EVERY = 1.0


def gathered(client: Any, futures: Sequence[Any], patience: float) -> list[Any]:
    """What some tasks gave.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    futures
        Of the tasks.
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
            # A look takes a message to the scheduler, so results that come soon are waited for without one.
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
    """Threads of all workers.

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
