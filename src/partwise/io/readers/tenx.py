"""10x Genomics directories: matrix.mtx, barcodes.tsv and features.tsv (or genes.tsv), each perhaps .gz."""

from __future__ import annotations

from pathlib import Path

from partwise.io.labels import beside, label_array
from partwise.io.options import ReadOptions
from partwise.io.readers.matrix_market import load_matrix
from partwise.io.source import bad_file, text_lines
from partwise.io.table import Labels, Table

_LAYOUT = "a 10x directory holds matrix.mtx, barcodes.tsv and features.tsv or genes.tsv, each perhaps .gz"


def read_10x(path: Path, options: ReadOptions) -> Table:
    """Read cells x features: the file lies the other way round and is transposed here."""
    if not path.is_dir():
        raise bad_file(path, "it is not a directory", _LAYOUT)
    matrix_file = _only(path, beside("matrix.mtx", ""))
    barcodes = _column(_only(path, beside("barcodes.tsv", "")), 0, options.limit)
    column = {"id": 0, "name": 1}[options.feature_column]
    features = _column(_only(path, beside("features.tsv", "") + beside("genes.tsv", "")), column, options.limit)
    matrix = load_matrix(matrix_file, options, transpose=True)
    for labels, size, what in ((barcodes, matrix.shape[0], "barcodes"), (features, matrix.shape[1], "features")):
        if len(labels) != size:
            raise bad_file(path, f"its matrix has {size} {what} but {len(labels)} are listed")
    return Table(matrix, row_labels=barcodes, column_labels=features, source=str(path))


def _only(folder: Path, names: list[str]) -> Path:
    found = [name for name in names if (folder / name).is_file()]
    if len(found) == 1:
        return folder / found[0]
    if found:
        raise bad_file(folder, f"it holds both {found[0]} and {found[1]}", "remove the one that does not belong")
    raise bad_file(folder, f"it holds no {names[0]}", _LAYOUT)


def _column(path: Path, column: int, limit: int) -> Labels:
    """One column of a tab separated file; files with the identifier alone have no second one."""
    labels = []
    for line in text_lines(path, limit):
        cells = line.rstrip("\r\n").split("\t")
        labels.append(cells[min(column, len(cells) - 1)])
    return label_array(labels, path, limit)
