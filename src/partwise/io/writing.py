"""Write a Table as .npz, .npy, .mtx, .h5ad, wide or long CSV and TSV, or Parquet."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from partwise.errors import InvalidInputError
from partwise.io import writing_tables as tables
from partwise.io.annotated import write_h5ad
from partwise.io.atomic import FilePath, atomic_path, write_atomically
from partwise.io.npz import packed_texts, write_npz
from partwise.io.reading import find_format
from partwise.io.source import bytes_allowed, format_bytes
from partwise.io.sparse import Array
from partwise.io.table import Table

_LARGEST_EXACT = 2**53
_BLOCK = 256


def write_matrix(path: FilePath, table: Table, *, format: str | None = None, neutralise: bool = True) -> list[Path]:
    r"""Write a matrix with its labels; `partwise.io.read` reads it back.

    | format   | file names           | what is written                                                                |
    |----------|----------------------|--------------------------------------------------------------------------------|
    | npz      | .npz                 | as `scipy.sparse.save_npz` does (dense: one array), with labels and metadata   |
    | npy      | .npy                 | dense; labels next to it in NAME.rows.txt and NAME.vocab.txt                   |
    | mtx      | .mtx(.gz)            | Matrix Market; labels next to it in NAME.rows.txt and NAME.vocab.txt           |
    | h5ad     | .h5ad                | AnnData                                                                        |
    | csv, tsv | .csv(.gz), .tsv(.gz) | wide: one line per row                                                         |
    | long     | the same             | one line per stored value                                                      |
    | parquet  | .parquet             | long: one record per stored value                                              |

    Missing cells are NaN where numbers are stored and empty in CSV and TSV. Long files also hold the zeros of the first
    row and one zero of each empty row, so that shape and order survive.

    Parameters
    ----------
    path
        The file to write.
    table
        What to write.
    format
        Name of a format in the table above, if the file name does not tell it.
    neutralise
        In CSV and TSV, put an apostrophe before labels that a spreadsheet could run as a formula.

    Returns
    -------
    list of Path
        The files that were written: label files, then the matrix.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x.csv"
    >>> _ = write_matrix(path, Table(np.array([[1, 0]]), column_labels=np.array(["a", "b"])))
    >>> path.read_text()
    'label,a,b\n0,1,0\n'
    """
    target = Path(path).expanduser()
    name = find_format(target, format).name
    if name not in _WRITERS:
        raise InvalidInputError(f"format {name} can be read only; write one of: {', '.join(_WRITERS)}.")
    matrix = table.with_nan()
    for which, size in zip(("row_labels", "column_labels"), matrix.shape, strict=True):
        labels = getattr(table, which)
        # .npz files can hold any text, so only the number of labels matters.
        tables.checked_labels([""] * len(labels) if name == "npz" and labels is not None else labels, size, which)
    return [*(_WRITERS[name](target, matrix, table, neutralise) or []), target]


def _npz(path: Path, matrix: Any, table: Table, neutralise: bool) -> None:
    arrays: dict[str, Any] = {"X": matrix}
    if sp.issparse(matrix):
        arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        arrays |= {"format": np.array(b"csr"), "shape": np.array(matrix.shape, dtype=np.int64)}
    for key, labels in (("row_labels", table.row_labels), ("column_labels", table.column_labels)):
        if labels is not None:
            arrays[key] = np.asarray(labels, dtype=np.str_)
    for name, values in table.metadata.items():
        arrays |= packed_texts(name, values)
    write_atomically(path, lambda aside: write_npz(aside, arrays))


def _npy(path: Path, matrix: Any, table: Table, neutralise: bool) -> list[Path]:
    if sp.issparse(matrix):
        needed, allowed = matrix.dtype.itemsize * matrix.shape[0] * matrix.shape[1], bytes_allowed()
        if needed > allowed:
            raise InvalidInputError(
                f"as a dense array the matrix takes {format_bytes(needed)}, more than the {format_bytes(allowed)} that "
                "may be used; write it as .npz."
            )
        matrix = matrix.toarray()
    written = _labels_beside(path, table)
    write_atomically(path, lambda aside: np.save(aside, matrix, allow_pickle=False))
    return written


def _mtx(path: Path, matrix: Any, table: Table, neutralise: bool) -> list[Path]:
    import scipy.io

    written = _labels_beside(path, table)
    values = _whole_as_integers(matrix)
    with atomic_path(path) as aside, tables.binary_file(aside) as file:
        scipy.io.mmwrite(file, values, symmetry="general")
    return written


def _h5ad(path: Path, matrix: Any, table: Table, neutralise: bool) -> None:
    write_h5ad(path, matrix=matrix, row_labels=table.row_labels, column_labels=table.column_labels)


def _wide(path: Path, matrix: Any, table: Table, neutralise: bool) -> None:
    def lines() -> Iterator[Sequence[str]]:
        rows, columns = _text_labels(table, neutralise)
        yield ["label", *columns]
        for start in range(0, len(rows), _BLOCK):
            block = matrix[start : start + _BLOCK]
            for label, cells in zip(rows[start:], block.toarray() if sp.issparse(block) else block, strict=False):
                yield [label, *tables.format_cells(cells, neutralise=False)]

    tables.write_rows(path, _delimiter(path), lines())


def _long(path: Path, matrix: Any, table: Table, neutralise: bool) -> None:
    rows, columns = _text_labels(table, neutralise)
    _check_distinct(rows, columns)
    entries = _long_entries(matrix)
    values = tables.format_cells(entries.data, neutralise=False)

    def lines() -> Iterator[Sequence[str]]:
        yield ["row", "column", "value"]
        for n, f, value in zip(entries.row.tolist(), entries.col.tolist(), values, strict=True):
            yield rows[n], columns[f], value

    tables.write_rows(path, _delimiter(path), lines())


def _parquet(path: Path, matrix: Any, table: Table, neutralise: bool) -> None:
    rows, columns = _text_labels(table, neutralise=False)
    _check_distinct(rows, columns)
    entries = _long_entries(matrix)
    texts = [np.array(labels, dtype=np.str_)[codes] for labels, codes in ((rows, entries.row), (columns, entries.col))]
    tables.write_parquet(path, ["row", "column", "value"], [*texts, entries.data])


_WRITERS: dict[str, Callable[[Path, Any, Table, bool], list[Path] | None]] = {
    "npz": _npz,
    "npy": _npy,
    "mtx": _mtx,
    "h5ad": _h5ad,
    "csv": _wide,
    "tsv": _wide,
    "long": _long,
    "parquet": _parquet,
}
"""Each function writes a matrix and returns the label files that it wrote beside it, if any."""


def _delimiter(path: Path) -> str:
    return "\t" if tables.table_suffix(path) == ".tsv" else ","


def _text_labels(table: Table, neutralise: bool) -> tuple[list[str], list[str]]:
    pairs = zip((table.row_labels, table.column_labels), table.shape, strict=True)
    rows, columns = (tables.checked_labels(labels, size, "labels").tolist() for labels, size in pairs)
    if neutralise:
        rows, columns = (list(map(tables.neutralised, labels)) for labels in (rows, columns))
    return rows, columns


def _check_distinct(rows: list[str], columns: list[str]) -> None:
    for labels, axis in ((rows, "row"), (columns, "column")):
        seen: set[str] = set()
        for label in labels:
            if label in seen:
                raise InvalidInputError(
                    f"two {axis}s are labelled {label!r}, which a long table cannot tell apart; rename one, or write "
                    "another format."
                )
            seen.add(label)


def _long_entries(matrix: Any) -> sp.coo_array:
    """Stored entries row by row, plus zeros for the whole first row and for one cell of each empty row."""
    entries = sp.coo_array(matrix)
    n_rows, n_columns = matrix.shape
    present = np.zeros(n_columns, dtype=bool)
    present[entries.col[entries.row == 0]] = True
    absent = np.flatnonzero(~present)
    empty = np.setdiff1d(np.arange(1, n_rows), entries.row) if n_columns else np.zeros(0, dtype=np.int64)
    if not n_rows:
        absent = absent[:0]
    rows = np.concatenate([entries.row, np.zeros(len(absent), dtype=np.int64), empty])
    columns = np.concatenate([entries.col, absent, np.zeros(len(empty), dtype=np.int64)])
    values = np.concatenate([entries.data, np.zeros(len(absent) + len(empty), dtype=entries.data.dtype)])
    order = np.lexsort((columns, rows))
    return sp.coo_array((values[order], (rows[order], columns[order])), shape=matrix.shape)


def _whole_as_integers(matrix: Any) -> Any:
    """Whole numbers and booleans as integers, so that they are written without a decimal point."""
    values: Array = matrix.data if sp.issparse(matrix) else matrix
    if values.dtype.kind == "b":
        return matrix.astype(np.int64)
    small = values.dtype.kind == "f" and bool(np.all(np.abs(values) < _LARGEST_EXACT))  # false for NaN too
    return matrix.astype(np.int64) if small and bool(np.all(values == np.floor(values))) else matrix


def _labels_beside(path: Path, table: Table) -> list[Path]:
    stem = path.name.removesuffix(".gz").rpartition(".")[0]
    written = []
    for labels, ending in ((table.row_labels, ".rows.txt"), (table.column_labels, ".vocab.txt")):
        if labels is not None:
            broken = next((label for label in labels.tolist() if "\n" in label or "\r" in label), None)
            if broken is not None:
                told = f"the label {broken!r} has a line end, which a label file cannot hold"
                raise InvalidInputError(f"{told}; write .npz.")
            written.append(path.with_name(stem + ending))
            with tables.text_file(written[-1]) as file:
                file.writelines(f"{label}\n" for label in labels.tolist())
    return written
