"""Wide CSV and TSV: the first line names the columns, the first cell of each line names the row."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.labels import label_array, with_labels
from partwise.io.limits import refuse_above
from partwise.io.options import ReadOptions
from partwise.io.source import bad_file, reading, text_lines
from partwise.io.sparse import Array
from partwise.io.table import Table

MISSING = frozenset(["", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL"])
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_wide(path: Path, options: ReadOptions) -> Table:
    """Read a dense table; empty cells, NA and NaN are missing and become NaN."""
    for given, own, name in (("vocabulary", options.header, "header"), ("row_labels", options.index, "index")):
        if own and given in options.given() and getattr(options, given) is not False:
            raise InvalidInputError(f"{given} given, but {path} names them itself; pass {name}=False if it does not.")
    rows = csv_rows(path, delimiter_of(path, options), options.limit)
    names: list[str] | None = None
    if options.header:
        _, header = next(rows, (0, None))
        if header is None:
            raise bad_file(path, "it is empty", "write a header line and one line for each row")
        names = header[1:] if options.index else header
    blocks, row_names = _parse(path, rows, names, options)
    n_columns = len(names) if names is not None else (len(blocks[0]) if blocks else 0)
    table = Table(
        np.vstack(blocks) if blocks else np.zeros((0, n_columns)),
        row_labels=label_array(row_names, path, options.limit) if options.index else None,
        column_labels=label_array(names, path, options.limit) if names is not None else None,
        source=str(path),
    )
    return with_labels(table, path, options, ())


def delimiter_of(path: Path, options: ReadOptions) -> str:
    """The delimiter that the option or the name of the file says."""
    if options.delimiter is not None:
        return options.delimiter
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix not in DELIMITERS:
        raise InvalidInputError(f"the name {path.name} does not say how cells are separated; pass delimiter=.")
    return DELIMITERS[suffix]


def csv_rows(path: Path, delimiter: str, limit: int) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells; a line without any character is passed over."""
    rows = csv.reader(text_lines(path, limit), delimiter=delimiter, strict=True)
    with reading(path):
        try:
            for cells in rows:
                if cells:
                    yield rows.line_num, cells
        except csv.Error as error:
            raise bad_file(path, f"line {rows.line_num} is not valid CSV ({error})", "correct that line") from error


def parse_numbers(cells: list[str]) -> Array:
    """Numbers of one line, NaN where missing; ValueError if a cell is something else."""
    # Python reads 1_000 as a number, no other program does.
    if "_" in "".join(cells):
        raise ValueError
    try:
        return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
    except ValueError:
        numbers = (math.nan if cell.strip() in MISSING else float(cell) for cell in cells)
        return np.fromiter(numbers, dtype=np.float64, count=len(cells))


def is_number(cell: str) -> bool:
    """Whether a cell can stand in a table: a number, or one of the signs for a missing value."""
    try:
        parse_numbers([cell])
    except ValueError:
        return False
    return True


def _parse(
    path: Path, rows: Iterator[tuple[int, list[str]]], names: list[str] | None, options: ReadOptions
) -> tuple[list[Array], list[str]]:
    """Numbers of each row, and the names of the rows."""
    blocks: list[Array] = []
    row_names: list[str] = []
    width = None if names is None else len(names) + options.index
    used = 0
    for number, cells in rows:
        if width is None:
            width = len(cells)
        if len(cells) != width:
            raise _ragged(path, number, len(cells), width, first=not blocks and options.header)
        if options.index:
            row_names.append(cells.pop(0))
        try:
            blocks.append(parse_numbers(cells))
        except ValueError as error:
            raise _not_a_number(path, number, cells, names, options) from error
        used += 8 * len(cells)
        refuse_above(options.limit, used, f"{path} (up to line {number})")
    return blocks, row_names


def _ragged(path: Path, line: int, found: int, expected: int, *, first: bool) -> FileFormatError:
    remedy = "give every line the same number of cells"
    if first and found == expected + 1:
        remedy = "name the first column too (R: write.table with col.names=NA)"
    return bad_file(path, f"line {line} has {found} cells where {expected} are expected", remedy)


def _not_a_number(
    path: Path, line: int, cells: list[str], names: list[str] | None, options: ReadOptions
) -> FileFormatError:
    position = next((n for n, cell in enumerate(cells) if not is_number(cell)), 0)
    column = f"column {position + 1 + options.index}"
    if names is not None:
        column += f" ({names[position][:40]!r})"
    remedy = "write a number, or leave the cell empty if it is missing"
    if position == 0 and not options.index:
        remedy += " (index=False takes the first column for numbers)"
    return bad_file(path, f"line {line}, {column} holds {cells[position][:40]!r}, which is no number", remedy)
