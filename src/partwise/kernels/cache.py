"""Compiled kernels on disk: never stale, and never in the way of a fit.

numba's own cache notices that the file of a kernel changed, but not that a kernel which it calls did, and it raises
where it cannot write or read. Here each compiled kernel is one file that carries a fingerprint of everything that its
machine code depends on (`partwise.kernels.code_fingerprint`). A file with another fingerprint is replaced.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import stat
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from numba.core import caching, compiler, config, serialize
from numba.misc import appdirs

from partwise.errors import KernelCacheWarning
from partwise.kernels.code_fingerprint import fingerprint

# numba is typed in part only.
_dumps: Any = serialize.dumps
_rebuild: Any = compiler.CompileResult._rebuild
_config: Any = config
_app_dirs: Any = appdirs.AppDirs

_DIGEST = hashlib.sha256().digest_size
_ADVICE = "Set NUMBA_CACHE_DIR to a folder that you can write."

# Why folders could not be written: they are not tried again. numba compiles under a lock, so this needs none.
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
        """Nothing to do: it is always enabled."""

    disable = flush = enable


def _folders(source: Path) -> list[Path]:
    """The folders for kernels of a source file, best first: all are read, the first that can be written is written."""
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
