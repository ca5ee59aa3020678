"""Opening files that may be compressed, truncated or hostile, and saying what is wrong with them in one sentence."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from partwise.errors import FileFormatError, PartwiseError
from partwise.io.limits import format_bytes

# Deflate cannot shrink data more than this, so it bounds what a .gz file can hold.
_LARGEST_DEFLATE_RATIO = 1032
_CHUNK = 2**20
FRESH_COPY = "fetch a fresh copy or write it again"


def bad_file(path: Path, what: str, remedy: str = FRESH_COPY) -> FileFormatError:
    """The one sentence for a file that cannot be read."""
    return FileFormatError(f"cannot read {path}: {what}; {remedy}.")


def check_regular(path: Path) -> None:
    """Raise a clear error unless ``path`` is an ordinary file."""
    if path.is_dir():
        raise bad_file(path, "it is a directory", "give the name of a file inside it")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}; check the name.")
    if not path.is_file():
        raise bad_file(path, "it is a device or a pipe", "save the data to an ordinary file first")


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the system and the decompressors raise while a file is read into one sentence."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise bad_file(path, f"its compressed data are truncated or damaged ({_brief(error)})") from error
    except PermissionError as error:
        raise PermissionError(f"cannot read {path}: permission denied; ask its owner for read access.") from error
    except FileNotFoundError as error:
        if path.exists():  # then it is a part of it that is missing
            raise bad_file(path, f"a part of it is missing ({_brief(error)})") from error
        raise FileNotFoundError(f"there is no file {path}; check the name.") from error


@contextlib.contextmanager
def library(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one sentence; wrap calls of that library only.

    Libraries document few of the exceptions that damaged files make them raise, hence the broad net.
    """
    try:
        with reading(path):
            yield
    except (PartwiseError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        raise bad_file(path, f"it is truncated, damaged or not {kind} ({_brief(error)})") from error


def open_binary(path: Path) -> BinaryIO:
    """Open for reading bytes, through gzip if the name ends in .gz."""
    if path.suffix.lower() == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def text_lines(path: Path, limit: int) -> Iterator[str]:
    """Lines of UTF-8 text with their ends, decompressed as they are read; a line beyond all reason is refused."""
    for _, text in text_chunks(path, limit):
        yield from io.StringIO(text, newline="")


def text_chunks(path: Path, limit: int) -> Iterator[tuple[int, str]]:
    """Pieces of UTF-8 text that end at line ends, each with the number of lines before it."""
    before = 0
    for chunk in byte_chunks(path, limit, _CHUNK):
        try:
            text = chunk.decode("utf-8")
        except UnicodeDecodeError as error:
            line = before + 1 + chunk.count(b"\n", 0, error.start)
            raise bad_file(path, f"line {line} is not UTF-8 text", "save it with UTF-8 encoding") from error
        yield before, text if before else text.removeprefix("\ufeff")
        before += chunk.count(b"\n")


def byte_chunks(path: Path, limit: int, size: int = 2**24) -> Iterator[bytes]:
    """Bytes in pieces that end at line ends, the last perhaps not; a piece is larger only if one line is."""
    longest = _longest_line(limit)
    with reading(path), open_binary(path) as stream:
        rest = b""
        while chunk := stream.read(size):
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                rest += chunk
                if len(rest) > longest:
                    raise bad_file(path, f"it has a line longer than {format_bytes(longest)}")
                continue
            yield rest + chunk[:cut]
            rest = chunk[cut:]
        if rest:
            yield rest


def _longest_line(limit: int) -> int:
    return max(limit // 16, _CHUNK)


def largest_content(path: Path) -> int:
    """Bytes that the file can hold at most once decompressed."""
    size = path.stat().st_size
    return size * _LARGEST_DEFLATE_RATIO if path.suffix.lower() == ".gz" else size


def check_entries_fit(path: Path, entries: int, bytes_each: int) -> None:
    """Refuse a header that declares more entries than the file has room for."""
    if entries * bytes_each > largest_content(path) + bytes_each:
        raise bad_file(path, f"its header declares {entries} entries, more than a file of this size can hold")


def _brief(error: BaseException) -> str:
    """First line of a foreign message, short, without a final stop that would break the sentence."""
    text = str(error).strip() or type(error).__name__
    return os.fsdecode(text.splitlines()[0])[:160].rstrip(". ")
