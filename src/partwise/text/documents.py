"""Documents, one after the other, from folders, tables, lines or sequences. Only one is in memory at a time."""

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from partwise.errors import InvalidInputError
from partwise.io.optional import require
from partwise.io.source import (
    bad_file,
    bytes_allowed,
    check_regular,
    is_prose,
    library,
    open_binary,
    reading,
    text_lines,
)

_BATCH = 4096
_LARGEST_FIELD = 2**31 - 1


class Document(NamedTuple):
    """A text, its name, and its group and time (None: unknown)."""

    text: str
    name: str
    group: str | None = None
    time: str | None = None


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold the text, name, group and time of a document."""

    text: str | None = None
    id: str | None = None
    group: str | None = None
    time: str | None = None

    def given(self) -> dict[str, str]:
        """Roles, and the columns that were named for them."""
        return {role: name for role, name in vars(self).items() if name is not None}

    def found_in(self, names: Sequence[str], where: object) -> dict[str, str]:
        """The columns, checked against the table. A table with one column needs no name for it."""
        wanted = self.given()
        if "text" not in wanted:
            if len(names) != 1:
                raise InvalidInputError(f"say which column of {where} holds the text with text_column=: {_few(names)}.")
            wanted["text"] = names[0]
        for role, name in wanted.items():
            if name not in names:
                raise InvalidInputError(f"{where} has no column {name!r} ({role}_column=): it has {_few(names)}.")
        return wanted


def documents(source: Any, columns: Columns, encoding: str) -> Iterator[Document]:
    """Documents from a folder, a file, a frame or a sequence of texts.

    Parameters
    ----------
    source
        As for `partwise.count_texts`.
    columns
        Which columns of a table hold what.
    encoding
        Encoding of text files.
    """
    if isinstance(source, str) and (is_prose(source) or "\n" in source):
        raise InvalidInputError("source is a text itself: pass a list of texts, or the name of a file or folder.")
    if isinstance(source, str | os.PathLike):
        return _of_path(Path(source).expanduser(), columns, encoding)
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        wanted = columns.found_in([str(name) for name in source.columns], "source")
        return _from_records(zip(*(source[name] for name in wanted.values()), strict=True), list(wanted))
    if columns.given():
        raise InvalidInputError(f"{next(iter(columns.given()))}_column= is for tables: pass one, or drop it.")
    if not isinstance(source, Iterable) or isinstance(source, bytes):
        raise InvalidInputError(f"source is a {type(source).__name__}: pass a file, folder, frame or list of texts.")
    return _from_records(((text,) for text in source), ["text"])


def _of_path(path: Path, columns: Columns, encoding: str) -> Iterator[Document]:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}; check the name.")
    reader = _folder if path.is_dir() else _READERS.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    if reader is None:
        raise InvalidInputError(
            f"{path} is not text that can be counted: give a folder of .txt files, a .csv, .tsv, .parquet or .jsonl"
            " file, or a .txt file with one document per line."
        )
    if reader in (_folder, _lines) and columns.given():
        raise InvalidInputError(f"{path} has no columns: drop {next(iter(columns.given()))}_column=.")
    if reader is not _folder:
        check_regular(path)
    return reader(path, columns, encoding)


def _folder(path: Path, columns: Columns, encoding: str) -> Iterator[Document]:
    """Each .txt file is a document, and folders inside are groups."""
    files = sorted(file for file in path.rglob("*.txt*") if file.name.endswith((".txt", ".txt.gz")) and file.is_file())
    if not files:
        raise InvalidInputError(f"{path} holds no .txt files: give the folder that holds the texts.")
    nested = any(file.parent != path for file in files)
    for file in files:
        place = file.relative_to(path)
        with reading(file), open_binary(file) as stream:
            content = stream.read()
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            line = 1 + content.count(b"\n", 0, error.start)
            remedy = "say which encoding it has with encoding=, such as 'latin-1'"
            raise bad_file(file, f"line {line} is not {encoding.upper()} text", remedy) from error
        name = place.as_posix().removesuffix(".gz").removesuffix(".txt")
        yield Document(text, name, place.parent.as_posix() if nested else None)


def _lines(path: Path, columns: Columns, encoding: str) -> Iterator[Document]:
    """One document per line, named by its line number."""
    lines = text_lines(path, bytes_allowed(), encoding)
    return (Document(line, str(number)) for number, line in enumerate(lines, start=1))


def _table(path: Path, columns: Columns, encoding: str) -> Iterator[Document]:
    delimiter = "\t" if ".tsv" in path.suffixes[-2:] else ","
    with _long_fields():
        rows = csv.reader(text_lines(path, bytes_allowed(), encoding), delimiter=delimiter)
        try:
            header = next(rows, None)
            if header is None:
                raise bad_file(path, "it is empty", "write a line with the names of the columns first")
            wanted = columns.found_in(header, path)
            positions = [header.index(name) for name in wanted.values()]
            roles = list(wanted)
            for at, row in enumerate(filter(None, rows), start=1):
                if len(row) != len(header):
                    told = f"line {rows.line_num} has {len(row)} cells where the first has {len(header)}"
                    raise bad_file(path, told, "quote texts that hold the separator or line ends")
                yield _document(dict(zip(roles, (row[position] for position in positions), strict=True)), at)
        except csv.Error as error:
            raise bad_file(path, f"line {rows.line_num} is not valid CSV ({error})", "correct that line") from error


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let the csv module read fields of any length. By default it refuses long ones."""
    before = csv.field_size_limit(_LARGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _jsonl(path: Path, columns: Columns, encoding: str) -> Iterator[Document]:
    wanted: dict[str, str] = {}
    for number, line in enumerate(text_lines(path, bytes_allowed(), encoding), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise bad_file(path, f"line {number} is not JSON", "write one JSON object per line") from error
        if not isinstance(record, dict):
            raise bad_file(path, f"line {number} is not a JSON object", "write one JSON object per line")
        wanted = wanted or columns.found_in(list(record), path)
        absent = [name for name in wanted.values() if name not in record]
        if absent:
            raise bad_file(path, f"line {number} has no {absent[0]!r}", "give every object the same keys")
        yield _document({role: record[name] for role, name in wanted.items()}, number)


def _parquet(path: Path, columns: Columns, encoding: str) -> Iterator[Document]:
    parquet = require("pyarrow.parquet", "arrow", "reading Parquet files")
    with library(path, "a Parquet file"), parquet.ParquetFile(path) as file:
        wanted = columns.found_in(list(file.schema_arrow.names), path)
        batches = file.iter_batches(batch_size=_BATCH, columns=list(dict.fromkeys(wanted.values())))
        records = (
            values
            for batch in batches
            for values in zip(*(batch.column(name).to_pylist() for name in wanted.values()), strict=True)
        )
        yield from _from_records(records, list(wanted))


_Reader = Callable[[Path, Columns, str], Iterator[Document]]
_READERS: dict[str, _Reader] = {".csv": _table, ".tsv": _table, ".jsonl": _jsonl, ".parquet": _parquet, ".txt": _lines}


def _from_records(records: Iterable[tuple[Any, ...]], roles: list[str]) -> Iterator[Document]:
    for at, values in enumerate(records, start=1):
        yield _document(dict(zip(roles, values, strict=True)), at)


def _document(record: dict[str, Any], number: int) -> Document:
    text = record["text"]
    if text is None or text != text:  # missing (None or NaN): a document without words
        text = ""
    if not isinstance(text, str):
        raise InvalidInputError(f"text {number} is a {type(text).__name__}: every document must be text.")
    known = {role: None if record.get(role) is None else str(record[role]) for role in ("group", "time")}
    name = record.get("id")
    return Document(text, str(number if name is None else name), **known)


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(name[:40] for name in names[:12])
    return shown + (", …" if len(names) > 12 else "")
