"""Results go to standard output, everything else that is said to standard error."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import typer

_warned: ContextVar[list[str]] = ContextVar("warned")


def say(text: str) -> None:
    """A line for the person at the terminal, on standard error."""
    # A terminal that went away must not take the work with it.
    with contextlib.suppress(OSError, ValueError):
        typer.echo(printable(text), err=True)


def show(text: str) -> None:
    """A line of the result, on standard output."""
    typer.echo(printable(text))


def show_cells(*cells: str) -> None:
    """A line of a table on standard output, its cells separated by tabs."""
    typer.echo("\t".join(printable(cell) for cell in cells))


def show_json(content: dict[str, Any]) -> None:
    """The result as one JSON object on standard output, together with the warnings there were."""
    typer.echo(json.dumps(_plain({**content, "warnings": warned()}), indent=2, allow_nan=False))


def warned() -> list[str]:
    """The warnings that were shown so far."""
    return list(_warned.get([]))


def printable(text: str) -> str:
    r"""The text without control characters: labels of a file must not steer the terminal.

    Examples
    --------
    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show Python's warnings as lines on standard error, each once, and remember them for JSON."""
    shown: list[str] = []
    token = _warned.set(shown)

    def show_warning(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        text = " ".join(str(message).split())
        if text not in shown:
            shown.append(text)
            say(f"warning: {text}")

    try:
        with warnings.catch_warnings():
            # Those meant for the user; the rest as the interpreter was told.
            warnings.filterwarnings("always", category=UserWarning)
            warnings.showwarning = show_warning
            yield
    finally:
        _warned.reset(token)


def _plain(value: Any) -> Any:
    """What JSON can hold: a float that is no number is null, arrays are lists, paths text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return _plain(value.tolist())
    return str(value)
