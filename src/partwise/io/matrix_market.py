"""Matrix Market files, and the 10x Genomics folders that contain one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import scipy.io
import scipy.sparse as sp

from partwise.io.reading import ReadOptions
from partwise.io.source import bad_file, check_entries_fit, library, open_binary, reading, refuse_above, text_lines
from partwise.io.sparse import check_declared, from_coordinates
from partwise.io.table import Labels, Table, beside, label_array, labels_beside

_LONGEST_HEADER = 2**20
_WHOLE = {"integer", "unsigned-integer", "pattern"}
_FIELDS = _WHOLE | {"real", "double"}
_IN_INTEGERS = b"0123456789+- \t\r\n"
_IN_REALS = _IN_INTEGERS + b".eEnNaAiIfFtTyY"
_AS_SHAPE = bytes(ord(" ") if chr(n).isspace() else ord("x") for n in range(256))
# Length of the shortest entry: "1 1
# " in a pattern, "1
# " in a dense array.
_SHORTEST_ENTRY = {"coordinate": 4, "array": 2}
_LAYOUT = "a 10x directory holds matrix.mtx, barcodes.tsv and features.tsv or genes.tsv, each perhaps .gz"


@dataclass(frozen=True)
class Header:
    """What the first lines of the file declare; ``length`` counts their bytes."""

    layout: str
    field: str
    symmetric: bool
    shape: tuple[int, int]
    entries: int
    length: int


def read_matrix_market(path: Path, options: ReadOptions) -> Table:
    """Read a matrix as it is in the file; labels may be beside it in NAME.rows.txt and NAME.vocab.txt."""
    stem = path.name.removesuffix(".gz").removesuffix(".mtx")
    return labels_beside(Table(load_matrix(path, options), source=str(path)), path, options, stem)


def load_matrix(path: Path, options: ReadOptions, *, transpose: bool = False) -> Any:
    """The matrix of the file, or its transpose: CSR, or dense for the array layout."""
    header = read_header(path)
    check_entries_fit(path, header.entries, _SHORTEST_ENTRY[header.layout])
    if header.layout == "array":
        refuse_above(options.limit, 8 * header.shape[0] * header.shape[1], f"{path}")
    else:
        check_declared(path, header.shape, header.entries * (2 if header.symmetric else 1), options.limit)
    with library(path, "a Matrix Market file"), open_binary(path) as stream:
        watched = _Watched(stream, header, path, options.limit)
        loaded = scipy.io.mmread(cast(Any, watched))
    watched.check_words()
    if not sp.issparse(loaded):
        dense = np.asarray(loaded)
        return dense.T if transpose else dense
    entries = sp.coo_array(loaded.T if transpose else loaded)
    return from_coordinates((entries.row, entries.col, entries.data), entries.shape, path, options.duplicates)


def read_header(path: Path) -> Header:
    """Read the declaration of the file, and nothing more."""
    with reading(path), open_binary(path) as stream:
        banner = stream.readline(4096).decode("latin-1").lower().split()
        if len(banner) != 5 or banner[0] not in {"%%matrixmarket", "%matrixmarket"}:
            raise bad_file(path, "line 1 is not a Matrix Market banner", "check that it is a Matrix Market file")
        kind, layout, field, symmetry = banner[1:]
        if kind != "matrix" or layout not in _SHORTEST_ENTRY:
            raise bad_file(path, f"line 1 announces a {kind} of layout {layout}", "write a coordinate or array matrix")
        if field not in _FIELDS:
            raise bad_file(path, f"line 1 announces {field} values", "write integer, real or pattern values")
        number = 1
        while True:
            line = stream.readline(_LONGEST_HEADER)
            number += 1
            if not line or stream.tell() > _LONGEST_HEADER:
                raise bad_file(path, "it has no line with the size of the matrix")
            if line.strip() and not line.startswith(b"%"):
                break
        sizes = [int(word) for word in line.split() if word.isdigit() and len(word) < 20]
        if len(sizes) != len(line.split()) or len(sizes) != (3 if layout == "coordinate" else 2):
            raise bad_file(path, f"line {number} does not give the size of the matrix", "correct that line")
        if symmetry != "general" and sizes[0] != sizes[1]:
            why = f"line 1 announces a {symmetry} matrix, but its size is {sizes[0]} x {sizes[1]}"
            raise bad_file(path, why, "write general instead")
        entries = sizes[2] if layout == "coordinate" else _dense_entries(sizes[0], sizes[1], symmetry)
        return Header(layout, field, symmetry != "general", (sizes[0], sizes[1]), entries, stream.tell())


def _dense_entries(rows: int, columns: int, symmetry: str) -> int:
    """Number of values in the array layout: all, or the lower triangle, for a skew matrix without the diagonal."""
    if symmetry == "general":
        return rows * columns
    return rows * (rows - 1) // 2 if symmetry == "skew-symmetric" else rows * (rows + 1) // 2


class _Watched:
    """Checks the bytes of the file on their way to SciPy's fast reader, which accepts too much.

    It truncates 5.7 to 5 in an integer matrix and 3,5 to 3 in a real one. It ignores anything after the value, and
    crashes (1.17.1) if the last line ends in a space instead of a newline.
    """

    def __init__(self, stream: BinaryIO, header: Header, path: Path, limit: int) -> None:
        self.stream, self.header, self.path = stream, header, path
        self.to_skip = header.length
        self.allowed = _IN_INTEGERS if header.field in _WHOLE else _IN_REALS
        self.longest_line = max(limit // 16, _LONGEST_HEADER)
        self.since_line_end = 0
        self.words = 0
        self.last = b"\n"

    def read(self, size: int = -1) -> bytes:
        chunk = self.stream.read(size)
        if not chunk:
            chunk, self.last = (b"" if self.last == b"\n" else b"\n"), b"\n"
            return chunk
        self._check(chunk[self.to_skip :])
        self.to_skip = max(self.to_skip - len(chunk), 0)
        self.last = chunk[-1:]
        line_end = chunk.rfind(b"\n")
        self.since_line_end = len(chunk) - line_end - 1 + (self.since_line_end if line_end < 0 else 0)
        refuse_above(self.longest_line, self.since_line_end, f"{self.path} (one line of it)")
        return chunk

    def _check(self, body: bytes) -> None:
        if foreign := body.translate(None, self.allowed):
            character = foreign[:1].decode("latin-1")
            why = f"the character {character!r} occurs, though line 1 announces {self.header.field} values"
            raise bad_file(self.path, why, "correct line 1 or the values")
        shape = body.translate(_AS_SHAPE)
        self.words += shape.count(b" x") + (shape[:1] == b"x" and self.last.isspace())

    def check_words(self) -> None:
        """Every entry must have exactly its indices and its value."""
        each = 1 if self.header.layout == "array" else 2 + (self.header.field != "pattern")
        if self.words != each * self.header.entries:
            why = f"it holds {self.words} numbers where {self.header.entries} entries of {each} are declared"
            raise bad_file(self.path, why, "write one entry per line, with nothing after it")


def read_10x(path: Path, options: ReadOptions) -> Table:
    """Read cells x features: the file holds the transpose."""
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
    """One column of a tab-separated file. Files that hold only identifiers have no second column."""
    labels = []
    for line in text_lines(path, limit):
        cells = line.rstrip("\r\n").split("\t")
        labels.append(cells[min(column, len(cells) - 1)])
    return label_array(labels, path, limit)
