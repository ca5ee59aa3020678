"""The command line as a whole: every module in `partwise.cli.commands` is a command of its name."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Annotated

import typer

from partwise._version import __version__
from partwise.cli import commands
from partwise.cli.options import unbundled
from partwise.cli.output import guarded


def build() -> typer.Typer:
    """The application, with all commands."""
    app = typer.Typer(
        name="partwise",
        help="Find the parts that counts and yes/no tables are made of.",
        epilog=_examples("partwise demo", "partwise fit counts.npz -o topics.partwise --components 10 --seed 1")
        + "\n\n`partwise COMMAND --help` has more. Exit codes: 0 done, 1 failed, 2 wrong usage.",
        no_args_is_help=True,
        # Plain help: boxes cut the names of options short in narrow terminals, and are slow.
        rich_markup_mode=None,
        # Errors are one sentence; with --debug, Python's own traceback.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for found in pkgutil.iter_modules(commands.__path__):
        module, name = import_module(f"{commands.__name__}.{found.name}"), found.name.replace("_", "-")
        app.command(name, epilog=_examples(*module.EXAMPLES))(guarded(unbundled(module.command), name))
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"partwise {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def _examples(*lines: str) -> str:
    # The mark keeps the lines of a paragraph apart.
    return "\n".join(["\b", "Examples:", *(f"  $ {line}" for line in lines)])
