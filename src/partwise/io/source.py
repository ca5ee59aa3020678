"""Open untrusted files: sizes are checked before memory is allocated, and damage gives a one-sentence error."""

import contextlib
import errno
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from partwise.errors import FileFormatError, InvalidInputError, PartwiseError

MEMORY_LIMIT_VARIABLE = "PARTWISE_MEMORY_LIMIT"
# Data are copied once more when they are converted to their final form.
_SHARE_OF_AVAILABLE = 0.5
_WHEN_UNKNOWN = 4 * 2**30
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
# Deflate compresses at most this much, which bounds the content of a .gz file.
_LARGEST_DEFLATE_RATIO = 1032
_CHUNK = 2**20
FRESH_COPY = "fetch a fresh copy or write it again"
COUNT_FIRST = "count words first, with `partwise count` or partwise.count_texts (or CountVectorizer of scikit-learn)"
"""What to do with raw text where counts are expected."""
_FEWEST_WORDS = 3
_LONGEST_WORD = 80


def bytes_allowed(memory_limit: int | float | str | None = None) -> int:
    """Number of bytes that reading one file may use.

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
    """Turn ``8589934592`` or ``"8 GB"`` into bytes; ``name`` is the argument to name in a message."""
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value.strip())
        if match is None:
            raise InvalidInputError(f"{name}={value!r} is not an amount of memory; give bytes or text such as '8 GB'.")
        return int(float(match[1]) * _UNITS[match[2].lower()])
    if not value > 0 or value == float("inf"):
        raise InvalidInputError(f"{name}={value!r} is not an amount of memory; give a positive number of bytes.")
    return int(value)


def refuse_above(limit: int, needed: int, where: str) -> None:
    """Raise if a file declares more than fits. Call it before allocating anything of that size."""
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
    """Memory available without swapping, on the machine or in the container if that has less."""
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


def bad_file(path: Path, what: str, remedy: str = FRESH_COPY) -> FileFormatError:
    """The error message for a file that cannot be read."""
    return FileFormatError(f"cannot read {path}: {what}; {remedy}.")


def is_prose(text: str) -> bool:
    """Whether a cell looks like a document rather than a name or a mistyped number."""
    return len(text) > _LONGEST_WORD or len(text.split(None, _FEWEST_WORDS)) > _FEWEST_WORDS


def check_regular(path: Path) -> None:
    """Raise a clear error unless ``path`` is an ordinary file."""
    check_name(path)
    if path.is_dir():
        raise bad_file(path, "it is a directory", "give the name of a file inside it")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}; check the name.")
    if not path.is_file():
        raise bad_file(path, "it is a device or a pipe", "save the data to an ordinary file first")


def check_name(path: Path) -> None:
    """Raise a clear error for a name that no file can have."""
    try:
        path.stat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # too long, a null character, or half a character
        if getattr(error, "errno", None) in {None, errno.ENAMETOOLONG, errno.EILSEQ}:
            name = str(path)[:40].encode("unicode_escape").decode()
            raise FileNotFoundError(f"there is no file {name}...: no file can have such a name.") from error


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the system and of decompressors, raised while a file is read, into one sentence."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise bad_file(path, f"its compressed data are truncated or damaged ({_brief(error)})") from error
    except PermissionError as error:
        raise PermissionError(f"cannot read {path}: permission denied; ask its owner for read access.") from error
    except FileNotFoundError as error:
        if path.exists():  # then a part of it is missing
            raise bad_file(path, f"a part of it is missing ({_brief(error)})") from error
        raise FileNotFoundError(f"there is no file {path}; check the name.") from error


@contextlib.contextmanager
def library(path: Path, kind: str) -> Iterator[None]:
    """Turn any error of a library on a damaged file into one sentence; wrap calls of that library only.

    Libraries document few of the exceptions that damaged files cause, so this catches many.
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


def text_lines(path: Path, limit: int, encoding: str = "utf-8") -> Iterator[str]:
    """Lines of text with their line ends, decompressed as they are read. An absurdly long line is refused."""
    for _, text in text_chunks(path, limit, encoding):
        yield from io.StringIO(text, newline="")


def text_chunks(path: Path, limit: int, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Pieces of text that end at line ends, each with the number of lines before it."""
    before = 0
    for chunk in byte_chunks(path, limit, _CHUNK):
        try:
            text = chunk.decode(encoding)
        except UnicodeDecodeError as error:
            line = before + 1 + chunk.count(b"\n", 0, error.start)
            raise bad_file(path, f"line {line} is not {encoding.upper()} text", "save it as UTF-8") from error
        yield before, text if before else text.removeprefix("\ufeff")
        before += chunk.count(b"\n")


def byte_chunks(path: Path, limit: int, size: int = 2**24) -> Iterator[bytes]:
    """Pieces of bytes that end at line ends, except perhaps the last. A piece is larger only if a single line is."""
    longest = max(limit // 16, _CHUNK)
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


def check_entries_fit(path: Path, entries: int, bytes_each: int) -> None:
    """Refuse a header that declares more entries than the file can hold."""
    largest = path.stat().st_size * (_LARGEST_DEFLATE_RATIO if path.suffix.lower() == ".gz" else 1)
    if entries * bytes_each > largest + bytes_each:
        raise bad_file(path, f"its header declares {entries} entries, more than a file of this size can hold")


def _brief(error: BaseException) -> str:
    """First line of another library's message, shortened, without a final full stop."""
    text = str(error).strip() or type(error).__name__
    return os.fsdecode(text.splitlines()[0])[:160].rstrip(". ")
