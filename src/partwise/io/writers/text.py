"""Cells and text files: numbers that read back to the same bits, labels that no spreadsheet takes for a formula."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from partwise.io.atomic import atomic_path

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def neutralised(text: str) -> str:
    """The text, with an apostrophe before it if a spreadsheet could run it as a formula; numbers stay as they are.

    Examples
    --------
    >>> neutralised("=SUM(A1)"), neutralised("-1.5"), neutralised("gene")
    ("'=SUM(A1)", '-1.5', 'gene')
    """
    if not text.startswith(_FORMULA_STARTS):
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text


def format_cells(values: np.ndarray[Any, Any], *, neutralise: bool) -> list[str]:
    """One row or column of cells as text: shortest decimals that read back the same, missing values empty."""
    kind = values.dtype.kind
    if kind == "b":
        return [str(int(value)) for value in values.tolist()]
    if kind == "f":
        # Through text, since the nearest double of a float32 has many more digits than it needs.
        numbers = values.tolist() if values.dtype == np.float64 else [float(text) for text in values.astype(str)]
        return ["" if number != number else repr(number).removesuffix(".0") for number in numbers]
    texts = [str(value) for value in values.tolist()]
    return texts if kind in "iu" or not neutralise else [neutralised(text) for text in texts]


@contextlib.contextmanager
def text_file(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A UTF-8 file to write, compressed if the name ends in .gz, renamed into place at the end."""
    with atomic_path(path) as aside, binary_file(aside) as raw, io.TextIOWrapper(raw, "utf-8", newline="") as text:
        yield text


@contextlib.contextmanager
def binary_file(path: Path) -> Iterator[Any]:
    """A file to write bytes to, compressed if the name ends in .gz; equal content gives equal bytes."""
    with path.open("wb") as raw:
        if path.suffix.lower() != ".gz":
            yield raw
            return
        # Neither the time nor the temporary name is stored.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as compressed:
            yield compressed


class _UnixLines:
    """Ends lines with a line feed alone: told so directly, the csv module would leave carriage returns unquoted."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, line: str) -> int:
        return self.file.write(line[:-2] + "\n")


def write_rows(path: str | os.PathLike[str], delimiter: str, rows: Iterable[Sequence[str]]) -> None:
    """Write lines of cells."""
    with text_file(path) as file:
        csv.writer(_UnixLines(file), delimiter=delimiter, lineterminator="\r\n").writerows(rows)


def write_labels(path: Path, labels: Iterable[str]) -> None:
    """Write one label a line."""
    with text_file(path) as file:
        file.writelines(f"{label}\n" for label in labels)
