"""Fast parsing of lines of integers, with the line number of the first bad one."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np

from partwise.io.source import bad_file
from partwise.io.sparse import Array

_LARGEST = np.iinfo(np.int64).max
_LONE_SIGN = re.compile(rb"[+-](?![0-9])")
_INTEGER = re.compile(rb"[+-]?[0-9]{1,18}")


def flat_integers(text: bytes, separator: str = " ") -> Array | None:
    """All integers of a text, separated by white space or a comma; None if it holds anything else or beyond 64 bits."""
    text = text.strip()
    if not text:
        return np.zeros(0, dtype=np.int64)
    if (b"-" in text or b"+" in text) and _LONE_SIGN.search(text):  # NumPy takes one at the end for zero
        return None
    with warnings.catch_warnings():
        # Older NumPy only warns when it meets something that is no number.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            values = np.fromstring(text, dtype=np.int64, sep=separator)
        except (ValueError, DeprecationWarning):
            return None
    # Numbers beyond the range are cut to its ends.
    return None if values.max() == _LARGEST or values.min() == -_LARGEST - 1 else values


def parse_integers(path: Path, chunk: bytes, lines_before: int, columns: int) -> Array:
    """An array of shape (lines, columns); blank lines are passed over."""
    values = flat_integers(chunk)
    n_lines = chunk.count(b"\n") + (not chunk.endswith(b"\n") and bool(chunk))
    if values is None or len(values) != columns * n_lines:
        filled_lines = check_lines(path, chunk, lines_before, columns)
        if values is None or len(values) != columns * filled_lines:
            raise bad_file(path, f"the lines after line {lines_before} hold something that is no integer")
    return values.reshape(-1, columns)


def check_lines(path: Path, chunk: bytes, lines_before: int, columns: int) -> int:
    """Count the lines that are not blank; raise at the first that does not hold so many integers."""
    filled = 0
    for number, line in enumerate(chunk.split(b"\n"), start=lines_before + 1):
        words = line.split()
        if words and (len(words) != columns or not all(map(_INTEGER.fullmatch, words))):
            raise bad_file(path, f"line {number} does not hold {columns} integers", "correct that line")
        filled += bool(words)
    return filled
