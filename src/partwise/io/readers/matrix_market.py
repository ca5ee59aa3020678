"""Matrix Market files: .mtx, .mtx.gz."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import scipy.io
import scipy.sparse as sp

from partwise.io.labels import labels_beside
from partwise.io.limits import refuse_above
from partwise.io.options import ReadOptions
from partwise.io.source import bad_file, check_entries_fit, library, open_binary, reading
from partwise.io.sparse import check_declared, from_coordinates
from partwise.io.table import Table

_LONGEST_HEADER = 2**24
_WHOLE = {"integer", "unsigned-integer", "pattern"}
_FIELDS = _WHOLE | {"real", "double"}
_NOT_IN_INTEGERS = b"0123456789+- \t\r\n"
# Characters of the shortest entry: "1 1\n" in a pattern, "1\n" in a dense array.
_SHORTEST_ENTRY = {"coordinate": 4, "array": 2}


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
    """Read a matrix as it stands in the file; labels may lie beside it in NAME.rows.txt and NAME.vocab.txt."""
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
        loaded = scipy.io.mmread(cast(Any, _Watched(stream, header, path, options.limit)))
    if not sp.issparse(loaded):
        dense = np.asarray(loaded)
        return dense.T if transpose else dense
    entries = sp.coo_array(loaded)
    rows, columns, shape = entries.row, entries.col, entries.shape
    if transpose:
        rows, columns, shape = columns, rows, shape[::-1]
    return from_coordinates(rows, columns, entries.data, shape, path, duplicates=options.duplicates)


def read_header(path: Path) -> Header:
    """Read what the file declares, and nothing more."""
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
        symmetric = symmetry != "general"
        entries = sizes[2] if layout == "coordinate" else sizes[0] * (sizes[1] + 1 if symmetric else 2 * sizes[1]) // 2
        return Header(layout, field, symmetric, (sizes[0], sizes[1]), entries, stream.tell())


class _Watched:
    """The file's bytes on their way to SciPy, which would cut 5.7 to 5 in an integer matrix without a word."""

    def __init__(self, stream: BinaryIO, header: Header, path: Path, limit: int) -> None:
        self.stream, self.path, self.limit = stream, path, limit
        self.to_skip = header.length
        self.whole = header.field in _WHOLE
        self.longest_line = max(limit // 16, _LONGEST_HEADER)
        self.since_line_end = 0

    def read(self, size: int = -1) -> bytes:
        chunk = self.stream.read(size)
        body = chunk[self.to_skip :]
        self.to_skip = max(self.to_skip - len(chunk), 0)
        if self.whole and (foreign := body.translate(None, _NOT_IN_INTEGERS)):
            raise bad_file(
                self.path,
                f"its banner announces integers, but the character {foreign[:1].decode('latin-1')!r} occurs",
                "announce real values in line 1, or write integers",
            )
        line_end = chunk.rfind(b"\n")
        self.since_line_end = len(chunk) - line_end - 1 + (self.since_line_end if line_end < 0 else 0)
        refuse_above(self.longest_line, self.since_line_end, f"{self.path} (one line of it)")
        return chunk
