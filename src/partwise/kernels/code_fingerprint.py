"""A digest of all that the machine code of a kernel depends on.

That is its own code, the code of every function that it calls in any file, and the module constants that they use. The
options of the compiler count, and the versions of Python, numba, LLVM and NumPy. Comments and line numbers do not
count.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import llvmlite  # type: ignore[import-untyped]  # has no types
import numba
import numpy as np

_VERSIONS = (sys.version, numba.__version__, llvmlite.__version__, np.__version__)


def fingerprint(kernel: Any) -> bytes:
    """A digest of the code of a kernel and of all functions that it calls, with the constants that they use."""
    digest = hashlib.sha256(repr(_VERSIONS).encode())
    for function in _reachable(kernel):
        digest.update(_describe(function)[0].encode())
    return digest.digest()


def reachable(kernel: Any) -> list[types.FunctionType]:
    """The Python functions of a kernel and of all that it calls, in a fixed order."""
    return [_python_function(function) for function in _reachable(kernel)]


def _reachable(kernel: Any) -> Iterator[Any]:
    waiting, seen = [kernel], set()
    while waiting:
        function = waiting.pop()
        if id(function) not in seen:
            seen.add(id(function))
            yield function
            waiting.extend(_describe(function)[1])


@functools.cache
def _describe(function: Any) -> tuple[str, list[Any]]:
    """What one function is made of, as text that is the same in every process, and the functions that it uses."""
    called: list[Any] = []
    options = getattr(function, "targetoptions", {})
    python = _python_function(function)
    names = set(_names(python.__code__))
    used = {name: value for name, value in python.__globals__.items() if name in names}
    for module in [value for value in used.values() if isinstance(value, types.ModuleType)]:
        if _package(module.__name__) == _package(python.__module__):
            used.update({f"{module.__name__}.{name}": vars(module)[name] for name in names & vars(module).keys()})
    closure = [cell.cell_contents for cell in python.__closure__ or ()]
    parts = [python.__code__, python.__defaults__, python.__kwdefaults__, closure, options, used]
    return _text(parts, called, _package(python.__module__)), called


def _python_function(value: Any) -> Any:
    """The Python function of a kernel or of an intrinsic of numba; None for anything else."""
    function = getattr(value, "py_func", getattr(value, "_defn", value))
    return function if isinstance(function, types.FunctionType) else None


def _text(value: Any, called: list[Any], package: str) -> str:
    # As `repr`, but the same in every process: sets have no order, and objects may print their addresses.
    again = functools.partial(_text, called=called, package=package)
    match value:
        case types.CodeType():
            fields = ("co_code", "co_consts", "co_names", "co_varnames", "co_cellvars", "co_freevars", "co_flags")
            counts = (value.co_argcount, value.co_kwonlyargcount, value.co_exceptiontable)
            return again([getattr(value, field) for field in fields] + list(counts))
        case np.ndarray():
            return f"array({value.dtype}, {value.shape}, {hashlib.sha256(value.tobytes()).hexdigest()})"
        case tuple() | list():
            return f"{type(value).__name__}({', '.join(map(again, value))})"
        case set() | frozenset():
            return f"set({', '.join(sorted(map(again, value)))})"
        case dict():
            return f"dict({', '.join(sorted(f'{again(key)}: {again(item)}' for key, item in value.items()))})"
        case types.ModuleType():
            return value.__name__
    function = _python_function(value)
    # Functions of other packages are known by their names: the versions above stand for their code.
    if function is not None and (function is not value or _package(function.__module__) == package):
        called.append(value)
    named = value if isinstance(value, type) else function
    if named is not None:
        return f"{named.__module__}.{named.__qualname__}{getattr(named, '_fields', '')}"
    return f"{type(value).__qualname__}({value!r})"


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _package(module: str) -> str:
    return module.partition(".")[0]
