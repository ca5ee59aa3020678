"""Commands are stopped at any time: what they write is whole or not there, and nothing temporary is left.

The delays are spread over the run of each command, measured once without a signal. A signal that comes while Python
still starts ends the process by itself; there is nothing to keep then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from faults_tools import command, leftovers, run

import partwise
from partwise.core.checkpoint import read_checkpoint

if os.name != "posix":
    pytest.skip("signals of this kind are for POSIX systems", allow_module_level=True)

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]
COMMANDS = ["fit", "compare", "count", "convert", "report"]
SHARES = [0.35, 0.6, 0.75, 0.85, 0.95]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, counts: Path) -> Path:
    folder = tmp_path_factory.mktemp("signals")
    assert run("fit", counts, "-o", folder / "given.partwise", "-k", 3, "--max-iter", 3).returncode == 0
    return folder


def texts(folder: Path) -> Path:
    """A folder of short texts."""
    place = folder.with_name(f"{folder.name}-texts")
    if not place.exists():
        place.mkdir()
        for number in range(50):
            (place / f"{number}.txt").write_text("parts of counts and of words " * (1 + number % 5))
    return place


def words_of(name: str, folder: Path, counts: Path) -> tuple[list[object], Path]:
    """A command, and what it writes."""
    given = folder / "given.partwise"
    return {
        "fit": (["fit", counts, "-o", folder / "m.partwise", "-k", 4, "--max-iter", 60, "--tol", 0], "m.partwise"),
        "compare": (["compare", counts, "--models", "poisson", "--ranks", "1-3", "-o", folder / "found"], "found"),
        "count": (["count", texts(folder), "-o", folder / "words.npz"], "words.npz"),
        "convert": (["convert", counts, folder / "counts.csv"], "counts.csv"),
        "report": (["report", given, counts, "-o", folder / "r.html"], "r.html"),
    }[name]


@pytest.fixture(scope="module")
def seconds(folder: Path, counts: Path) -> dict[str, float]:
    """How long each command takes."""
    found = {}
    for name in COMMANDS:
        start = time.monotonic()
        assert run(*words_of(name, folder, counts)[0]).returncode == 0
        found[name] = time.monotonic() - start
    return found


def stopped(words: list[object], number: int, delay: float) -> tuple[int, str]:
    with subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(delay)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    return process.returncode, said


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: signal.Signals(number).name)
@pytest.mark.parametrize("name", COMMANDS)
def test_stopped_at_any_time(name: str, number: int, folder: Path, counts: Path, seconds: dict[str, float]) -> None:
    words, written = words_of(name, folder, counts)
    for share in SHARES:
        target = folder / written
        if target.is_file():
            target.unlink()
        code, said = stopped(words, number, share * seconds[name])
        assert "Traceback" not in said, said
        if number != signal.SIGKILL:
            # Before the command is imported, a signal ends the process by itself.
            assert code in {0, 1, -number}, said
            assert leftovers(folder) == []
        check_whole(target)
    # Another run does the work, and removes what the killed ones left.
    assert run(*words).returncode == 0
    assert (folder / written).exists()
    assert leftovers(folder) == []


def check_whole(target: Path) -> None:
    if not target.exists():
        return
    if target.suffix == ".partwise":
        partwise.load(target)
    elif target.suffix == ".npz":
        assert partwise.read(target).shape[0] == 50
    elif target.suffix == ".csv":
        assert partwise.read(target).shape == (300, 80)
    elif target.suffix == ".html":
        assert target.read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: signal.Signals(number).name)
def test_a_long_fit_is_resumed_to_the_same_bits(number: int, counts: Path, tmp_path: Path) -> None:
    """Without --checkpoint: the command keeps one by itself, names it, and removes it in the end."""
    model, kept = tmp_path / "m.partwise", tmp_path / "m.partwise.checkpoint"
    words = ["fit", counts, "-o", model, "-k", 4, "--tol", 0, "--checkpoint-every", 0.2, "--max-iter"]
    with subprocess.Popen(command(*words, 10**8), stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not kept.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert f"the fit so far is kept in {kept}: after a stop, run the same command with --resume" in said
    assert model.exists() == (number != signal.SIGKILL)
    n_iter = len(read_checkpoint(kept).trace)
    anew = run(*words, 1)
    assert "add --resume to continue it" in anew.stderr
    # The fit that was started anew has removed it.
    assert not kept.exists()
    assert n_iter >= 1


def test_resume_without_naming_a_file(counts: Path, tmp_path: Path) -> None:
    words = ["fit", counts, "-o", tmp_path / "m.partwise", "-k", 4, "--tol", 0, "--checkpoint-every", 0]
    kept = tmp_path / "m.partwise.checkpoint"
    with subprocess.Popen(command(*words, "--max-iter", 10**8)) as process:
        while not kept.exists():
            time.sleep(0.05)
        process.terminate()
        process.wait(60)
    n_iter = len(read_checkpoint(kept).trace) + 3
    assert run(*words, "--resume", "--max-iter", n_iter).returncode == 0
    assert not kept.exists()
    plain = run("fit", counts, "-o", tmp_path / "p.partwise", "-k", 4, "--tol", 0, "--max-iter", n_iter)
    assert plain.returncode == 0
    expected, found = partwise.load(tmp_path / "p.partwise"), partwise.load(tmp_path / "m.partwise")
    np.testing.assert_array_equal(found.components_, expected.components_)
    assert found.n_iter_ == n_iter
