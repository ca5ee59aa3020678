"""Cells of CSV and TSV text, in blocks: plain text is split directly, quoted text by the csv module."""

import csv
import io
import itertools
import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path

import numpy as np

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.reading import ReadOptions
from partwise.io.source import COUNT_FIRST, bad_file, is_prose, text_chunks
from partwise.io.sparse import Array

# float64 cannot represent all whole numbers beyond this; longer texts are not counts.
_LARGEST_EXACT, _LONGEST_WHOLE = 2.0**53, 300
_LARGEST = np.iinfo(np.int64).max
_LONE_SIGN = re.compile(rb"[+-](?![0-9])")
MISSING = frozenset(["", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL"])
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_BATCH = 2**13
# Stands for an empty cell. A text that contains it is parsed cell by cell.
_NEVER = b"-9223372036854775807"

Row = tuple[int, list[str]]
Text = tuple[int, str]


@dataclass(frozen=True)
class Lines:
    """Lines with equal numbers of cells: the number of each line, and all cells one after the other."""

    numbers: Sequence[int]
    cells: list[str]


def delimiter_of(path: Path, options: ReadOptions) -> str:
    """The delimiter given by the option or the file name."""
    if options.delimiter is not None:
        return options.delimiter
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix not in _DELIMITERS:
        raise InvalidInputError(f"the name {path.name} does not say how cells are separated; pass delimiter=.")
    return _DELIMITERS[suffix]


class CellReader:
    """A text file whose lines all have as many cells as the first; empty lines are skipped.

    Parameters
    ----------
    path, delimiter, limit
        The file, its cell separator, and the memory limit.
    """

    def __init__(self, path: Path, delimiter: str, limit: int) -> None:
        self.path, self.delimiter = path, delimiter
        self._texts = text_chunks(path, limit)
        self._rows: Iterator[Row] | None = None
        self.first = self._read_first()

    def _read_first(self) -> Row | None:
        """The first line. It decides whether the file can be split directly."""
        before, text = next(self._texts, (0, ""))
        line, end, rest = text.partition("\n")
        if '"' not in line and line.strip("\r") and "\r" not in line[:-1]:
            self._texts = itertools.chain([(before + 1, rest)] if end else [], self._texts)
            return before + 1, line.removesuffix("\r").split(self.delimiter)
        self._rows = self._csv_rows(itertools.chain([(before, text)], self._texts))
        return next(self._rows, None)

    def blocks(self, *, with_first: bool) -> Iterator[Lines]:
        """All lines after the first, or including it."""
        if self.first is None:
            return
        number, cells = self.first
        width = len(cells)
        if with_first:
            yield Lines([number], list(cells))
        while self._rows is None and (numbered := next(self._texts, None)) is not None:
            block = self._split(*numbered, width)
            if block is None:
                self._rows = self._csv_rows(itertools.chain([numbered], self._texts))
            elif block.cells:
                yield block
        while self._rows is not None and (batch := list(itertools.islice(self._rows, _BATCH))):
            for number, cells in batch:
                if len(cells) != width:
                    raise _ragged(self.path, number, len(cells), width)
            yield Lines([number for number, _ in batch], list(itertools.chain.from_iterable(c for _, c in batch)))

    def _split(self, before: int, text: str, width: int) -> Lines | None:
        """Split plain text; None if it has quotes, blank lines, odd line ends or lines of another width."""
        if '"' in text:
            return None
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        text = text.removesuffix("\n")
        if not text:
            return Lines([], [])
        lines = text.split("\n")
        plain = "\r" not in text and "" not in lines
        if not plain or set(map(methodcaller("count", self.delimiter), lines)) != {width - 1}:
            return None
        cells = text.replace("\n", self.delimiter).split(self.delimiter)
        return Lines(range(before + 1, before + 1 + len(lines)), cells)

    def _csv_rows(self, texts: Iterator[Text]) -> Iterator[Row]:
        """Rows from the csv module, which understands quotes; from here to the end of the file."""
        first_before, first_text = next(texts, (0, ""))
        later = (text for _, text in texts)
        lines = (line for text in itertools.chain([first_text], later) for line in io.StringIO(text, newline=""))
        rows = csv.reader(lines, delimiter=self.delimiter, strict=True)
        try:
            for cells in rows:
                if cells:
                    yield first_before + rows.line_num, cells
        except csv.Error as error:
            number = first_before + rows.line_num
            if "field larger" in str(error):
                told = f"line {number} has a field of more than {csv.field_size_limit():,} characters, as raw text has"
                raise bad_file(self.path, told, COUNT_FIRST) from error
            raise bad_file(self.path, f"line {number} is not valid CSV ({error})", "correct that line") from error


def _ragged(path: Path, line: int, found: int, expected: int) -> FileFormatError:
    remedy = "give every line the same number of cells"
    if line == 2 and found == expected + 1:
        remedy = "name the first column too (R: write.table with col.names=NA)"
    return bad_file(path, f"line {line} has {found} cells where {expected} are expected", remedy)


def not_a_number(path: Path, place: str, text: str, hint: str = "") -> FileFormatError:
    """The error for a cell that `parse_numbers` refuses."""
    if is_prose(text):
        return bad_file(path, f"{place} holds {text[:40]!r}…, which looks like raw text", COUNT_FIRST)
    remedy = f"write a number, or leave the cell empty if it is missing{hint}"
    if is_rounded(text):
        return bad_file(path, f"{place} holds {text[:40]}, which is above 2^53 and would be rounded", "scale it down")
    return bad_file(path, f"{place} holds {text[:40]!r}, which is not a number", remedy)


def parse_numbers(cells: list[str]) -> Array:
    """Numbers, NaN where missing; ValueError if a cell is something else."""
    joined = ",".join(cells)
    whole = _whole_numbers(joined.encode(), len(cells))
    if whole is not None:
        return whole
    # Python reads 1_000 as a number; other programs do not.
    if "_" in joined:
        raise ValueError
    try:
        found = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
    except ValueError:
        numbers = (math.nan if cell in MISSING or cell.strip() in MISSING else float(cell) for cell in cells)
        found = np.fromiter(numbers, dtype=np.float64, count=len(cells))
    if any(is_rounded(cells[at]) for at in np.flatnonzero(np.abs(found) >= _LARGEST_EXACT)):
        raise ValueError
    return found


def is_rounded(cell: str) -> bool:
    """Whether a cell holds a whole number, written out, that float64 cannot represent."""
    text = cell.strip().lstrip("+-")
    return text.isdecimal() and len(text) < _LONGEST_WHOLE and int(float(text)) != int(text)


def _whole_numbers(joined: bytes, count: int) -> Array | None:
    """Parse comma-joined cells at once if all are integers or empty: three times faster than one by one."""
    if not count or joined.translate(None, b"0123456789,-") or _NEVER in joined:
        return None
    filler = b"," + _NEVER + b","
    closed = (b"," + joined + b",").replace(b",,", filler).replace(b",,", filler)
    values = flat_integers(closed[1:-1], ",")
    if values is None or len(values) != count:
        return None
    numbers = values.astype(np.float64)
    missing = values == int(_NEVER)
    if np.any((numbers.astype(np.int64) != values) & ~missing):
        raise ValueError
    numbers[missing] = math.nan
    return numbers


def first_that_is_no_number(cells: list[str]) -> int:
    """Position of the first cell that `parse_numbers` refuses."""
    for position, cell in enumerate(cells):
        try:
            parse_numbers([cell])
        except ValueError:
            return position
    return 0


def flat_integers(text: bytes, separator: str = " ") -> Array | None:
    """All integers of a text, separated by white space or a comma; None if it holds anything else or beyond 64 bits."""
    text = text.strip()
    if not text:
        return np.zeros(0, dtype=np.int64)
    if (b"-" in text or b"+" in text) and _LONE_SIGN.search(text):  # NumPy reads a sign at the end as zero
        return None
    with warnings.catch_warnings():
        # Older versions of NumPy only warn about something that is not a number.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            values = np.fromstring(text, dtype=np.int64, sep=separator)
        except (ValueError, DeprecationWarning):
            return None
    # Numbers beyond the range are clipped to it.
    return None if values.max() == _LARGEST or values.min() == -_LARGEST - 1 else values
