"""Tables of results as .csv, .tsv (.gz) and .parquet, safe to open in a spreadsheet."""

import contextlib
import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from partwise.errors import InvalidInputError
from partwise.io.atomic import FilePath, atomic_path, write_atomically
from partwise.io.optional import require
from partwise.io.table import Labels, as_labels

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_BLOCK = 4096


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


def original(text: str) -> str:
    """The text without the apostrophe that `neutralised` put before it.

    Examples
    --------
    >>> original("'=SUM(A1)"), original("'s-Gravenhage")
    ('=SUM(A1)', "'s-Gravenhage")
    """
    return text[1:] if text.startswith("'") and neutralised(text[1:]) == text else text


def format_cells(values: np.ndarray[Any, Any], *, neutralise: bool) -> list[str]:
    """One row or column of cells as text: the shortest decimals that read back exactly; missing values are empty."""
    kind = values.dtype.kind
    if kind == "b":
        return [str(int(value)) for value in values.tolist()]
    if kind == "f":
        # Through text, because the nearest double of a float32 has more digits than needed.
        numbers = values.tolist() if values.dtype == np.float64 else [float(text) for text in values.astype(str)]
        return ["" if number != number else repr(number).removesuffix(".0") for number in numbers]
    texts = [str(value) for value in values.tolist()]
    return texts if kind in "iu" or not neutralise else [neutralised(text) for text in texts]


@contextlib.contextmanager
def text_file(path: FilePath) -> Iterator[TextIO]:
    """A UTF-8 text file to write, compressed if the name ends in .gz, renamed into place at the end."""
    with atomic_path(path) as aside, binary_file(aside) as raw, io.TextIOWrapper(raw, "utf-8", newline="") as text:
        yield text


@contextlib.contextmanager
def binary_file(path: Path) -> Iterator[Any]:
    """A file to write bytes to, compressed if the name ends in .gz. Equal content gives equal bytes."""
    with path.open("wb") as raw:
        if path.suffix.lower() != ".gz":
            yield raw
            return
        # Store neither the time nor the temporary name.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as compressed:
            yield compressed


class _UnixLines:
    """Ends lines with a line feed alone. If told so directly, the csv module would leave carriage returns unquoted."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, line: str) -> int:
        return self.file.write(line[:-2] + "\n")


def write_rows(path: FilePath, delimiter: str, rows: Iterable[Sequence[str]]) -> None:
    """Write lines of cells."""
    with text_file(path) as file:
        csv.writer(_UnixLines(file), delimiter=delimiter, lineterminator="\r\n").writerows(rows)


def write_table(
    path: FilePath,
    values: Any,
    row_labels: Sequence[str] | Labels | None = None,
    column_labels: Sequence[str] | Labels | None = None,
    *,
    corner: str = "label",
    neutralise: bool = True,
) -> None:
    """Write a matrix of results with its labels, completely or not at all.

    Parameters
    ----------
    path
        A name that ends in .csv, .tsv, .csv.gz, .tsv.gz or .parquet.
    values
        Array with two axes; NaN becomes an empty cell. Floats are written so that they read back exactly.
    row_labels, column_labels
        Names; by default positions from 0.
    corner
        Name of the first column, which holds the row labels.
    neutralise
        In CSV and TSV, put an apostrophe before text that starts with = + - @ and is not a number, so that
        a spreadsheet does not run it as a formula. Numbers and Parquet files are never changed.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "activations.csv"
    >>> write_table(path, np.array([[0.5, 2.0]]), ["=cell"], ["part 1", "part 2"], corner="sample")
    >>> print(path.read_text(), end="")
    sample,part 1,part 2
    '=cell,0.5,2
    """
    array = np.asarray(values)
    if array.ndim != 2:
        raise InvalidInputError(f"values has {array.ndim} axes; a table needs two, rows and columns.")
    rows = checked_labels(row_labels, array.shape[0], "row_labels")
    names = checked_labels(column_labels, array.shape[1], "column_labels").tolist()
    _write(path, [corner, *names], [rows, *array.T], neutralise)


def write_columns(path: FilePath, columns: Mapping[str, Any], *, neutralise: bool = True) -> None:
    r"""Write named columns of any types, such as part, feature and weight, completely or not at all.

    Parameters
    ----------
    path
        A name that ends in .csv, .tsv, .csv.gz, .tsv.gz or .parquet.
    columns
        Names, and arrays of equal length with numbers or text.
    neutralise
        As for `write_table`, also for text in cells.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "top.tsv"
    >>> write_columns(path, {"part": [1, 1], "feature": ["bank", "money"], "weight": [0.5, 0.25]})
    >>> print(path.read_text().replace("\t", " "), end="")
    part feature weight
    1 bank 0.5
    1 money 0.25
    """
    arrays = [np.asarray(values) for values in columns.values()]
    lengths = {array.shape for array in arrays}
    if len(lengths) > 1 or any(array.ndim != 1 for array in arrays):
        raise InvalidInputError(f"columns have the shapes {sorted(lengths)}; give arrays of one axis and one length.")
    _write(path, list(columns), arrays, neutralise)


def checked_labels(labels: Sequence[str] | Labels | None, count: int, name: str) -> Labels:
    """The labels as an array; by default positions from 0. Their number must fit."""
    array = as_labels(range(count) if labels is None else labels)
    if len(array) != count:
        raise InvalidInputError(f"{name} has {len(array)} labels for {count}; give one for each.")
    try:
        "".join(array.tolist()).encode()
    except UnicodeEncodeError:
        whole = [label.encode("utf-8", "replace").decode() == label for label in array.tolist()]
        label = array[whole.index(False)] if False in whole else array[0]
        raise InvalidInputError(
            f"{name} has the label {str(label)!a}, which holds half a character (a lone surrogate): rename it."
        ) from None
    return array


def table_suffix(path: FilePath) -> str:
    """The suffix of a table's name without .gz. An unknown suffix is refused."""
    name = Path(path).name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix in _DELIMITERS or name.endswith(".parquet"):
        return suffix
    raise InvalidInputError(
        f"cannot tell from the name {Path(path).name} how to write a table; end it in .csv, .tsv, .csv.gz, .tsv.gz or "
        ".parquet."
    )


def write_parquet(path: FilePath, names: list[str], columns: list[Any]) -> None:
    """Write columns to Parquet; NaN stays NaN."""
    arrow = require("pyarrow", "arrow", "writing Parquet files")
    parquet = require("pyarrow.parquet", "arrow", "writing Parquet files")
    if len(set(names)) < len(names):
        repeated = next(name for n, name in enumerate(names) if name in names[:n])
        raise InvalidInputError(f"the column name {repeated!r} repeats, which Parquet does not allow; rename one.")
    arrays = [arrow.array(column.tolist() if column.dtype.kind in "UTO" else column) for column in columns]
    write_atomically(path, lambda aside: parquet.write_table(arrow.table(arrays, names=names), aside))


def _write(path: FilePath, names: list[str], columns: list[Any], neutralise: bool) -> None:
    suffix = table_suffix(path)
    if suffix == ".parquet":
        write_parquet(path, names, columns)
        return
    header = [neutralised(name) if neutralise else name for name in names]
    write_rows(path, _DELIMITERS[suffix], _lines(header, columns, neutralise))


def _lines(header: list[str], columns: list[Any], neutralise: bool) -> Iterator[Sequence[str]]:
    yield header
    count = len(columns[0]) if columns else 0
    for start in range(0, count, _BLOCK):
        block = [format_cells(column[start : start + _BLOCK], neutralise=neutralise) for column in columns]
        yield from zip(*block, strict=True)
