"""How much memory a file may claim before it is refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

from partwise.errors import FileFormatError, InvalidInputError

MEMORY_LIMIT_VARIABLE = "PARTWISE_MEMORY_LIMIT"
# What is read is copied once more when it is brought into its final form.
_SHARE_OF_AVAILABLE = 0.5
_WHEN_UNKNOWN = 4 * 2**30
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


def bytes_allowed(memory_limit: int | float | str | None = None) -> int:
    """Bytes that reading one file may take.

    Parameters
    ----------
    memory_limit
        Bytes, or text such as ``"8 GB"`` (units are powers of 1024). None takes the environment variable
        ``PARTWISE_MEMORY_LIMIT``, and without it half of the memory that the machine has available now.

    Examples
    --------
    >>> bytes_allowed("1.5 kB")
    1536
    """
    if memory_limit is None:
        text = os.environ.get(MEMORY_LIMIT_VARIABLE, "").strip()
        return parse_bytes(text, MEMORY_LIMIT_VARIABLE) if text else int(_SHARE_OF_AVAILABLE * available_memory())
    return parse_bytes(memory_limit, "memory_limit")


def parse_bytes(value: int | float | str, name: str) -> int:
    """Turn ``8589934592`` or ``"8 GB"`` into bytes; ``name`` is the argument that a message blames."""
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value.strip())
        if match is None:
            raise InvalidInputError(f"{name}={value!r} is not an amount of memory; give bytes or text such as '8 GB'.")
        return int(float(match[1]) * _UNITS[match[2].lower()])
    if not value > 0 or value == float("inf"):
        raise InvalidInputError(f"{name}={value!r} is not an amount of memory; give a positive number of bytes.")
    return int(value)


def refuse_above(limit: int, needed: int, where: str) -> None:
    """Raise when a file declares more than fits; called before anything of that size is allocated."""
    if needed > limit:
        raise FileFormatError(
            f"{where} declares {format_bytes(needed)}, more than the {format_bytes(limit)} that may be used; if the "
            f"file is sound, raise memory_limit (or the environment variable {MEMORY_LIMIT_VARIABLE})."
        )


def format_bytes(count: int) -> str:
    """Bytes in words, for messages."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1024:
            return f"{count} bytes" if unit == "bytes" else f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TB"


def available_memory() -> int:
    """Memory that can be taken now without swapping: of the machine, or of the container if that is less."""
    machine = _machine_memory()
    container = _container_memory()
    return machine if container is None else min(machine, container)


def _machine_memory() -> int:
    try:
        match = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
        if match:
            return int(match[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _WHEN_UNKNOWN


def _container_memory() -> int | None:
    for limit_file, usage_file in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            return max(int(Path(limit_file).read_text()) - int(Path(usage_file).read_text()), 0)
        except (OSError, ValueError):
            continue
    return None
