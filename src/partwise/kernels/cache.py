"""Compiled kernels on disk: never stale, and never in the way of a fit.

numba's own cache notices that the file of a kernel changed, but not that a kernel which it calls did, and it raises
where it cannot write or read. Here each compiled kernel is one file that carries a fingerprint of everything that its
machine code depends on (`partwise.kernels.cache`). A file with another fingerprint is replaced.

The fingerprint is a digest of everything that the machine code depends on. It covers the code of the kernel, the code
of every function that it calls in any file, and the module constants that they use. It also covers the options of the
compiler and the versions of Python, numba, LLVM and NumPy. Comments and line numbers do not count.
"""

import functools
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]  # has no types
import numba
import numpy as np
from numba.core import caching, compiler, config, serialize
from numba.misc import appdirs

from partwise.errors import KernelCacheWarning

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


# numba is typed in part only.
_dumps: Any = serialize.dumps
_rebuild: Any = compiler.CompileResult._rebuild
_config: Any = config
_app_dirs: Any = appdirs.AppDirs

_DIGEST = hashlib.sha256().digest_size
_ADVICE = "Set NUMBA_CACHE_DIR to a folder that you can write."

# Why folders could not be written; these are not tried again. numba compiles under a lock, so none is needed here.
_refused: dict[Path, str] = {}
_warned = False


class KernelCache(caching._Cache):
    """Where numba looks for the compiled code of one kernel, and where it puts it.

    A file needs no index and is renamed into place, so processes that compile at the same time, or that are killed
    while they write, leave only whole files. A checksum finds damage: damaged machine code could crash the process.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._source = Path(kernel.py_func.__code__.co_filename)

    @functools.cached_property
    def _stamp(self) -> bytes:
        # Only when first needed: an import of partwise defines many kernels, and a fit calls a few of them.
        return fingerprint(self._kernel)

    @property
    def cache_path(self) -> str:
        """The folder that is tried first."""
        return str(_folders(self._source)[0])

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled code for these types of arguments, or None if the kernel must be compiled."""
        target.refresh()
        name = self._file_name(signature, target.codegen())
        for folder in _folders(self._source):
            try:
                content = _read(folder, name)
            except OSError:
                continue
            try:
                if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
                    raise pickle.UnpicklingError("its checksum is wrong")
                if content[_DIGEST : 2 * _DIGEST] == self._stamp:
                    return _rebuild(target, *pickle.loads(content[2 * _DIGEST :]))
            except Exception as error:  # unpickling can fail in any way
                _warn(f"The compiled kernel in {folder / name} cannot be used ({error}), so it is compiled again.")
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep the compiled code in the first folder that can be written."""
        if compiled.library.has_dynamic_globals or any(not lifted.can_cache for lifted in compiled.lifted):
            return
        content = self._stamp + _dumps(compiled._reduce())
        content = hashlib.sha256(content).digest() + content
        folders = _folders(self._source)
        for folder in folders:
            if folder in _refused:
                continue
            try:
                _write(folder, self._file_name(signature, compiled.codegen), content)
            except OSError as error:
                _refused[folder] = f"{folder} cannot be written ({error.strerror or error})"
                continue
            if folder.parent == _temporary():
                _warn(f"Compiled kernels are kept in {folder}, because {_refused[folders[0]]}. {_ADVICE}")
            return
        _warn(f"Kernels are compiled again in every process, because {_refused[folders[0]]}. {_ADVICE}")

    def _file_name(self, signature: Any, codegen: Any) -> str:
        types_and_machine = hashlib.sha256(repr((str(signature), codegen.magic_tuple())).encode()).hexdigest()
        name = self._kernel.py_func.__qualname__.replace("<", "").replace(">", "")
        return f"{self._source.stem}.{name}.{types_and_machine[:16]}.{sys.implementation.cache_tag}.kernel"

    def enable(self) -> None:
        """Do nothing: the cache is always enabled."""

    disable = flush = enable


def _folders(source: Path) -> list[Path]:
    """The folders for kernels of a source file, best first. All are read; the first writable one is written to."""
    code = hashlib.sha256(str(source.parent.absolute()).encode()).hexdigest()[:16]
    below = f"{source.parent.name}-{code}"
    if _config.CACHE_DIR:
        return [Path(_config.CACHE_DIR, below), _temporary() / below]
    home = Path(_app_dirs("partwise", appauthor=False).user_cache_dir)
    return [
        *([source.parent / "__pycache__"] if source.is_file() else []),  # not so for code in a zip file or at a prompt
        *([home / below] if home.is_absolute() else []),  # it stays "~/.cache" for a user without a home
        _temporary() / below,
    ]


@functools.cache
def _temporary() -> Path:
    try:
        folder = tempfile.gettempdir()
    except OSError:  # there is none that can be written
        folder = os.devnull
    return Path(folder, f"partwise-kernels-{os.getuid()}" if hasattr(os, "getuid") else "partwise-kernels")


def _check_owner(folder: Path) -> None:
    """Refuse a temporary folder that someone else made under our name: reading a pickle can run code."""
    if folder.parent == _temporary() and hasattr(os, "getuid"):
        status = folder.parent.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(f"{folder.parent} belongs to someone else")


def _read(folder: Path, name: str) -> bytes:
    _check_owner(folder)
    return (folder / name).read_bytes()


def _write(folder: Path, name: str, content: bytes) -> None:
    if folder.parent == _temporary():
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        _check_owner(folder)
    folder.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(prefix=f"{name}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(aside).chmod(0o644)  # as other files of a shared installation: mkstemp lets nobody else read it
        Path(aside).replace(folder / name)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def _warn(sentence: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(sentence, KernelCacheWarning, stacklevel=2)
