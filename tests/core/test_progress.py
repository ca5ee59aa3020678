"""Progress on a terminal, in a log, and nowhere."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from rich.console import Console
from toys import TwoHalves, environment

from partwise.core import progress
from partwise.core.keys import Key
from partwise.core.progress import COMPILING, ProgressDisplay, compiling_notice
from partwise.core.result import Trace
from partwise.core.run import run


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(progress, "_DELAY", 0.1)
    monkeypatch.setattr(progress, "_BAR_EVERY", 0.02)
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.05)
    monkeypatch.setattr(progress, "_watch", progress._CompileWatch())
    yield
    assert progress._current is None
    assert not [thread for thread in threading.enumerate() if thread.name == "partwise-progress"]


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=terminal, width=100, legacy_windows=False, _environ={}), text


def iterate(trace: Trace, n_iterations: int) -> None:
    for iteration in range(len(trace) + 1, len(trace) + n_iterations + 1):
        trace.append(iteration, 0.1, {"objective": -1234.5 / iteration})


def plain(text: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.getvalue())


def test_a_bar_on_a_terminal_shows_iteration_objective_elapsed_and_rate() -> None:
    where, text = console(terminal=True)
    with ProgressDisplay("fitting parts", trace := Trace(), 40, True, console=where):
        time.sleep(0.1)
        iterate(trace, 10)
        time.sleep(0.1)
    last = plain(text).splitlines()[-1]
    assert "fitting parts" in last
    assert "10/40, objective -123.45" in last
    assert re.search(r"\d:\d\d:\d\d", last)
    assert re.search(r"[\d.]+ it/s", last)


def test_the_rate_counts_this_run_only() -> None:
    where, text = console(terminal=False)
    iterate(trace := Trace(), 1000)
    with ProgressDisplay("fitting", trace, 2000, True, console=where):
        time.sleep(0.02)
        iterate(trace, 1)
    assert "iteration 1001/2000" in text.getvalue()
    rate = float(re.search(r"([\d.e+]+) it/s", text.getvalue()).group(1))  # type: ignore[union-attr]
    assert rate < 60


def test_lines_where_there_is_no_terminal() -> None:
    where, text = console(terminal=False)
    with ProgressDisplay("fitting", trace := Trace(), 30, True, console=where):
        for _ in range(3):
            iterate(trace, 1)
            time.sleep(0.06)
    lines = text.getvalue().splitlines()
    assert len(lines) >= 2
    assert re.fullmatch(r"fitting: iteration 3/30, objective -411\.5, \d\.\d s, [\d.]+ it/s", lines[-1])
    assert "\x1b" not in text.getvalue()


def test_a_long_first_iteration_has_a_running_clock() -> None:
    where, text = console(terminal=True)
    with ProgressDisplay("fitting", Trace(), 5, True, console=where):
        time.sleep(0.2)
        assert "0/5" in plain(text)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_fit_that_is_forced_is_shown_however_quick(terminal: bool) -> None:
    where, text = console(terminal=terminal)
    with ProgressDisplay("fitting", trace := Trace(), 5, True, console=where):
        iterate(trace, 5)
    assert "5/5" in plain(text)


def test_a_quick_fit_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_stderr_is_terminal", lambda: True)
    monkeypatch.setattr(progress, "_DELAY", 5.0)
    where, text = console(terminal=True)
    with ProgressDisplay("fitting", trace := Trace(), 5, console=where) as display:
        assert display.enabled
        iterate(trace, 5)
    assert text.getvalue() == ""
    monkeypatch.setattr(progress, "_DELAY", 0.05)
    with ProgressDisplay("fitting", Trace(), 5, console=where):
        time.sleep(0.3)
    assert "fitting" in text.getvalue()


def test_silence() -> None:
    where, text = console(terminal=True)
    with ProgressDisplay("fitting", trace := Trace(), 5, False, console=where):
        time.sleep(0.15)
        iterate(trace, 5)
    assert text.getvalue() == ""


def test_a_run_inside_another_shows_nothing_of_its_own() -> None:
    outer, outer_text = console(terminal=False)
    inner, inner_text = console(terminal=False)
    with ProgressDisplay("outer", Trace(), 5, True, console=outer):
        with ProgressDisplay("inner", Trace(), 5, True, console=inner) as display:
            assert not display.enabled
            time.sleep(0.1)
        assert progress._current is not None
    assert "outer" in outer_text.getvalue()
    assert inner_text.getvalue() == ""


class BrokenPipe(io.StringIO):
    """Standard error whose other end is gone."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal
        self.tried = 0

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        self.tried += 1
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_that_went_away_does_not_end_the_fit(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = BrokenPipe(terminal)
    monkeypatch.setattr(sys, "stderr", gone)
    monkeypatch.setenv("TERM", "xterm")
    result = run(TwoHalves(between=lambda iteration: time.sleep(0.05)), None, key=Key(0), max_iter=3, progress=True)
    assert result.n_iter == 3
    assert gone.tried > 0
    assert sys.stderr is gone


def test_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under pythonw or a service."""
    monkeypatch.setattr(sys, "stderr", None)
    for progress_wanted in (None, True):
        assert run(TwoHalves(), None, key=Key(0), max_iter=3, progress=progress_wanted).n_iter == 3


def test_a_run_says_what_it_does_if_asked(capfd: pytest.CaptureFixture[str]) -> None:
    run(TwoHalves(), None, key=Key(0), max_iter=3, progress=True, description="trying")
    captured = capfd.readouterr()
    assert "trying: iteration 3/3, objective -0.333333" in captured.err
    assert captured.out == ""
    for quiet in (None, False):
        run(TwoHalves(between=lambda iteration: time.sleep(0.1)), None, key=Key(0), max_iter=3, progress=quiet)
        assert capfd.readouterr() == ("", "")


PROGRAM = """
import time
from toys import TwoHalves
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.core import progress
progress._DELAY = 0.1
run(TwoHalves(between=lambda iteration: time.sleep(0.1)), None, key=Key(0), max_iter=4)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of POSIX systems")
@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_only_if_standard_error_is_a_terminal(terminal: bool) -> None:
    ours, theirs = os.openpty() if terminal else os.pipe()
    with subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment(TERM="xterm"), stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:
            pass  # how a pseudo-terminal says that the other end is closed
        assert process.wait() == 0
    os.close(ours)
    if terminal:
        assert b"fitting" in shown
        assert b"4/4, objective -0.25" in shown
    else:
        assert shown == b""


def compile_something() -> None:
    import numba

    numba.njit(lambda x: x + 1)(1)


def test_compiling_is_announced_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    compile_something()
    monkeypatch.setattr(progress, "_DELAY", 1e-4)
    with compiling_notice(), compiling_notice():
        for _ in range(3):
            compile_something()
    assert capsys.readouterr() == ("", COMPILING + "\n")
    with compiling_notice():  # a later call in the same process
        compile_something()
    assert capsys.readouterr() == ("", "")


def test_a_run_announces_compiling(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_DELAY", 1e-4)
    run(TwoHalves(between=lambda iteration: compile_something()), None, key=Key(0), max_iter=2)
    assert capsys.readouterr().err == COMPILING + "\n"
    run(TwoHalves(between=lambda iteration: compile_something()), None, key=Key(0), max_iter=2, progress=False)
    assert capsys.readouterr().err == ""


def test_neither_quick_compiling_nor_slow_work_is_announced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba.core import event

    monkeypatch.setattr(progress, "_DELAY", 0.5)
    with compiling_notice():
        with event.trigger_event("numba:compile"):
            time.sleep(0.01)
        time.sleep(0.6)
    assert capsys.readouterr().err == ""


def test_many_quick_compilations_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    from numba.core import event

    with compiling_notice():
        for _ in range(4):
            with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
                time.sleep(0.04)
    assert capsys.readouterr().err == COMPILING + "\n"


def test_the_notice_goes_above_the_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_DELAY", 1e-4)
    where, text = console(terminal=True)
    with ProgressDisplay("fitting", Trace(), 5, True, console=where), compiling_notice():
        compile_something()
    assert COMPILING in plain(text)
    assert capsys.readouterr().err == ""
