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


if __name__ == "__main__":
    main()
