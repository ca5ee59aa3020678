"""One mutant against its tests, in a process of its own."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mutation.calls import Test

# What tests import besides partwise: loaded once, in the process of which those of the mutants are forks.
# Not hypothesis: pytest must see it first.
PRELOADED = ["numba", "scipy.stats", "sklearn.base", "sklearn.utils.validation", "pytest", "mutation.trial"]

# Processor seconds that a test may take: those of the compiler, and a multiple of what it took without a bug.
COMPILING = 40.0
MULTIPLE = 5.0
# A process that waits for ever uses no processor.
WALL = 1800.0


@dataclass(frozen=True)
class Outcome:
    """``killed``, ``timeout`` (which is killed, too) or ``survived``; by which test; in how many seconds."""

    outcome: str
    by: str
    seconds: float


class _Selection:
    """A plugin of pytest: the given tests in the given order, each with its limit; it writes down where it is."""

    def __init__(self, tests: Sequence[Test], report: Path, compiling: float) -> None:
        self._place = {test.name: place for place, test in enumerate(tests)}
        self._limit = {test.name: compiling + MULTIPLE * test.seconds for test in tests}
        self._report = report

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self._place), key=lambda item: self._place[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # The default action of the signal ends the process, also within compiled code, where Python would not look.
        signal.setitimer(signal.ITIMER_PROF, self._limit[nodeid])
        self._report.write_text(json.dumps(nodeid))


def run_tests(tree: Path, tests: Sequence[Test], report: Path, compiling: float) -> None:
    """Run tests in a tree and exit with the code of pytest."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    os.setpgrp()  # Ctrl-C at the terminal must not look like a test that failed
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests send it to fits
    os.chdir(tree)
    sys.path[:0] = [str(tree / "src")]
    sys.dont_write_bytecode = True
    os.environ.update(PYTHONPATH=str(tree / "src"), PYTHONDONTWRITEBYTECODE="1", CI="1")  # CI: fixed examples
    os.environ.pop("NUMBA_CACHE_DIR", None)  # kernels are beside their sources, a folder for each tree
    silence = os.open(report.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    files = sorted({test.file for test in tests})
    options = [
        "-x",
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:doctest",
        "--rootdir",
        ".",
    ]
    code = pytest.main(
        [*options, "-o", "addopts=-m 'not slow and not browser'", *files],
        plugins=[_Selection(tests, report, compiling)],
    )
    os._exit(int(code))


class Runner:
    """Starts a process for each mutant, from one that has the libraries loaded.

    Parameters
    ----------
    compiling
        Processor seconds that the compiler may take in a test.
    """

    def __init__(self, compiling: float = COMPILING) -> None:
        self._compiling = compiling
        self._context: Any = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)

    def run(self, tree: Path, tests: Sequence[Test]) -> Outcome:
        """Whether the tests find what was planted in a tree."""
        report = tree / "report.json"
        report.unlink(missing_ok=True)
        began = time.monotonic()
        process = self._context.Process(target=run_tests, args=(tree, tests, report, self._compiling))
        process.start()
        process.join(WALL)
        waited = process.is_alive()
        if waited:
            process.kill()
            process.join()
        seconds = round(time.monotonic() - began, 1)
        by = json.loads(report.read_text()) if report.exists() else "import"
        code = process.exitcode
        if code == 0:
            return Outcome("survived", "", seconds)
        if waited or code == -signal.SIGPROF:
            return Outcome("timeout", by, seconds)
        # A bug at import shows as "interrupted" in a file of tests and as "usage error" in a conftest.py.
        stillborn = code == pytest.ExitCode.TESTS_FAILED and by == "import"  # no test began, so none has failed
        if stillborn or code in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise RuntimeError(f"pytest could not run: see {report.with_suffix('.log')}")
        return Outcome("killed", f"{by} (signal {-code})" if code < 0 else by, seconds)
