"""Entry point of the command."""

from __future__ import annotations

import contextlib
import signal
import sys

# The exit code of typer where Ctrl-C comes before or after the command itself.
_INTERRUPTED = 130


def main() -> None:
    """Run the command ``partwise`` with the arguments of the process.

    What batch systems and closed terminals send (SIGTERM, SIGHUP) does what Ctrl-C does.
    """
    for name in ("SIGTERM", "SIGHUP"):
        with contextlib.suppress(AttributeError, ValueError, OSError):  # not on every system
            number = getattr(signal, name)
            if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` has it ignored
                signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    # Imported here, so that Ctrl-C meanwhile ends in a sentence too.
    try:
        from partwise.cli.app import build

        build()()
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != _INTERRUPTED:
            raise
        sys.stderr.write("partwise: interrupted.\n")
        sys.exit(1)
    finally:
        _finish_in_peace()


def _finish_in_peace() -> None:
    """Let Python remove temporary files at exit without a signal from outside; a second Ctrl-C still ends it at once.

    Otherwise a late SIGTERM would raise KeyboardInterrupt in code that nobody guards any more.
    """
    # CPython notes an interrupt inside exec("...") (imports build dataclasses so) even if it was caught, and
    # `python -m partwise` then dies of SIGINT in place of its exit code. Another exec clears that note.
    exec("")
    for name, action in {"SIGTERM": signal.SIG_IGN, "SIGHUP": signal.SIG_IGN, "SIGINT": signal.SIG_DFL}.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            signal.signal(getattr(signal, name), action)


if __name__ == "__main__":
    main()
