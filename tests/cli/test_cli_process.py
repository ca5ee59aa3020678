"""The command as a process of its own: exit codes, signals, closed pipes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from partwise import PoissonNMF, load, read

PROGRAM = str(Path(sys.executable).with_name("partwise"))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=120, check=False)


def test_exit_codes(folder: Path) -> None:
    done = run("info", "counts.npz", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["n_samples"] == 60
    failed = run("info", "absent.npz")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == "partwise: there is no file absent.npz; check the name.\n"
    misused = run("info")
    assert misused.returncode == 2
    assert "Missing argument" in misused.stderr


def test_ctrl_c_leaves_a_usable_model(folder: Path) -> None:
    words = ["fit", "counts.npz", "-k", "4", "--tol", "0", "--checkpoint", "c", "--checkpoint-every", "0.05"]
    outputs = ["-o", "m.partwise", "--activations", "a.csv", "--max-iter", "100000000", "--no-progress"]
    process = subprocess.Popen([PROGRAM, *words, *outputs], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 90
    while not Path("c").exists():  # the first checkpoint shows that the fit is under way
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1, stderr
    assert "Traceback" not in stderr
    last = stderr.splitlines()[-1]
    model = load("m.partwise")
    assert model.status_.code == "interrupted"
    plural = "" if model.n_iter_ == 1 else "s"
    assert last == (
        f"partwise: interrupted after {model.n_iter_} iteration{plural}: m.partwise holds the model so far "
        "(a.csv was not written); run the same command with --resume to finish it."
    )
    assert not Path("a.csv").exists()
    assert "wrote m.partwise" in stdout
    expected = PoissonNMF(4, tol=0, max_iter=model.n_iter_, random_state=0).fit(read("counts.npz"))
    np.testing.assert_array_equal(model.components_, expected.components_)
    more = model.n_iter_ + 5
    assert run(*words, "-o", "m.partwise", "--resume", "--max-iter", str(more)).returncode == 0
    resumed = load("m.partwise")
    expected = PoissonNMF(4, tol=0, max_iter=more, random_state=0).fit(read("counts.npz"))
    assert resumed.n_iter_ == more
    np.testing.assert_array_equal(resumed.components_, expected.components_)


def test_ctrl_c_gives_the_best_comparison_so_far_and_how_to_continue(folder: Path) -> None:
    words = ["compare", "counts.npz", "--models", "poisson,allocation", "--effort", "full", "--restarts", "9"]
    process = subprocess.Popen(
        [PROGRAM, *words, "-o", "kept"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    fits, deadline = Path("kept/fits.csv"), time.monotonic() + 90
    while not fits.exists() or fits.read_text().count("\n") < 4:  # a heading and three fits
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    told = re.search(r"This is the best answer after (\d+) fits: it was interrupted", stdout)
    assert told is not None, stdout
    limit = ["--fits", told[1]]
    assert f"The same command with {' '.join(limit)} repeats this result; without a limit it continues from" in stderr
    answers = [line for line in stdout.splitlines() if line.startswith(("Best prediction", "Take "))]
    for more in ([], ["-o", "kept"]):  # afresh, and with the fits that were kept
        again = run(*words, *limit, *more).stdout
        assert [line for line in again.splitlines() if line.startswith(("Best prediction", "Take "))] == answers


def test_a_time_budget_is_kept_by_the_clock(folder: Path) -> None:
    words = [
        "compare",
        "counts.npz",
        "--models",
        "poisson,allocation",
        "--effort",
        "full",
        "--restarts",
        "50",
        "--json",
    ]
    found = json.loads(run(*words, "--time-budget", "2s").stdout)
    assert found["stopped"] == "budget"
    seconds = [row["seconds"] for row in found["candidates"]]
    assert sum(seconds) - max(seconds) < 2.0  # all but the last had ended by then
    again = json.loads(run(*words, "--fits", str(found["n_fits"])).stdout)
    assert [row["score"] for row in again["candidates"]] == [row["score"] for row in found["candidates"]]
    assert again["sentence"] == found["sentence"]


@pytest.mark.parametrize("words", [["info", "counts.npz", "--json"], ["info", "counts.npz"]])
def test_reader_that_left_is_no_traceback(words: list[str], folder: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [PROGRAM, *words], stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    finally:
        os.close(write_end)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [line for line in done.stderr.splitlines() if line.startswith("read ")]


def test_closed_streams_are_no_failure(folder: Path) -> None:
    closed = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', PROGRAM]
    done = subprocess.run([*closed, "fit", "counts.npz", "-o", "m.partwise", "-k", "2"], timeout=120, check=False)
    assert done.returncode == 0
    assert load("m.partwise").n_components_ == 2
    assert subprocess.run([*closed, "info", "absent.npz"], timeout=120, check=False).returncode == 1


def test_an_interrupt_within_an_import_ends_with_code_1(tmp_path: Path) -> None:
    """CPython remembers an interrupt inside exec("..."), as in the making of a dataclass, even if it was caught."""
    (tmp_path / "interrupted.py").write_text(
        "import partwise.cli.app\n"
        "from partwise.cli.main import main\n"
        "interrupt = 'import signal; signal.raise_signal(signal.SIGINT)'\n"
        "partwise.cli.app.build = lambda: lambda: exec(interrupt)\n"
        "main()\n"
    )
    words = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (1, "partwise: interrupted.\n")


IN_AN_IMPORT = """
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)
except KeyboardInterrupt:
    raise ImportError("half of it was imported") from None
"""
WHILE_FREEING = """
class Freed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)
def free():
    Freed()
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="interrupts are put off where there are timers")
@pytest.mark.parametrize(("text", "use"), [(IN_AN_IMPORT, "pass"), (WHILE_FREEING, "careless.free()")])
def test_no_interrupt_is_lost(text: str, use: str, tmp_path: Path) -> None:
    """Compiled modules print a traceback where their import is interrupted, and Python one where an object is freed."""
    (tmp_path / "careless.py").write_text(f"import os, signal, time\n{text}")
    (tmp_path / "careful.py").write_text(
        "import time\n"
        "import partwise.cli.app\n"
        "from partwise.cli.main import main\n"
        "def run():\n"
        "    import careless\n"
        f"    {use}\n"
        "    time.sleep(60)\n"
        "partwise.cli.app.build = lambda: run\n"
        "main()\n"
    )
    words = [sys.executable, "-m", "careful"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (1, "partwise: interrupted.\n")


_HALF_MADE = """
import signal, sys
from partwise.cli import main

class HalfMade:
    def __del__(self):
        self.missing.close()

sys.unraisablehook = main._interrupt_if_ignored
signal.signal(signal.SIGINT, main._interrupt_between_imports)
if {interrupted}:
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        pass
HalfMade()
"""


@pytest.mark.parametrize("interrupted", [True, False])
def test_what_an_interrupt_left_half_made_is_freed_without_a_traceback(interrupted: bool) -> None:
    """As happens to objects of the compiler; without an interrupt the fault is shown."""
    command = [sys.executable, "-c", _HALF_MADE.format(interrupted=interrupted)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
    assert ("Traceback" in said) is not interrupted


_LATE = """
import signal
import partwise.cli.app
from partwise.cli import main

set_action, told = signal.signal, []

def interrupted_once(number, action):
    if action == signal.SIG_IGN and not told:
        told.append(number)
        signal.raise_signal(signal.SIGINT)
    return set_action(number, action)

signal.signal = interrupted_once
partwise.cli.app.build = lambda: lambda: print("done")
main.main()
assert told
"""


def test_an_interrupt_when_all_is_done_changes_nothing() -> None:
    """It comes after the work, while the command gets ready to end: no traceback, and the exit code of success."""
    done = subprocess.run([sys.executable, "-c", _LATE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
