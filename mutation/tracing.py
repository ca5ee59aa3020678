"""A plugin of pytest that writes down which functions and kernels of the package each test calls.

Loaded by ``-p mutation.tracing``; the file that ``MUTATION_CALLS`` names gets one JSON line for each test that passed.
numba tells the profiler about kernels that are called from Python; those that other kernels call are found by the walk
that keys compiled code.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from numba.core import event

import partwise
from mutation.calls import digest
from partwise.kernels.code_fingerprint import reachable

PACKAGE = Path(partwise.__file__).parent
FILE = Path(os.environ["MUTATION_CALLS"])

# By identity: the equality of code objects changes while they run.
_codes: dict[int, CodeType] = {}


def _profile(frame: FrameType, event: str, _: Any) -> None:
    if event == "call":
        _codes[id(frame.f_code)] = frame.f_code


class _Compiling(event.Listener):
    """Notes what is compiled, which may be a function of a test that calls kernels, and does not trace the compiler."""

    def on_start(self, event: Any) -> None:
        sys.setprofile(None)
        for function in reachable(event.data["dispatcher"]):
            _codes[id(function.__code__)] = function.__code__

    def on_end(self, event: Any) -> None:
        sys.setprofile(_profile)


_register: Any = event.register  # not typed
_register("numba:compile", _Compiling())
# For as long as the process lives: threads that one test starts may serve the next.
threading.setprofile(_profile)


def _is_ours(name: str, module: Any) -> bool:
    # of the package, or a file of tests: these have kernels too
    return name.partition(".")[0] == "partwise" or str(getattr(module, "__file__", None)).startswith(str(Path.cwd()))


def _kernels() -> dict[int, Any]:
    """The kernels that have been imported, by the identity of their code."""
    modules = [module for name, module in sys.modules.copy().items() if _is_ours(name, module)]
    values = [value for module in modules for value in vars(module).values() if hasattr(value, "py_func")]
    return {id(value.py_func.__code__): value for value in values}


def _name(code: CodeType) -> str | None:
    file = Path(code.co_filename)
    if not file.is_relative_to(PACKAGE):
        return None
    return f"{file.relative_to(PACKAGE).as_posix()}:{code.co_qualname.partition('.<locals>')[0]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record from the first fixture to the last."""
    _codes.clear()
    sys.setprofile(_profile)
    try:
        return (yield)
    finally:
        sys.setprofile(None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Write down what a test that passed has called."""
    report = yield
    if report.when == "call" and report.passed:
        kernels, codes = _kernels(), dict(_codes)
        called = [kernels[code] for code in codes.keys() & kernels.keys()]
        below = [function.__code__ for kernel in called for function in reachable(kernel)]
        names = sorted({name for code in (*codes.values(), *below) if (name := _name(code))})
        with FILE.open("a", encoding="utf-8") as file:
            line = {"test": item.nodeid, "digest": digest(item.path), "seconds": report.duration, "calls": names}
            file.write(json.dumps(line) + "\n")
    return report
