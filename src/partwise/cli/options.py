"""Options that several commands share, alone or in bundles that a command takes as one argument."""

import copy
import inspect
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from partwise.cli.output import refuse_if

Seed = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="Seed of random numbers: same seed, same result.")
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `partwise fit` wrote.")]
ImageShape = Annotated[
    str | None, typer.Option("--image-shape", metavar="HxW", help="Height and width, where features are pixels: 28x28.")
]
Reference = Annotated[
    Path | None,
    typer.Option(
        "--reference",
        metavar="FILE",
        help="Known parts (features x parts, or a model): name the one that each part is most like.",
    ),
]
DataFile = Annotated[Path, typer.Argument(metavar="DATA", help="Samples x features: any format that partwise reads.")]

OnlyRows = Annotated[
    list[str] | None,
    typer.Option("--row", metavar="NAME", help="Only this row: its name, or its number from 0 (repeatable)."),
]

Batch = Annotated[
    Path | None,
    typer.Option(
        "--batch",
        metavar="COLUMN|FILE",
        help="The batch of each sample: an obs column of DATA, or a table (.csv, .tsv) of samples and their batches.",
    ),
]


def _check_threads(threads: int) -> int:
    if threads < 1 and threads != -1:
        raise typer.BadParameter(f"{threads} is neither a number of threads nor -1 for all cores.")
    return threads


_METAVARS = {Path: "FILE", int: "N", float: "X", str: "NAME"}


def option(help: str, default: Any = None, *names: str, **more: Any) -> Any:
    """A field of a bundle, or the default of a parameter, that the command line shows as an option.

    Parameters
    ----------
    help
        What the option does.
    default
        Its value where it is not given; ``...`` where it must be.
    names
        Defaults to the name of the field or parameter: ``--row-labels`` for ``row_labels``.
    more
        Arguments of `typer.Option`. By default, ``metavar`` depends on the type.
    """
    return field(default=default, metadata={"option": typer.Option(*names, help=help, **more)})


def to_write(help: str, metavar: str | None = None, default: Any = None) -> Any:
    """The option ``--output``, or ``-o``."""
    return option(help, default, "--output", "-o", metavar=metavar)


def shown_option(name: str, hint: Any, declared: Field[Any]) -> tuple[Any, Any]:
    """The annotation and the default for typer, from a declaration made by `option`."""
    shown = copy.copy(declared.metadata["option"])
    if shown.default is ...:  # typer keeps the first name here until it sees the annotation
        shown.param_decls = (f"--{name.replace('_', '-')}",)
    if shown.metavar is None:
        shown.metavar = next((_METAVARS[kind] for kind in (hint, *get_args(hint)) if kind in _METAVARS), None)
    return Annotated[hint, shown], inspect.Parameter.empty if declared.default is ... else declared.default


def threads_option() -> Any:
    """How many threads a command uses."""
    told = "Threads; the result is the same for any number. -1: all cores."
    return option(told, 1, metavar="N", callback=_check_threads)


@dataclass(frozen=True)
class RunArguments:
    """How a command runs; none of this changes its result."""

    threads: int = threads_option()
    progress: bool | None = option(
        "Show progress; by default only in a terminal.", None, "--progress/--no-progress", show_default=False
    )

    def opened(self, path: Path) -> Any:
        """A fitted model that runs as these options say."""
        from partwise.contract.model_file import load

        return load(path).set_params(n_jobs=self.threads, progress=self.progress)


@dataclass(frozen=True)
class EngineArguments:
    """Where a command runs: on this machine or on workers."""

    engine: str | None = option(
        "local: threads. dask: as many workers as --threads, started here, or those of --scheduler.",
        autocompletion=lambda: ["local", "dask"],
    )
    scheduler: str | None = option("Dask scheduler with --engine dask: tcp://HOST:PORT.", metavar="ADDRESS")

    def chosen(self) -> str | None:
        """The ``engine`` argument of estimators."""
        name, scheduler = self.engine, self.scheduler
        refuse_if(name not in (None, "local", "dask"), "--engine", f"{name!r} is not one of local, dask.")
        if scheduler is None:
            return name
        refuse_if(name != "dask", "--scheduler", "it needs --engine dask.")
        refuse_if("://" not in scheduler, "--scheduler", f"{scheduler!r} is not an address such as tcp://HOST:8786.")
        return scheduler
