"""Copies of the repository in which bugs are planted: the repository itself is never touched."""

from __future__ import annotations

import shutil
from pathlib import Path

from mutation.operators import Mutant
from mutation.targets import SOURCE

COPIED = ("src", "tests")


def refresh(root: Path, copy: Path) -> None:
    """Make a copy of the sources and tests, or bring one up to date.

    What was compiled in it stays, and what was compiled in the repository comes along: a kernel that has changed is
    compiled again in any case.
    """
    copy.mkdir(parents=True, exist_ok=True)
    shutil.copy2(root / "pyproject.toml", copy)
    for name in COPIED:
        wanted = {file.relative_to(root) for file in (root / name).rglob("*") if file.is_file() and not _made(file)}
        present = {file.relative_to(copy) for file in (copy / name).rglob("*") if file.is_file() and not _made(file)}
        for file in present - wanted:
            (copy / file).unlink()
        for file in wanted:
            if file not in present or (copy / file).read_bytes() != (root / file).read_bytes():
                (copy / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / file, copy / file)
    for file in (root / SOURCE).rglob("*.kernel"):
        place = copy / file.relative_to(root)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, place)


def _made(file: Path) -> bool:
    return "__pycache__" in file.parts


class Tree:
    """A copy of a copy, compiled kernels included, for one process at a time."""

    def __init__(self, base: Path, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(base, path)
        self.base = base
        self.path = path
        self._compiled = self._kernels()

    def plant(self, mutant: Mutant) -> None:
        """Write the changed file."""
        file = self.path / SOURCE / mutant.module
        file.write_text(mutant.source, encoding="utf-8")

    def restore(self, mutant: Mutant) -> None:
        """Undo it, and what was compiled from it: the next mutant then compiles only what it changes."""
        file = Path(SOURCE, mutant.module)
        shutil.copy2(self.base / file, self.path / file)
        for kernel, written in self._kernels().items():
            if kernel not in self._compiled:
                (self.path / kernel).unlink()
            elif written != self._compiled[kernel]:
                shutil.copy2(self.base / kernel, self.path / kernel)
        self._compiled = self._kernels()

    def _kernels(self) -> dict[Path, int]:
        files = (self.path / SOURCE).rglob("*.kernel")
        return {file.relative_to(self.path): file.stat().st_mtime_ns for file in files}
