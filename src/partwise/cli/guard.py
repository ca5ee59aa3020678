"""What a person sees when something goes wrong: one sentence on standard error, and an exit code."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NoReturn

import typer

from partwise.cli.output import printable, say, warnings_as_lines
from partwise.cli.parameters import with_signature
from partwise.errors import PartwiseError

DEBUG_VARIABLE = "PARTWISE_DEBUG"
# Raised by the command line itself; it knows how to show them.
_OWN = (typer.Exit, typer.Abort, typer.BadParameter)

_Debug = Annotated[
    bool, typer.Option("--debug", envvar=DEBUG_VARIABLE, show_envvar=True, help="Show the traceback of an error.")
]


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command that fails with a sentence and exit code 1, and has the option ``--debug`` to show more.

    Parameters
    ----------
    function
        The command, with a signature that the command line understands.
    """
    parameters = list(inspect.signature(function).parameters.values())
    debug = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Debug)

    @functools.wraps(function)
    def with_guard(*, debug: bool, **values: Any) -> None:
        if debug:
            with warnings_as_lines():
                function(**values)
            return
        try:
            with warnings_as_lines():
                function(**values)
            sys.stdout.flush()
        except _OWN:
            raise
        except BrokenPipeError:
            _reader_left()
        except KeyboardInterrupt:
            fail("interrupted; no file was left half-written.")
        except MemoryError:
            fail("there is not enough memory for this; use a machine with more, or fewer components or samples.")
        except (PartwiseError, OSError, ValueError) as error:
            fail(in_options(_sentence(error), {name: "--" + name.replace("_", "-") for name in values}))
        except Exception as error:
            fail(f"{type(error).__name__}: {_sentence(error)} (this should not happen: --debug shows where it did)")

    return with_signature(with_guard, [*parameters, debug])


def fail(sentence: str) -> NoReturn:
    """End the command with exit code 1 and a sentence on standard error."""
    say(f"partwise: {sentence}")
    raise typer.Exit(1)


def in_options(sentence: str, options: Mapping[str, str]) -> str:
    """A message that speaks of Python arguments, in the words of the command.

    Parameters
    ----------
    sentence
        Such as "pass duplicates='sum'".
    options
        Arguments, and the options that stand for them; only those are translated.

    Examples
    --------
    >>> in_options("add them up with duplicates='sum'.", {"duplicates": "--duplicates"})
    'add them up with --duplicates sum.'
    """
    for name, option in options.items():
        sentence = re.sub(rf"\b{name}=True\b", option, sentence)
        sentence = re.sub(rf"\b{name}=(['\"])(.*?)\1", rf"{option} \2", sentence)
        sentence = re.sub(rf"\b{name}=(?=[\s.,;:)]|$)", option, sentence)
    if "settings" in options:  # what else a model can be told
        sentence = re.sub(r"\b([a-z_]+)=(['\"])([\w-]+)\2", r"--set \1=\3", sentence)
    return sentence


def _sentence(error: BaseException) -> str:
    """The message in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return printable(f"{os.fsdecode(error.filename)}: {error.strerror}.")
    text = " ".join(str(error).split())
    return printable(text or type(error).__name__)


def _reader_left() -> NoReturn:
    """Whoever read our output (``| head``) has gone: nothing to tell, and nobody to tell it to."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(1)
