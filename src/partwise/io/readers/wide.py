"""Wide CSV and TSV: the first line names the columns, the first cell of each line names the row."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.labels import label_array, with_labels
from partwise.io.limits import refuse_above
from partwise.io.options import ReadOptions
from partwise.io.readers.cells import (
    CellReader,
    Lines,
    delimiter_of,
    first_that_is_no_number,
    not_a_number,
    parse_numbers,
)
from partwise.io.source import bad_file
from partwise.io.sparse import Array
from partwise.io.table import Table


def read_wide(path: Path, options: ReadOptions) -> Table:
    """Read a dense table; empty cells, NA and NaN are missing and become NaN."""
    for given, own, name in (("vocabulary", options.header, "header"), ("row_labels", options.index, "index")):
        if own and given in options.given() and getattr(options, given) is not False:
            raise InvalidInputError(f"{given} given, but {path} names them itself; pass {name}=False if it does not.")
    reader = CellReader(path, delimiter_of(path, options), options.limit)
    if reader.first is None:
        raise bad_file(path, "it is empty", "write a header line and one line for each row")
    width = len(reader.first[1])
    names = reader.first[1][int(options.index) :] if options.header else None
    parts: list[Array] = []
    row_names: list[str] = []
    used = 0
    for block in reader.blocks(with_first=not options.header):
        cells = block.cells
        if options.index:
            row_names += cells[::width]
            del cells[::width]
        try:
            parts.append(parse_numbers(cells))
        except ValueError as error:
            raise _not_a_number(path, block, names, width, options) from error
        used += 8 * len(cells)
        refuse_above(options.limit, used, f"{path} (up to line {block.numbers[-1]})")
    n_columns = width - options.index
    values = np.concatenate(parts) if parts else np.zeros(0)
    n_rows = len(row_names) if options.index else len(values) // max(n_columns, 1)
    table = Table(
        values.reshape(n_rows, n_columns),
        row_labels=label_array(row_names, path, options.limit) if options.index else None,
        column_labels=label_array(names, path, options.limit) if names is not None else None,
        source=str(path),
    )
    return with_labels(table, path, options, ())


def _not_a_number(
    path: Path, block: Lines, names: list[str] | None, width: int, options: ReadOptions
) -> FileFormatError:
    """The error for the first bad cell of a block whose row names have been taken away."""
    position = first_that_is_no_number(block.cells)
    row, column = divmod(position, width - options.index)
    place = f"line {block.numbers[row]}, column {column + 1 + options.index}"
    if names is not None:
        place += f" ({names[column][:40]!r})"
    hint = " (index=False takes the first column for numbers)" if column == 0 and not options.index else ""
    return not_a_number(path, place, block.cells[position], hint)
