"""Which tests call which functions, as `mutation.tracing` has written it down, and so which tests a mutant meets."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mutation.targets import SOURCE

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


def shared_files(root: Path) -> list[Path]:
    """What all tests share."""
    return [file for file in (root / "tests").rglob("*.py") if not file.name.startswith("test_")]


def digest_of_code(root: Path) -> str:
    """What every test may depend on: the sources, and what the tests share."""
    return digest([*(root / "src").rglob("*.py"), *shared_files(root)], root)


class Digests:
    """What a traced test depends on: its file, what tests share, and the modules of the functions that it called.

    A test that called nothing in a module cannot have begun to because that module has changed.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._shared = digest(shared_files(root), root)
        self._of_file = functools.cache(self._read)

    def _read(self, file: str) -> str:
        path = self._root / file
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "gone"

    def of(self, test: str, calls: Iterable[str]) -> str:
        """The state of a test (``path/of/file.py::name``) that makes these calls."""
        modules = sorted({f"{SOURCE}/{call.partition(':')[0]}" for call in calls})
        found = [self._shared, *map(self._of_file, [test.partition("::")[0], *modules])]
        return hashlib.sha256("".join(found).encode()).hexdigest()[:16]


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
        digests = Digests(root)
        found: dict[str, Test] = {}
        stale: set[str] = set()  # a file is traced as a whole
        for line in map(json.loads, lines):
            test = found[line["test"]] = Test(line["test"], line["seconds"], frozenset(line["calls"]))
            if digests.of(test.name, test.calls) != line["digest"]:
                stale.add(test.file)
        found = {name: test for name, test in found.items() if test.file not in stale}
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
