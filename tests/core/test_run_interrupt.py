"""Ctrl-C: real signals to real processes, and what a run leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from toys import Report, TwoHalves, environment

from partwise.core.checkpoint import Checkpoint, read_checkpoint
from partwise.core.keys import Key
from partwise.core.result import FitResult
from partwise.core.run import run
from partwise.core.stopping import SmallChange
from partwise.errors import InterruptedFitWarning

KEY = Key(3)

PROGRAM = """
import json, signal, sys, threading, time, warnings
from toys import TwoHalves
from partwise.core.checkpoint import Checkpoint
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.engines import LocalEngine

where, n_jobs, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def announce_and_work(*unused):
    print("here", flush=True)
    # Work in small pieces, as kernels on blocks do, until the signal has been sent.
    sent = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), sent.set()), daemon=True).start()
    while not sent.is_set():
        LocalEngine(n_jobs).for_each(lambda block: time.sleep(0.001), range(4 * n_jobs))

def between(iteration):
    if where == "step" and iteration == 3:
        announce_and_work()

handler = signal.getsignal(signal.SIGINT)
algorithm = TwoHalves(announce_and_work if where == "init" else None, between)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = run(algorithm, None, key=Key(3), max_iter=1000, checkpoint=Checkpoint(path))
print(json.dumps({
    "code": result.status.code, "message": result.status.message, "n_iter": result.n_iter, "rows": len(result.trace),
    "left": result.state.left.tolist(), "right": result.state.right.tolist(),
    "warnings": [warning.category.__name__ for warning in caught],
    "restored": signal.getsignal(signal.SIGINT) is handler,
}), flush=True)
"""


def start(where: str, n_jobs: int, path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, where, str(n_jobs), str(path)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    return process


@pytest.mark.parametrize(("where", "n_iter"), [("init", 0), ("step", 3)])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_real_interrupt_leaves_a_whole_state(where: str, n_iter: int, n_jobs: int, tmp_path: Path) -> None:
    path = tmp_path / "halves.checkpoint"
    process = start(where, n_jobs, path)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate("sent\n", timeout=20)
    assert (process.returncode, errors) == (0, "")
    result = json.loads(output)
    assert (result["code"], result["n_iter"], result["rows"]) == ("interrupted", n_iter, n_iter)
    assert result["left"] == result["right"] == [n_iter, n_iter]
    assert result["warnings"] == ["InterruptedFitWarning"]
    assert f"You can use the fit so far; to finish it, resume from {path}" in result["message"]
    assert result["restored"]
    assert len(read_checkpoint(path).trace) == n_iter
    resumed = run(TwoHalves(), None, key=KEY, max_iter=10, resume_from=path)
    assert resumed.state.left.tolist() == resumed.state.right.tolist() == [10, 10]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_second_interrupt_ends_at_once(n_jobs: int, tmp_path: Path) -> None:
    process = start("step", n_jobs, tmp_path / "halves.checkpoint")
    for _ in range(20):
        # Two signals in a hurry may arrive as one.
        process.send_signal(signal.SIGINT)
        time.sleep(0.25)
        if process.poll() is not None:
            break
    _, errors = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert "\nKeyboardInterrupt\n" in errors


def interrupt(*unused: object) -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def handler() -> Callable:
    """Fails the test if a run does not put the handler back."""

    def own(number: int, frame: object) -> None:
        raise AssertionError("the signal reached the handler of before")

    before = signal.signal(signal.SIGINT, own)
    yield own
    after = signal.signal(signal.SIGINT, before)
    assert after is own


def interrupted_run(*arguments, **options) -> FitResult:
    with pytest.warns(InterruptedFitWarning, match="Interrupted after") as caught:
        result = run(*arguments, key=KEY, **options)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert result.status.code == "interrupted"
    return result


@pytest.mark.usefixtures("handler")
def test_interrupts_within_this_process() -> None:
    in_step = TwoHalves(between=lambda iteration: interrupt() if iteration == 2 else None)
    result = interrupted_run(in_step, None, max_iter=10)
    assert result.state.left.tolist() == result.state.right.tolist() == [2, 2]
    result = interrupted_run(TwoHalves(during_init=interrupt), None, max_iter=10)
    assert (result.n_iter, result.state.left.tolist()) == (0, [0, 0])
    result = interrupted_run(TwoHalves(), None, max_iter=10, callbacks=[interrupt])
    assert result.n_iter == 1


@pytest.mark.usefixtures("handler")
def test_an_interrupt_in_the_last_iteration_is_not_swallowed() -> None:
    at_two = TwoHalves(between=lambda iteration: interrupt() if iteration == 2 else None)
    assert interrupted_run(at_two, None, max_iter=2).n_iter == 2
    assert interrupted_run(at_two, None, max_iter=9, convergence=SmallChange(0.9)).n_iter == 2


@pytest.mark.usefixtures("handler")
def test_the_handler_comes_back_after_errors() -> None:
    def fail(*unused: object) -> None:
        raise ZeroDivisionError

    for algorithm in (TwoHalves(during_init=fail), TwoHalves(between=fail)):
        with pytest.raises(ZeroDivisionError):
            run(algorithm, None, key=KEY, max_iter=3)
    twice = TwoHalves(between=lambda iteration: (interrupt(), interrupt()))
    with pytest.raises(KeyboardInterrupt):
        run(twice, None, key=KEY, max_iter=3)


@pytest.mark.usefixtures("handler")
def test_an_interrupt_reaches_the_outer_run_and_warns_once() -> None:
    inner: list[FitResult] = []

    def fit_inside(iteration: int) -> None:
        stop = TwoHalves(between=lambda i: interrupt() if (iteration, i) == (2, 3) else None)
        inner.append(run(stop, None, key=KEY, max_iter=5))

    outer = interrupted_run(TwoHalves(between=fit_inside), None, max_iter=10)
    assert [(result.n_iter, result.status.code) for result in inner] == [(5, "max_iter"), (3, "interrupted")]
    assert outer.n_iter == 2


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = run(TwoHalves(between=interrupt), None, key=KEY, max_iter=3)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.n_iter, result.status.code) == (3, "max_iter")


@pytest.mark.usefixtures("handler")
def test_outside_the_main_thread_an_interrupt_counts_between_steps() -> None:
    results: list[FitResult] = []
    caught: list[BaseException] = []

    def stop(iteration: int, state: object, trace: object) -> None:
        if iteration == 2:
            raise KeyboardInterrupt

    def in_the_middle(iteration: int) -> None:
        raise KeyboardInterrupt

    def work() -> None:
        results.append(run(TwoHalves(), None, key=KEY, max_iter=5, callbacks=[stop]))
        try:
            run(TwoHalves(between=in_the_middle), None, key=KEY, max_iter=5)
        except KeyboardInterrupt as error:
            caught.append(error)

    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [(result.n_iter, result.status.code) for result in results] == [(2, "interrupted")]
    assert [warning.category for warning in recorded] == [InterruptedFitWarning]
    assert len(caught) == 1, "half of a step is not a usable state: the interrupt must come out"


@pytest.mark.usefixtures("handler")
def test_an_interrupted_run_writes_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "a.checkpoint"
    values = tuple(np.arange(5.0))
    interrupted_run(
        Report(values),
        None,
        max_iter=5,
        checkpoint=Checkpoint(path, iterations=1000),
        callbacks=[lambda iteration, state, trace: interrupt() if iteration == 3 else None],
    )
    assert read_checkpoint(path).trace["objective"].tolist() == [0.0, 1.0, 2.0]
