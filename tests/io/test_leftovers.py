"""What killed processes left is removed; what is in use, or another's, is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from partwise.io import atomic
from partwise.io.atomic import write_atomically

PROGRAM = (
    "import os, sys, pathlib\n"
    "from partwise.io.atomic import temporary_name\n"
    "folder = pathlib.Path(sys.argv[1])\n"
    "(folder / f'.{temporary_name()}-a.csv').touch()\n"
    "(folder / temporary_name()).mkdir()\n"
    "os.kill(os.getpid(), 9)\n"
)


def test_of_a_killed_process(tmp_path: Path) -> None:
    if os.name != "posix":
        pytest.skip("elsewhere leftovers are removed by their age")
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    write_atomically(tmp_path / "b.txt", lambda aside: aside.write_text("b"))
    assert [path.name for path in tmp_path.iterdir()] == ["b.txt"]


def test_of_living_and_of_others(tmp_path: Path) -> None:
    own = tmp_path / f".{atomic.temporary_name()}-a"
    foreign, old = (tmp_path / f".partwise-00000000-1-0000000{n}-a" for n in (1, 2))
    like = tmp_path / "partwise-notes.txt"
    for path in (own, foreign, old, like):
        path.touch()
    os.utime(old, (time.time() - 2 * 86_400,) * 2)
    atomic.sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([own, foreign, like])
    foreign.unlink()
    old.touch()
    os.utime(old, (0, 0))
    atomic.sweep(tmp_path)
    assert old.exists(), "a folder is looked at once per process"
