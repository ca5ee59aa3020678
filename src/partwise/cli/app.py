"""The command line as a whole: every module in `partwise.cli.commands` is a command of its name."""

import functools
import inspect
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from importlib import import_module
from typing import Annotated, Any, get_type_hints

import typer

from partwise._version import __version__
from partwise.cli import commands
from partwise.cli.models import RENAMED, option_name
from partwise.cli.options import shown_option
from partwise.cli.output import Outcome, fail, reason, warnings_as_lines

# typer raises these and prints them itself.
_OWN = (typer.Exit, typer.Abort, typer.BadParameter)
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else.")]
_Debug = Annotated[
    bool, typer.Option("--debug", envvar="PARTWISE_DEBUG", show_envvar=True, help="Show the traceback of an error.")
]


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
        # Errors are one sentence. With --debug, Python prints its usual traceback.
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for found in pkgutil.iter_modules(commands.__path__):
        module, name = import_module(f"{commands.__name__}.{found.name}"), found.name.replace("_", "-")
        app.command(name, epilog=_examples(*module.EXAMPLES))(_runnable(module.command, name))
    return app


def _runnable(function: Callable[..., Outcome], name: str) -> Callable[..., Any]:
    """Wrap a command function for typer: it prints its outcome, or fails with one sentence and exit code 1.

    Parameters
    ----------
    function
        The command. A parameter annotated with a dataclass becomes one option per field (see `option`).
    name
        Name of the command.
    """
    hints = get_type_hints(function, include_extras=True)
    bundles: dict[str, Any] = {part: hint for part, hint in hints.items() if part != "return" and is_dataclass(hint)}
    shown: dict[str, tuple[Any, Any]] = {}
    for own, parameter in inspect.signature(function).parameters.items():
        if own in bundles:
            types = get_type_hints(bundles[own])
            for part in fields(bundles[own]):
                shown[part.name] = shown_option(part.name, types[part.name], part)
        elif isinstance(parameter.default, Field):
            shown[own] = shown_option(own, hints[own], parameter.default)
        else:
            shown[own] = hints[own], parameter.default
    shown |= {"as_json": (_Json, False), "debug": (_Debug, False)}

    @functools.wraps(function)
    def run(*, as_json: bool, debug: bool, **values: Any) -> None:
        options = {name: option_name(name) for name in (*values, *RENAMED)}
        try:
            with warnings_as_lines(options):
                given = dict(values)
                for own, bundle in bundles.items():
                    given[own] = bundle(**{part.name: given.pop(part.name) for part in fields(bundle)})
                function(**given).show(name, as_json)
            if sys.stdout is not None:  # closed, as by a service manager
                sys.stdout.flush()
        except _OWN:
            raise
        except BaseException as error:
            if debug:
                raise
            fail(reason(error, options))

    described: Any = run
    described.__annotations__ = {part: annotation for part, (annotation, _) in shown.items()}
    keyword = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    parameters = [keyword(part, default=default, annotation=hint) for part, (hint, default) in shown.items()]
    described.__signature__ = inspect.Signature(parameters)
    return run


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
    # The mark keeps the lines of a paragraph separate.
    return "\n".join(["\b", "Examples:", *(f"  $ {line}" for line in lines)])
