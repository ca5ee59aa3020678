"""Write files completely or not at all: under a temporary name, flushed to disk, then renamed.

Temporary names say which process made them, so that those of killed processes can be removed.
"""

import contextlib
import errno
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

FilePath = str | os.PathLike[str]
_NAME = re.compile(r"\.?partwise-([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\b")
# A file of another machine, or from before a restart, counts as abandoned after a day without a write.
_FOREIGN_SECONDS = 86_400.0
_swept: set[str] = set()


def temporary_name() -> str:
    """A new name with this machine and process in it. `sweep` uses it to see whether the file is still in use."""
    return f"partwise-{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def sweep(folder: Path) -> None:
    """Remove files that killed processes left in a folder, once per process and folder.

    Only names made by `temporary_name` are touched: those of this machine whose process is gone, and those of other
    machines that have not been written to for a day.

    Parameters
    ----------
    folder
        Where this process is about to write.
    """
    place = os.fspath(folder)
    if place in _swept:
        return
    _swept.add(place)
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(place)):
            found = _NAME.match(entry.name)
            if found and _abandoned(entry, found[1], int(found[2])):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):
                        Path(entry.path).unlink()


def _abandoned(entry: os.DirEntry[str], machine: str, process: int) -> bool:
    if machine == _machine() and os.name == "posix":  # on other systems, asking about a process would end it
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            pass
        return False
    try:
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > _FOREIGN_SECONDS
    except OSError:
        return False


@functools.cache
def _machine() -> str:
    """A checksum of the machine, its last boot, and the process namespace (containers have their own)."""
    facts = [platform.node()]
    with contextlib.suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with contextlib.suppress(OSError):
        facts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return hashlib.blake2b("\n".join(facts).encode(), digest_size=4).hexdigest()


# File systems allow names of 255 bytes. The temporary name keeps this many for the suffix.
_KEPT_NAME_LENGTH = 40
# Libraries in other languages put the system's error number into their text.
_NUMBER_IN_TEXT = re.compile(r"(?:os error|errno =|Errno|code:) (\d+)")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_OF_THE_DISK = _NO_ROOM | {errno.EIO, errno.EFBIG, errno.EROFS}
# A disk with less free space than this is full.
_PAGE = 4096


@contextlib.contextmanager
def atomic_path(path: FilePath) -> Iterator[Path]:
    """Provide a temporary path to write to, and rename it to ``path`` if the block ends without an error.

    The temporary file is in the same folder and ends in the same name, for writers that look at the suffix. It is
    removed if the block raises. An existing file keeps its permissions; a new one gets the default permissions of the
    process. A symbolic link is followed, not replaced.

    Parameters
    ----------
    path
        The file to write.

    Yields
    ------
    Path
        The temporary path to write to.

    Raises
    ------
    OSError
        The file cannot be written there; the message says why and what to do.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "result.txt") as aside:
    ...     _ = aside.write_text("whole")
    >>> (folder / "result.txt").read_text()
    'whole'
    """
    target = Path(os.path.realpath(path))
    mode = _existing_mode(target)
    aside = target.parent / f".{temporary_name()}-{target.name[-_KEPT_NAME_LENGTH:]}"
    try:
        # Inside, because an interrupt may come as soon as the file is there.
        _reserve(aside, target)
        if mode is None:
            # Some writers replace the file by a new one that only its owner may read.
            mode = stat.S_IMODE(aside.stat().st_mode)
        try:
            yield aside
            _settle(aside, target, mode)
        except Exception as error:
            # Check this before the file is removed, because that frees space.
            of_the_disk = disk_error(error, target)
            if of_the_disk is None:
                raise
            raise of_the_disk from error
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise


def write_atomically(path: FilePath, writer: Callable[[Path], object]) -> None:
    """Let ``writer`` write a temporary file, then rename it to ``path``; see `atomic_path`.

    Parameters
    ----------
    path
        The file to write.
    writer
        Called with the path to write to; its result is ignored.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "result.txt"
    >>> write_atomically(path, lambda aside: aside.write_text("whole"))
    >>> path.read_text()
    'whole'
    """
    with atomic_path(path) as aside:
        writer(aside)


def _existing_mode(target: Path) -> int | None:
    """Permissions of the file to be replaced; anything but a regular file is refused."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:  # for instance, the name is too long
        raise _explained(error, target) from error
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"cannot write {target}: it is a directory; give the name of a file.")
    if not stat.S_ISREG(mode):
        raise OSError(f"cannot write {target}: it is a device or a pipe; give the name of an ordinary file.")
    return stat.S_IMODE(mode)


def _reserve(aside: Path, target: Path) -> None:
    """Create the empty temporary file, with the permissions that the process gives to new files."""
    sweep(target.parent)
    try:
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise _explained(error, target) from error


def _settle(aside: Path, target: Path, mode: int) -> None:
    try:
        aside.chmod(mode)
        _flush(aside, os.O_RDWR)
        aside.replace(target)
    except OSError as error:
        raise _explained(error, target) from error
    # Otherwise a power cut could undo the rename. Not every system can flush a folder; the file is complete anyway.
    with contextlib.suppress(OSError):
        _flush(target.parent, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_error(error: Exception, target: Path) -> OSError | None:
    """The message for an error if the disk caused it, whatever class the library raised; None if it did not.

    Parameters
    ----------
    error
        The error raised while ``target`` was written. What was written so far is still there.
    target
        The file or folder.
    """
    number = getattr(error, "errno", None)
    found = _NUMBER_IN_TEXT.search(str(error))
    if number is None and found:
        number = int(found[1])
    if number is None and "Not enough free space" in str(error):
        number = errno.ENOSPC
    if number is None and not isinstance(error, ValueError | TypeError):
        # NumPy may only say that it could not write everything.
        with contextlib.suppress(OSError):
            number = errno.ENOSPC if shutil.disk_usage(target.parent).free < _PAGE else None
    return _explained(OSError(number, os.strerror(number)), target) if number in _OF_THE_DISK else None


def _explained(error: OSError, target: Path) -> OSError:
    """The same kind of error, with a message that says what to do."""
    folder = target.parent
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return type(error)(f"cannot write {target}: there is no directory {folder}; create it first.")
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return type(error)(f"cannot write {target}: no permission to write in {folder}; choose another directory.")
    if error.errno in _NO_ROOM:
        return type(error)(f"cannot write {target}: the disk is full; free some space or choose another directory.")
    if error.errno == errno.ENAMETOOLONG:
        return type(error)(f"cannot write {target}: the name is too long; give a shorter one.")
    return type(error)(f"cannot write {target}: {error.strerror or error}; choose another file name or directory.")
