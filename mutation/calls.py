"""Which tests call which functions, as `mutation.tracing` has written it down, and so which tests a mutant meets."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# A file with one of these may compute in one test what another looks at.
SHARED = re.compile(r"scope=|functools|lru_cache|@cache|njit")

# scikit-learn's checks of the interface say little about numbers, and are slow; other processes cannot be traced.
LEFT_OUT = ("*_sklearn.py", "test_kernel_cache.py")


def digest(files: Iterable[Path], root: Path) -> str:
    """The names and contents of some files, in a few letters."""
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def digest_of_code(root: Path) -> str:
    """What every test depends on: the sources, and what the tests share."""
    shared = (file for file in (root / "tests").rglob("*.py") if not file.name.startswith("test_"))
    return digest([*(root / "src").rglob("*.py"), *shared], root)


def digest_of_test(code: str, file: Path) -> str:
    """What was traced with other sources, or of another content of the file, does not count."""
    return hashlib.sha256(code.encode() + file.read_bytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Test:
    """A test that passes, the seconds that it took, and what it calls, as ``path/of/module.py:function``."""

    name: str
    seconds: float
    calls: frozenset[str]

    @property
    def file(self) -> str:
        """The file of the test, below the root."""
        return self.name.partition("::")[0]


class Calls:
    """The tests of a tree, as far as they have been traced."""

    def __init__(self, root: Path, traced: Path) -> None:
        lines = traced.read_text(encoding="utf-8").splitlines() if traced.exists() else []
        code = digest_of_code(root)
        current = {
            file.relative_to(root).as_posix(): digest_of_test(code, file)
            for file in (root / "tests").rglob("test_*.py")
        }
        found: dict[str, Test] = {}
        for line in map(json.loads, lines):
            if current.get(line["test"].partition("::")[0]) == line["digest"]:
                found[line["test"]] = Test(line["test"], line["seconds"], frozenset(line["calls"]))
        shared = {name for name in {test.file for test in found.values()} if SHARED.search((root / name).read_text())}
        together = {name: _union(test.calls for test in found.values() if test.file == name) for name in shared}
        self.tests = [Test(test.name, test.seconds, together.get(test.file, test.calls)) for test in found.values()]

    def untraced(self, root: Path, folders: Iterable[str]) -> list[str]:
        """Files of tests in some folders that were not traced, or that have changed since."""
        known = {test.file for test in self.tests}
        files = [
            file.relative_to(root).as_posix()
            for name in folders
            for file in (root / name).glob("test_*.py")
            if not any(map(file.match, LEFT_OUT))
        ]
        return sorted(set(files) - known)

    def of_package(self, package: str) -> list[Test]:
        """The tests of a package, or all if it has none."""
        return [test for test in self.tests if test.file.startswith(f"tests/{package}/")] or self.tests

    def of(self, package: str, module: str, function: str) -> list[Test]:
        """The tests of a package that call a function, fast ones first.

        If none was seen to call it: all tests of the package, since a process of its own cannot be traced. A package
        without tests of its own is tested by others.
        """
        own = self.of_package(package)
        calling = [test for test in own if f"{module}:{function}" in test.calls] or own
        return sorted(calling, key=lambda test: test.seconds)


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
