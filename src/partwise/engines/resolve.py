"""From the arguments ``engine`` and ``n_jobs`` of an estimator to an engine."""

from __future__ import annotations

from partwise.engines.base import Engine
from partwise.engines.local import LocalEngine
from partwise.errors import InvalidInputError


def resolve_engine(engine: Engine | str | None = None, n_jobs: int | None = None) -> Engine:
    """The engine that an estimator's arguments ask for.

    Parameters
    ----------
    engine
        An engine, or None or ``"local"`` for threads on this machine.
    n_jobs
        Threads of the local engine; an engine that is given has its own number of workers.
    """
    if engine is None or engine == "local":
        return LocalEngine(n_jobs)
    if isinstance(engine, Engine) and not isinstance(engine, type):
        return engine
    raise InvalidInputError(f"engine must be None, 'local' or an engine, got {engine!r}.")
