"""Where a command works: the options ``--engine`` and ``--scheduler``."""

from __future__ import annotations

from typing import Annotated

import typer

EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        autocompletion=lambda: ["local", "dask"],
        help="local: threads. dask: as many workers as --threads, started here, or those of --scheduler.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="Dask scheduler with --engine dask: tcp://HOST:PORT."),
]


def chosen_engine(name: str | None, scheduler: str | None) -> str | None:
    """What estimators take as ``engine``.

    Parameters
    ----------
    name
        Of ``--engine``.
    scheduler
        Of ``--scheduler``.
    """
    if name not in (None, "local", "dask"):
        raise typer.BadParameter(f"{name!r} is not one of local, dask.", param_hint="--engine")
    if scheduler is None:
        return name
    if name != "dask":
        raise typer.BadParameter("it needs --engine dask.", param_hint="--scheduler")
    if "://" not in scheduler:
        raise typer.BadParameter(f"{scheduler!r} is no address such as tcp://HOST:8786.", param_hint="--scheduler")
    return scheduler
