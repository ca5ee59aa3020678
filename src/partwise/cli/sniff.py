"""What kind of file something is, where a command takes several kinds."""

from __future__ import annotations

from pathlib import Path

_LENGTH_BYTES = 8


def is_safetensors(path: Path) -> bool:
    """Whether a file starts as model files and checkpoints do: a length, then a JSON header of that length.

    Parameters
    ----------
    path
        Any file; False if there is none, or if it is a directory.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(_LENGTH_BYTES + 1)
    except OSError:
        return False
    length = int.from_bytes(start[:_LENGTH_BYTES], "little")
    return len(start) > _LENGTH_BYTES and start[_LENGTH_BYTES:] == b"{" and length <= size - _LENGTH_BYTES
