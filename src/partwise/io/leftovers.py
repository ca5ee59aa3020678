"""Names of temporary files and folders that tell who made them, so that those of killed processes can be removed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from pathlib import Path

_NAME = re.compile(r"\.?partwise-([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\b")
# A file of another machine, or of one that was restarted, counts as left over when nobody wrote to it for a day.
_FOREIGN_SECONDS = 86_400.0
_swept: set[str] = set()


def temporary_name() -> str:
    """A new name that carries this machine and process, by which `sweep` knows whether it is still in use."""
    return f"partwise-{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder, once per process and folder.

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
    if machine == _machine() and os.name == "posix":  # elsewhere, asking about a process would end it
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
    """A checksum of the machine, its last start, and the namespace of processes (containers have their own)."""
    facts = [platform.node()]
    with contextlib.suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with contextlib.suppress(OSError):
        facts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return hashlib.blake2b("\n".join(facts).encode(), digest_size=4).hexdigest()
