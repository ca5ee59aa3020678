"""A plugin of pytest that writes down which functions and kernels of the package each test calls.

Loaded by ``-p mutation.tracing``; the file that ``MUTATION_CALLS`` names gets one JSON line for each test that passed.
Functions of the package say by themselves that they are called: a first line is added to them when they are imported.
A profiler would see the same, but tests of many small calls would take some times as long. Kernels say it where Python
calls them; those that other kernels call are found by the walk that keys compiled code.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import json
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from numba.core import event, registry

from mutation.calls import Digests
from mutation.targets import SOURCE, functions, is_kernel

PACKAGE = Path.cwd() / SOURCE
FILE = Path(os.environ["MUTATION_CALLS"])
DIGESTS = Digests(Path.cwd())

_called: set[str] = set()
_kernels_called: dict[int, Any] = {}


class _Loader(importlib.machinery.SourceFileLoader):
    """Adds ``_called.add("path/of/module.py:function")`` to each function that is not compiled."""

    def get_code(self, fullname: str) -> CodeType:
        # never from a file of bytecode, which holds the functions as they are
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        module = Path(path).relative_to(PACKAGE)
        if "kernels" not in module.with_suffix("").parts:  # those may also have plain functions that are compiled
            for name, function in functions(tree):
                if not is_kernel(function):
                    _say(f"{module.as_posix()}:{name}", function)
        return compile(tree, path, "exec", dont_inherit=True)


def _say(name: str, function: ast.FunctionDef) -> None:
    """Have a function say its name first, but after its docstring."""
    saying = ast.parse(f"__mutation_called__({name!r})").body[0]
    for node in ast.walk(saying):
        ast.copy_location(node, function.body[-1])
    function.body.insert(int(ast.get_docstring(function, clean=False) is not None), saying)


class _Finder:
    """Finds the modules of the package, and leaves all others to Python."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != "partwise":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and spec.origin and Path(spec.origin).is_relative_to(PACKAGE) and spec.origin.endswith(".py"):
            spec.loader = _Loader(name, spec.origin)
        return spec


vars(builtins)["__mutation_called__"] = _called.add
sys.meta_path.insert(0, _Finder)

from partwise.kernels.cache import reachable  # noqa: E402  # after the finder
from partwise.kernels.jit import Kernel  # noqa: E402


class _Kernel(Kernel):
    """A kernel that notes when Python calls it."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        _kernels_called[id(self)] = self
        return super().__call__(*arguments, **named)


class _Dispatcher(registry.CPUDispatcher):
    """The same for a kernel of a test."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        _kernels_called[id(self)] = self
        return super().__call__(*arguments, **named)

    def _reduce_class(self) -> Any:
        return registry.CPUDispatcher  # compiled code is kept, and read by processes that trace nothing


class _Compiling(event.Listener):
    """Notes what is compiled, which may be a function that a test makes and that calls kernels."""

    def on_start(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
        _kernels_called[id(dispatcher)] = dispatcher

    def on_end(self, event: Any) -> None:
        pass


_register: Any = event.register  # not typed
_register("numba:compile", _Compiling())


def _is_ours(name: str, module: Any) -> bool:
    # of the package, or a file of tests: these have kernels too
    return name.partition(".")[0] == "partwise" or str(getattr(module, "__file__", None)).startswith(str(Path.cwd()))


def _note_kernels() -> None:
    """Have every kernel that has been imported note its calls."""
    for module in [module for name, module in sys.modules.copy().items() if _is_ours(name, module)]:
        for value in vars(module).values():
            if type(value) is Kernel:
                value.__class__ = _Kernel
            elif type(value) is registry.CPUDispatcher:
                value.__class__ = _Dispatcher


def _name(code: CodeType) -> str | None:
    file = Path(code.co_filename)
    if not file.is_relative_to(PACKAGE):
        return None
    return f"{file.relative_to(PACKAGE).as_posix()}:{code.co_qualname}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record from the first fixture to the last."""
    _called.clear()
    _kernels_called.clear()
    _note_kernels()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Write down what a test that passed has called."""
    report = yield
    if report.when == "call" and report.passed:
        below = [function.__code__ for kernel in _kernels_called.values() for function in reachable(kernel)]
        names = sorted(_called | {name for code in below if (name := _name(code))})
        with FILE.open("a", encoding="utf-8") as file:
            line = {
                "test": item.nodeid,
                "digest": DIGESTS.of(item.nodeid, names),
                "seconds": report.duration,
                "calls": names,
            }
            file.write(json.dumps(line) + "\n")
    return report
