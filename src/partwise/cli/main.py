"""Entry point of the command."""

from __future__ import annotations

import contextlib
import signal
import sys
from types import FrameType

# The exit code of typer when Ctrl-C comes before or after the command itself.
_INTERRUPTED = 130
# The file that Python names in its own import frames.
_IMPORTING = "<frozen importlib._bootstrap>"
_A_MOMENT = 0.02
_interrupts: list[int] = []
"""Signals that have ended what was under way."""


def main() -> None:
    """Run the command ``partwise`` with the arguments of the process.

    SIGTERM and SIGHUP, which batch systems and closed terminals send, do what Ctrl-C does.
    """
    for name in ("SIGTERM", "SIGHUP"):
        with contextlib.suppress(AttributeError, ValueError, OSError):  # not on every system
            number = getattr(signal, name)
            if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` has it ignored
                signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    with contextlib.suppress(ValueError):  # not in the main thread
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt_between_imports)
            sys.unraisablehook = _interrupt_if_ignored
    # Imported here, so that Ctrl-C during the import also ends in one sentence.
    try:
        from partwise.cli.app import build

        build()()
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != _INTERRUPTED:
            raise
        sys.stderr.write("partwise: interrupted.\n")
        sys.exit(1)
    finally:
        try:
            _finish_in_peace()
        except KeyboardInterrupt:  # It came late, or was postponed by an import: all is done or said.
            _finish_in_peace()


def _interrupt_between_imports(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, after the import that is under way, if any.

    Compiled modules do not survive an interrupt of their import: numba prints a traceback and raises ImportError.
    """
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING and _interrupt_soon():
            return
        frame = frame.f_back
    _interrupts.append(number)
    raise KeyboardInterrupt


def _interrupt_if_ignored(lost: sys.UnraisableHookArgs) -> None:
    """Python prints and drops an exception raised while it frees an object. Interrupt again instead.

    An object that an interrupt left half-built, for instance in the compiler, may fail when it is freed: stay silent.
    """
    if isinstance(lost.exc_value, KeyboardInterrupt):
        if _interrupt_soon():
            return
    elif _interrupts:
        return
    sys.__unraisablehook__(lost)


def _interrupt_soon() -> bool:
    """Send SIGINT in a moment, where the system has timers."""
    if not hasattr(signal, "setitimer"):
        return False
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, _A_MOMENT)
    return True


def _finish_in_peace() -> None:
    """Let Python remove temporary files at exit undisturbed by signals; a second Ctrl-C still ends it at once.

    Otherwise a late SIGTERM would raise KeyboardInterrupt where nothing catches it any more.
    """
    # CPython remembers an interrupt inside exec("...") (imports build dataclasses that way) even if it was caught.
    # `python -m partwise` would then die of SIGINT instead of returning its exit code. Another exec clears that.
    exec("")
    actions = {"SIGTERM": signal.SIG_IGN, "SIGHUP": signal.SIG_IGN, "SIGALRM": signal.SIG_IGN, "SIGINT": signal.SIG_DFL}
    for name, action in actions.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            signal.signal(getattr(signal, name), action)


if __name__ == "__main__":
    main()
