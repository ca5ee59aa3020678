"""What a person sees while a fit runs: a bar on a terminal, lines in a log, and a note when kernels are compiled."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, cast

from partwise.core.result import Trace

if TYPE_CHECKING:
    from rich.console import Console

COMPILING = "compiling kernels (first run only, cached afterwards)…"

_DELAY = 1.0  # seconds of fitting or compiling that pass without a word
_BAR_EVERY = 0.25
_LINE_EVERY = 10.0

_current: ProgressDisplay | None = None


class ProgressDisplay:
    """The progress of one run on standard error: a live bar on a terminal, otherwise a line every ten seconds.

    A separate thread watches the run, so the loop is not slowed and the clock runs on during a long iteration.

    Parameters
    ----------
    title
        What is being done.
    trace
        What the iterations reached. The run goes on writing to it.
    max_iter
        Length of the bar.
    show
        None: if standard error is a terminal, and then only fits that take longer than a second. True: always. False:
        never. A run inside another that shows its progress shows none.
    console
        Where to show it; None = standard error.
    """

    def __init__(
        self, title: str, trace: Trace, max_iter: int, show: bool | None = None, *, console: Console | None = None
    ) -> None:
        wanted = _stderr_is_terminal() if show is None else show
        self.enabled = wanted and _current is None and not (console is None and sys.stderr is None)
        self._title = title
        self._max_iter = max_iter
        self._forced = bool(show)
        self._trace, self._first = trace, len(trace)
        self._console = console
        self._bar: Any = None
        self._finished = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="partwise-progress", daemon=True)

    def __enter__(self) -> ProgressDisplay:
        global _current
        self._started = time.monotonic()
        if self.enabled:
            _current = self
            if self._console is None:
                from rich.console import Console

                self._console = Console(file=cast(IO[str], _Forgiving(sys.stderr)))
            self._watcher.start()
        return self

    def __exit__(self, *unused: object) -> None:
        global _current
        if not self.enabled:
            return
        self._finished.set()
        self._watcher.join()
        _current = None
        if self._bar is not None or self._forced:
            self._show()
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Write a line without breaking the bar."""
        if self._console is not None:
            self._console.print(text, highlight=False, soft_wrap=True)

    def _watch(self) -> None:
        if self._console is not None and self._console.is_terminal:
            if self._finished.wait(0.0 if self._forced else _DELAY):
                return
            self._start_bar()
        while not self._finished.wait(_LINE_EVERY if self._bar is None else _BAR_EVERY):
            self._show()

    def _start_bar(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}{task.fields[reached]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[rate]}"),
        )
        # What callbacks print goes above the bar, unless it is redirected to a file or another program.
        redirect = sys.stdout is not None and sys.stdout.isatty()
        self._bar = Progress(*columns, console=self._console, auto_refresh=False, redirect_stdout=redirect)
        self._bar.add_task(self._title, total=self._max_iter, reached="", rate="")
        self._bar.start()
        self._show()

    def _show(self) -> None:
        seconds, iteration = time.monotonic() - self._started, len(self._trace)
        done = iteration - self._first
        rate = f"{done / seconds:.3g} it/s" if done and seconds > 0 else ""
        latest = self._trace.latest("objective")
        reached = f", objective {latest[0][1]:.6g}" if latest else ""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=iteration, reached=reached, rate=rate, refresh=True)
        else:
            at = f"iteration {iteration}/{self._max_iter}"
            self.say(f"{self._title}: {at}{reached}, {seconds:.1f} s{', ' if rate else ''}{rate}")


class _Forgiving:
    """A stream that ignores closed terminals and pipes: they must not end the fit."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def compiling_notice(progress: bool | None = None) -> Iterator[None]:
    """Print one line per process when kernels have been compiling for a second inside such contexts.

    The run loop already uses it; wrap kernel calls before or after a run in it, too. It watches the compiler, not the
    clock, so slow data and cached kernels give no false notice.

    Parameters
    ----------
    progress
        False silences it.
    """
    if progress is False or _watch.active:
        yield
        return
    from numba.core import event as numba_event

    event: Any = numba_event
    methods = {"on_start": lambda self, event: _watch.start(), "on_end": lambda self, event: _watch.end()}
    listener = type("CompileListener", (event.Listener,), methods)()
    _watch.active = True
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
        _watch.end()
        _watch.active = False


class _CompileWatch:
    """A clock that runs only while the compiler does, and prints a line after one second. One per process."""

    def __init__(self) -> None:
        self.active = False
        self._depth = 0
        self._seconds = 0.0
        self._began = 0.0
        self._timer: threading.Timer | None = None
        self._unsaid = threading.Semaphore()

    def start(self) -> None:
        """A compilation begins, maybe inside another one. The compiler's own lock keeps other threads out."""
        self._depth += 1
        if self._depth == 1 and self._seconds < _DELAY:
            self._began = time.monotonic()
            self._timer = threading.Timer(_DELAY - self._seconds, self._speak)
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """A compilation ends, or the context does."""
        self._depth = max(0, self._depth - 1)
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._seconds += time.monotonic() - self._began
            if self._seconds >= _DELAY:  # on a busy machine, the timer may not have had its turn
                self._speak()

    def _speak(self) -> None:
        if self._unsaid.acquire(blocking=False):
            say(COMPILING)


_watch = _CompileWatch()


def say(text: str) -> None:
    """Write a line to standard error, above the bar if one is shown."""
    if _current is not None:
        _current.say(text)
    elif sys.stderr is not None:
        print(text, file=cast(IO[str], _Forgiving(sys.stderr)), flush=True)


def _stderr_is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
