"""What a person sees: results on standard output, everything else on standard error, failures as one sentence."""

import contextlib
import json
import math
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import typer

from partwise.errors import PartwiseError

_warned: ContextVar[list[str]] = ContextVar("warned")


def say(text: str) -> None:
    """Print a line for the user, on standard error."""
    # A closed terminal must not end the work.
    with contextlib.suppress(OSError, ValueError):
        typer.echo(printable(text), err=True)


@dataclass(frozen=True)
class Outcome:
    """The result of a command.

    Parameters
    ----------
    facts
        The result, for JSON.
    lines
        The result for people. Tuples are rows of a table: aligned in a terminal, otherwise separated by tabs.
    written
        Files that were written.
    advice
        What to do next, printed on standard error and left out of JSON.
    failure
        Why the command exits with 1 although it has a result.
    """

    facts: dict[str, Any]
    lines: Iterable[str | tuple[str, ...]] = ()
    written: Iterable[Path | None] = ()
    advice: Iterable[str] = ()
    failure: str = ""

    def show(self, command: str, as_json: bool) -> None:
        """Print it: as lines, or as one JSON object that includes the warnings."""
        if as_json:
            content = {"command": command, **self.facts, "warnings": _warned.get([])}
            typer.echo(json.dumps(_plain(content), indent=2, allow_nan=False))
        else:
            lines = [line if isinstance(line, str) else tuple(map(printable, line)) for line in self.lines]
            if sys.stdout is not None and sys.stdout.isatty() and all(isinstance(line, tuple) for line in lines):
                lines = list(aligned(lines))
            for line in (*lines, *(f"wrote {path}" for path in self.written if path is not None)):
                typer.echo(printable(line) if isinstance(line, str) else "\t".join(line))
            for line in self.advice:
                say(line)
        if self.failure:
            fail(self.failure)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of a table as lines, with the columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def printable(text: str) -> str:
    r"""The text without control characters: labels in a file must not control the terminal.

    Examples
    --------
    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    spelled = (one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
    return "".join(spelled)


@contextlib.contextmanager
def warnings_as_lines(options: Mapping[str, str]) -> Iterator[None]:
    """Show Python's warnings as lines on standard error, each once and in options, and remember them for JSON."""
    shown: list[str] = []
    token = _warned.set(shown)

    def show_warning(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        text = in_options(" ".join(str(message).split()), options)
        if text not in shown:
            shown.append(text)
            say(f"warning: {text}")

    try:
        with warnings.catch_warnings():
            # Warnings meant for the user; the others are shown as the interpreter was told.
            warnings.filterwarnings("always", category=UserWarning)
            warnings.showwarning = show_warning
            yield
    finally:
        _warned.reset(token)


def _plain(value: Any) -> Any:
    """Convert a value for JSON: NaN and infinity become null, arrays lists, and paths text."""
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


def reason(error: BaseException, options: Mapping[str, str]) -> str:
    """The message for an error; none if the reader of our output has gone."""
    if isinstance(error, BrokenPipeError):
        _reader_left()
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; no file was left half-written."
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; use a machine with more, or fewer parts or samples."
    if isinstance(error, PartwiseError | OSError | ValueError):
        return in_options(_sentence(error), options)
    if isinstance(error, Exception):
        return f"{type(error).__name__}: {_sentence(error)} (unexpected: run again with --debug and report it)"
    raise error


def refuse_if(wrong: object, option: str, why: str) -> None:
    """Refuse the command line if an option is wrong, with a sentence on why and what to do."""
    if wrong:
        raise typer.BadParameter(why, param_hint=option)


def fail(sentence: str) -> NoReturn:
    """End the command with exit code 1 and a sentence on standard error."""
    say(f"partwise: {sentence}")
    raise typer.Exit(1)


def in_options(sentence: str, options: Mapping[str, str]) -> str:
    """Translate a message about Python arguments into options of the command.

    Parameters
    ----------
    sentence
        Such as "pass duplicates='sum'".
    options
        Arguments and their options; only these are translated.

    Examples
    --------
    >>> in_options("add them up with duplicates='sum'.", {"duplicates": "--duplicates"})
    'add them up with --duplicates sum.'
    """
    for name, option in options.items():
        sentence = re.sub(rf"\b{name}=True\b", option, sentence)
        for found in list(re.finditer(rf"\b{name}=(?:(\d+)\b|'(.*?)'|\"(.*?)\")", sentence))[::-1]:
            value = shlex.quote(found[found.lastindex or 0])  # ; and | mean something to a shell
            sentence = f"{sentence[: found.start()]}{option} {value}{sentence[found.end() :]}"
        sentence = re.sub(rf"\b{name}=(?=[\s.,;:)]|$)", option, sentence)
    if "settings" in options:  # everything else that a model can be told
        sentence = re.sub(r"\b([a-z_]+)=(['\"])([\w-]+)\2", r"--set \1=\3", sentence)
    return re.sub(r"\b(header|index)=False\b", r"--no-\1", sentence) if "index" in options else sentence


def _sentence(error: BaseException) -> str:
    """The message in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return printable(f"{os.fsdecode(error.filename)}: {error.strerror}.")
    return printable(" ".join(str(error).split()) or type(error).__name__)


def _reader_left() -> NoReturn:
    """The reader of our output (``| head``) has gone, so there is nothing to print."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(1)
