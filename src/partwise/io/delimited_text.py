"""CSV and TSV: wide (one line per row) and long (one line per entry)."""

import bisect
import itertools
import re
import warnings
from array import array
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.reading import ReadOptions
from partwise.io.source import COUNT_FIRST, bad_file, refuse_above
from partwise.io.sparse import Array, from_coordinates
from partwise.io.table import Table, label_array, with_labels
from partwise.io.text_cells import CellReader, Lines, delimiter_of, first_that_is_no_number, not_a_number, parse_numbers

# An entry takes 16 bytes, 12 more while all entries are sorted, and its labels.
_BYTES_PER_LINE = 64
_NO_HEADER = "pass header=False if it has no header line"
# Names of rows that are looked at to tell whether they are data.
_MOST_NAMES = 1000
_SUBSTITUTION = re.compile("[ACGT]>[ACGT]")


def read_wide(path: Path, options: ReadOptions) -> Table:
    """Read a dense table; empty cells, NA and NaN are missing and become NaN."""
    for given, own, name in (("vocabulary", options.header, "header"), ("row_labels", options.index, "index")):
        if own and given in options.given() and getattr(options, given) is not False:
            raise InvalidInputError(f"{given} given, but {path} names them itself; pass {name}=False if it does not.")
    reader = CellReader(path, delimiter_of(path, options), options.limit)
    if reader.first is None:
        raise bad_file(path, "it is empty", "write a header line and one line for each row")
    width, n_labels = len(reader.first[1]), options.label_columns if options.index else 0
    if n_labels == 1 and width == 1:
        raise _one_column(path, reader)
    if n_labels > 1 and width <= n_labels:
        raise bad_file(path, f"it has {width} columns, all of them labels", "lower label_columns=")
    names = reader.first[1][n_labels:] if options.header else None
    if names is not None and _is_data(names):
        raise bad_file(path, "line 1 holds numbers where names of columns are expected", _NO_HEADER)
    parts: list[Array] = []
    row_names: list[str] = []
    used = 0
    for block in reader.blocks(with_first=not options.header):
        cells = block.cells
        if n_labels:
            row_names += map(_joined, *(cells[at::width] for at in range(n_labels)))
            for at in range(n_labels):
                del cells[:: width - at]
        try:
            parts.append(parse_numbers(cells))
        except ValueError as error:
            raise _not_a_number(path, block, names, width, n_labels) from error
        used += 8 * len(cells)
        refuse_above(options.limit, used, f"{path} (up to line {block.numbers[-1]})")
    if n_labels == 1 and _is_data(row_names[:_MOST_NAMES]):
        what = "its first column holds numbers, some of them twice, where names of rows are expected"
        warnings.warn(f"{path}: {what}; if these are data, pass index=False.", UserWarning, stacklevel=2)
    n_columns = width - n_labels
    values = np.concatenate(parts) if parts else np.zeros(0)
    if names is not None and names[-1] == "" and np.isnan(values[n_columns - 1 :: n_columns]).all():
        why = f"column {width} has neither a name nor a value, because lines end in {reader.delimiter!r}"
        raise bad_file(path, why, "remove that from every line")
    n_rows = len(row_names) if options.index else len(values) // max(n_columns, 1)
    table = Table(
        values.reshape(n_rows, n_columns),
        row_labels=label_array(row_names, path, options.limit) if options.index else None,
        column_labels=label_array(names, path, options.limit) if names is not None else None,
        source=str(path),
    )
    return with_labels(table, path, options, ())


def _is_data(names: Sequence[str]) -> bool:
    """Whether names are numbers that are not all different, as those of a line or column of data."""
    try:
        parse_numbers(list(names))
    except ValueError:
        return False
    return len(set(names)) < len(names)


def _one_column(path: Path, reader: CellReader) -> FileFormatError:
    """The error for a file in which only row labels were found: most often it has another delimiter."""
    text = reader.first[1][0] if reader.first is not None else ""
    if text.startswith("#"):
        return bad_file(path, "line 1 is a comment", "remove comments")
    other = next((mark for mark in ";\t|, " if mark in text), None)
    remedy = "pass index=False if it holds numbers" if other is None else f"pass delimiter={other!r}"
    if other in (",", " "):
        remedy += f"; if it is raw text, {COUNT_FIRST}"
    return bad_file(path, f"line 1 has one cell when cut at {reader.delimiter!r}", remedy)


def _joined(*labels: str) -> str:
    """Join labels: a substitution and its context become ``A[C>A]A``, anything else is joined by spaces.

    Examples
    --------
    >>> _joined("C>A", "TCG"), _joined("liver", "stage 2")
    ('T[C>A]G', 'liver stage 2')
    """
    if len(labels) == 2 and len(labels[1]) == 3 and _SUBSTITUTION.fullmatch(labels[0]) and labels[1][1] == labels[0][0]:
        return f"{labels[1][0]}[{labels[0]}]{labels[1][2]}"
    return " ".join(labels)


def _not_a_number(path: Path, block: Lines, names: list[str] | None, width: int, n_labels: int) -> FileFormatError:
    """The error for the first bad cell of a block, after its row names were removed."""
    position = first_that_is_no_number(block.cells)
    row, column = divmod(position, width - n_labels)
    place = f"line {block.numbers[row]}, column {column + 1 + n_labels}"
    if names is not None:
        place += f" ({names[column][:40]!r})"
    hint = " (index=False takes the first column for numbers)" if column == 0 and not n_labels else ""
    if column == 0 and n_labels:
        more = n_labels + 1
        hint = f" (label_columns={more} takes it for a label)"
        if width == 3:
            hint = " (format='long' reads lines of row, column and value)"
    return not_a_number(path, place, block.cells[position], hint)


def read_long(path: Path, options: ReadOptions) -> Table:
    """Read a sparse table: absent pairs are zero, empty values are missing, and labels keep the order of the file."""
    reader = CellReader(path, delimiter_of(path, options), options.limit)
    if reader.first is None:
        raise bad_file(path, "it is empty", "write one line for each row, column and value")
    first = reader.first[1]
    positions = column_positions(path, first if options.header else None, len(first), options.long_columns)
    if options.header and len(positions) == 3 and first[positions[2]].replace(".", "", 1).isdecimal():
        raise bad_file(path, f"line 1 has a number ({first[positions[2]]}) where the value column is named", _NO_HEADER)
    collected = _Entries()
    for block in reader.blocks(with_first=not options.header):
        collected.add(path, block, positions, len(first))
        used = _BYTES_PER_LINE * len(collected.values)
        refuse_above(options.limit, used, f"{path} (up to line {block.numbers[-1]})")
    return collected.table(path, options)


def column_positions(
    path: Path, header: Sequence[str] | None, width: int, wanted: Sequence[str | int] | None
) -> list[int]:
    """Positions of the row, column and (unless two are requested) value columns."""
    if wanted is None:
        if width != 3:
            remedy = "name the row, column and value columns with long_columns="
            raise bad_file(path, f"it has {width} columns where row, column and value are expected", remedy)
        return [0, 1, 2]
    positions = []
    for name in wanted:
        if isinstance(name, int):
            if not 0 <= name < width:
                raise InvalidInputError(f"long_columns= asks for column {name}, but {path} has 0 to {width - 1}.")
            positions.append(name)
        elif header is None:
            raise InvalidInputError(f"long_columns= asks for {name!r}, but header=False: give positions, from 0.")
        elif header.count(name) != 1:
            names = ", ".join(header[:12])
            raise InvalidInputError(
                f"long_columns= asks for {name!r}, which {path} has {header.count(name)} times; it has: {names}."
            )
        else:
            positions.append(header.index(name))
    return positions


class _Entries:
    """Entries so far: row codes, column codes and values. For each block, its first entry and its lines."""

    def __init__(self) -> None:
        self.blocks: list[tuple[int, Sequence[int]]] = []
        self.values, self.codes = array("d"), (array("i"), array("i"))
        self.labels: tuple[defaultdict[str, int], ...] = defaultdict(), defaultdict()
        for code in self.labels:
            code.default_factory = code.__len__

    def add(self, path: Path, block: Lines, positions: list[int], width: int) -> None:
        for codes, labels, position in zip(self.codes, self.labels, positions[:2], strict=True):
            codes.extend(map(labels.__getitem__, block.cells[position::width]))
        self.blocks.append((len(self.values), block.numbers))
        if len(positions) == 2:
            self.values.extend(itertools.repeat(1.0, len(block.numbers)))
            return
        texts = block.cells[positions[2] :: width]
        try:
            self.values.frombytes(parse_numbers(texts).tobytes())
        except ValueError as error:
            at = first_that_is_no_number(texts)
            raise not_a_number(path, f"line {block.numbers[at]}, column {positions[2] + 1}", texts[at]) from error

    def table(self, path: Path, options: ReadOptions) -> Table:
        rows, columns = (np.frombuffer(codes, dtype=np.int32) for codes in self.codes)
        entries = rows, columns, np.frombuffer(self.values, dtype=np.float64)
        row_labels, column_labels = (label_array(list(labels), path, options.limit) for labels in self.labels)
        shape = len(row_labels), len(column_labels)
        matrix = from_coordinates(entries, shape, path, options.duplicates, lambda n: f"line {self.line(n)}")
        return Table(matrix, row_labels, column_labels, source=str(path))

    def line(self, entry: int) -> int:
        """The line number of an entry."""
        first, numbers = self.blocks[bisect.bisect_right(self.blocks, entry, key=itemgetter(0)) - 1]
        return numbers[entry - first]
