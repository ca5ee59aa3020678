"""Ctrl-C that waits for the end of an iteration, so that the state it leaves is whole."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

_NOTICE = b"\nstopping after this iteration; press Ctrl-C again to stop at once and lose the fit\n"


class DeferredInterrupt:
    """Context in which the first Ctrl-C only sets `requested`, and a second one raises ``KeyboardInterrupt`` at once.

    A step may reuse the arrays of the state, so an exception in its middle would leave half of an update. Outside the
    main thread, and where SIGINT is ignored or left to the system, nothing is installed. Where runs nest, the request
    reaches all of them. The handler that was there before is always put back.

    Parameters
    ----------
    notice
        Whether the first Ctrl-C writes a line on standard error.
    """

    _active: list[DeferredInterrupt] = []  # noqa: RUF012 - one process has one SIGINT

    def __init__(self, *, notice: bool) -> None:
        self.requested = False
        self.outermost = True
        self._notice = notice
        self._previous: signal._HANDLER = None

    def __enter__(self) -> DeferredInterrupt:
        if threading.current_thread() is not threading.main_thread():
            return self
        previous = signal.getsignal(signal.SIGINT)
        if callable(previous):
            self.outermost = not self._active
            self._previous = previous
            self._active.append(self)
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *unused: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._active.remove(self)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        for run in self._active:
            run.requested = True
        if self._notice and sys.stderr is not None and sys.stderr.isatty():
            # Not through sys.stderr: the signal may have come in the middle of a write to it.
            os.write(sys.stderr.fileno(), _NOTICE)
