"""Compiled kernels on disk: real edits, real damage and real folders without permission, in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
NOBODY = 65534

FILES = {
    "__init__": "",
    "constants": "import numpy as np\nOFFSET = 100.0\nTABLE = np.array([0.0, 10.0])\n",
    "below": """
from partwise.kernels.jit import inner_kernel
from partwise.kernels.jit import kernel
from toy.constants import TABLE

@inner_kernel
def bottom(x):
    return 2.0 * x

@kernel
def middle(x):
    return bottom(x) + TABLE[1]
""",
    "caller": """
from partwise.kernels.jit import kernel
from toy import constants
from toy.below import middle

@kernel
def top(x):
    return middle(x) + constants.OFFSET
""",
}
CALL = """
import json, os, sys, warnings
import numba, toy.caller
if len(sys.argv) > 1:  # all that is imported on the way of a kernel, while this user may read it
    numba.njit(lambda x: x + 1.0)(1.0)
    os.setgroups([]), os.setgid(int(sys.argv[1])), os.setuid(int(sys.argv[1]))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from toy.caller import top
    from toy.below import middle
    value = top(1.0), top(1), middle(1.0)
words = [f"{type(warning.message).__name__}: {warning.message}" for warning in caught]
print(json.dumps([value[0], sum(top.stats.cache_misses.values()), words]))
"""


@dataclass
class Called:
    value: float
    """of the top kernel at 1.0: 2 + 10 + 100"""
    compiled: int
    """how many of its two signatures were compiled, the others having been read"""
    warnings: list[str]


class Toy:
    """A package of three kernels in two files, called in new processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "toy"
        self.package.mkdir()
        for name, text in FILES.items():
            (self.package / f"{name}.py").write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.package / f"{name}.py"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def start(self, user: int | None = None, **environment: str) -> subprocess.Popen[str]:
        without = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "PYTHONHASHSEED")
        kept = {name: value for name, value in os.environ.items() if name not in without}
        variables = {
            "HOME": str(self.folder / "home"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(self.folder / "tmp"),
        }
        variables["PYTHONPATH"] = os.pathsep.join([str(self.folder), str(SOURCE)])
        return subprocess.Popen(
            [sys.executable, "-c", CALL, *([] if user is None else [str(user)])],
            env={**kept, **variables, **environment},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def result(process: subprocess.Popen[str]) -> Called:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert not errors
        return Called(*json.loads(output))

    def call(self, user: int | None = None, **environment: str) -> Called:
        return self.result(self.start(user, **environment))

    def kept(self, folder: str = "toy/__pycache__") -> list[Path]:
        return sorted((self.folder / folder).rglob("*.kernel"))


@pytest.fixture
def toy() -> Iterator[Toy]:
    # not tmp_path, which other users cannot enter
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        yield Toy(folder)


def test_kernels_are_compiled_once(toy: Toy) -> None:
    assert toy.call() == Called(112.0, 2, [])
    assert len(toy.kept()) == 6, "three kernels, each for a float and for an integer"
    assert toy.call(PYTHONHASHSEED="7") == Called(112.0, 0, [])


EDITS = {
    "callee of a callee": ("below", "2.0 * x", "3.0 * x", 113.0),
    "index in a callee": ("below", "TABLE[1]", "TABLE[0]", 103.0),
    "array": ("constants", "[0.0", "[20.0", 123.0),
    "attribute of a module": ("constants", "OFFSET = 100.0", "OFFSET = 200.0", 223.0),
    "own code": ("caller", "+ constants", "- constants", -177.0),
    "options": ("below", "@inner_kernel", "@kernel", -177.0),
}


def test_an_edit_anywhere_below_is_seen(toy: Toy) -> None:
    toy.call()
    count = len(toy.kept())
    for place, (file, old, new, value) in EDITS.items():
        toy.edit(file, old, new)
        assert toy.call() == Called(value, 2, []), place
    assert len(toy.kept()) == count, "files are replaced, not added"


def test_comments_and_lines_do_not_count(toy: Toy) -> None:
    toy.call()
    toy.edit("below", "@inner_kernel", "# a comment\n\n\n@inner_kernel")
    assert toy.call().compiled == 0


def test_an_edit_in_a_copied_package_is_seen(tmp_path: Path) -> None:
    # two files below: the kernel of `discrete` calls one of `streams`, which uses the constant
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    code = "from partwise.kernels.streams import *; from partwise.kernels.discrete import poisson; s = new_stream()\n"
    code += "seek(s, 1, 2, 3, 4); print([poisson(s, 3.5) for _ in range(20)])"

    def draws(folder: Path) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "NUMBA_CACHE_DIR": str(folder)}
        return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)

    before = draws(tmp_path / "kept")
    streams = tmp_path / "src" / "partwise" / "kernels" / "streams.py"
    assert "_ROUNDS = 10" in streams.read_text()
    streams.write_text(streams.read_text().replace("_ROUNDS = 10", "_ROUNDS = 9"))
    after = draws(tmp_path / "kept")
    assert after != before
    assert after == draws(tmp_path / "new")


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-200] ^= 1
    file.write_bytes(content)


def replace_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    "damage", [truncate, flip, lambda file: file.write_bytes(b""), lambda file: file.write_bytes(b"x" * 999)]
)
def test_damaged_files_are_replaced_with_one_sentence(toy: Toy, damage: Callable[[Path], object]) -> None:
    toy.call()
    for file in toy.kept():
        damage(file)
    called = toy.call()
    assert (called.value, called.compiled) == (112.0, 2)
    (sentence,) = called.warnings
    assert sentence.startswith("KernelCacheWarning: The compiled kernel in ")
    assert sentence.endswith("so it is compiled again.")
    assert toy.call() == Called(112.0, 0, [])


def test_a_file_that_cannot_be_unpickled_is_replaced(toy: Toy) -> None:
    import hashlib
    import pickle

    toy.call()
    for file in toy.kept():
        content = file.read_bytes()[32:64] + pickle.dumps(["not", "compiled"])
        file.write_bytes(hashlib.sha256(content).digest() + content)
    called = toy.call()
    assert (called.value, called.compiled, len(called.warnings)) == (112.0, 2, 1)
    assert toy.call() == Called(112.0, 0, [])


def test_a_folder_in_the_place_of_a_file_does_no_harm(toy: Toy) -> None:
    toy.call()
    for file in toy.kept():
        replace_by_folder(file)
    assert toy.call().value == 112.0
    assert toy.call() == Called(112.0, 0, []), "read from the next folder"


def test_the_named_folder_is_used(toy: Toy) -> None:
    assert toy.call(NUMBA_CACHE_DIR=str(toy.folder / "named")).compiled == 2
    assert not toy.kept()
    assert toy.kept("named")
    assert toy.call(NUMBA_CACHE_DIR=str(toy.folder / "named")) == Called(112.0, 0, [])


def test_a_named_folder_that_cannot_be_made(toy: Toy) -> None:
    (toy.folder / "file").write_text("in the way")
    named = str(toy.folder / "file" / "below")
    called = toy.call(NUMBA_CACHE_DIR=named)
    assert (called.value, called.compiled) == (112.0, 2)
    (sentence,) = called.warnings
    assert sentence.startswith(f"KernelCacheWarning: Compiled kernels are kept in {toy.folder / 'tmp'}")
    assert "Set NUMBA_CACHE_DIR" in sentence
    assert toy.call(NUMBA_CACHE_DIR=named) == Called(112.0, 0, []), "read from the temporary folder"


@pytest.fixture
def stranger(toy: Toy) -> int | None:
    """A user who cannot write the package: another one where we are root, who can write everything."""
    if os.geteuid() != 0:
        toy.package.chmod(0o555)
        return None
    return NOBODY


def test_no_permission_and_no_home(toy: Toy, stranger: int | None) -> None:
    called = toy.call(stranger, HOME="/nonexistent")
    assert (called.value, called.compiled) == (112.0, 2)
    (sentence,) = called.warnings
    assert sentence.startswith(f"KernelCacheWarning: Compiled kernels are kept in {toy.folder / 'tmp'}")
    assert "__pycache__ cannot be written (Permission denied)" in sentence
    assert toy.call(stranger, HOME="/nonexistent") == Called(112.0, 0, [])


def test_no_folder_at_all(toy: Toy, stranger: int | None) -> None:
    # a folder of temporary files that another user made under our name, to have us read what is in it
    trap = toy.folder / "tmp" / f"partwise-kernels-{os.geteuid() if stranger is None else stranger}"
    trap.symlink_to(toy.package)
    for _ in range(2):
        called = toy.call(stranger, HOME="/nonexistent")
        assert (called.value, called.compiled) == (112.0, 2)
        (sentence,) = called.warnings
        assert sentence.startswith("KernelCacheWarning: Kernels are compiled again in every process, because ")


def test_a_home_serves_who_cannot_write_the_package(toy: Toy, stranger: int | None) -> None:
    home = toy.folder / "home"
    home.mkdir()
    home.chmod(0o777)
    assert toy.call(stranger) == Called(112.0, 2, [])
    assert toy.kept("home")
    assert toy.call(stranger) == Called(112.0, 0, [])


def test_who_cannot_write_can_read(toy: Toy, stranger: int | None) -> None:
    toy.package.chmod(0o755)
    toy.call()
    toy.package.chmod(0o555)
    assert toy.call(stranger, HOME="/nonexistent") == Called(112.0, 0, [])


def test_processes_that_compile_at_once_leave_whole_files(toy: Toy) -> None:
    processes = [toy.start() for _ in range(3)]
    assert [toy.result(process).value for process in processes] == [112.0] * 3
    assert toy.call() == Called(112.0, 0, [])
    assert set((toy.package / "__pycache__").iterdir()) == set(toy.kept()), "nothing half-written is left"


def test_jit_can_be_switched_off(toy: Toy) -> None:
    code = "from toy.caller import top; print(top(1.0))"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": f"{toy.folder}{os.pathsep}{SOURCE}"}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True) == "112.0\n"
