"""Entry point of the command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command ``partwise`` with the arguments of the process."""
    # Imported here, so that Ctrl-C meanwhile ends in a sentence too.
    try:
        from partwise.cli.app import build

        build()()
    except KeyboardInterrupt:
        sys.stderr.write("partwise: interrupted.\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
