"""A folder of rows that several processes write: each its own part of the rows, then each some ranges of the whole."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.io.csr_folder import ARRAYS, NARROWEST
from partwise.io.npy import load_npy

# Files are cut here, at the edges of pages: no two processes write to the same page, which network file systems
# would not keep apart.
_RANGE_BYTES = 2**26
_COPIED_AT_ONCE = 2**20
_ROW_LABELS = "row_labels"


class Part(NamedTuple):
    """Rows that one process has written.

    Attributes
    ----------
    folder
        Where they are.
    sizes, dtypes
        Of each array; pointers lack the first, which is 0.
    """

    folder: str
    sizes: dict[str, int]
    dtypes: dict[str, str]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.sizes["indptr"]


class Range(NamedTuple):
    """Consecutive numbers of one array of the whole: ``sources`` are folder, first place, size and what is added."""

    path: str
    name: str
    dtype: str
    header: int
    start: int
    stop: int
    sources: list[tuple[str, int, int, int]]


def write_part(folder: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any] | None]) -> Part:
    """Write the arrays of some rows to a folder, whole or not at all; one that is there already has the same.

    Parameters
    ----------
    folder
        In a folder that is there.
    arrays
        Those of `partwise.io.csr_folder`, labels and sums.
    """
    folder = Path(folder)
    aside = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
    aside.mkdir()
    sizes, dtypes = {}, {}
    for name, array in arrays.items():
        if array is None:
            continue
        kept = np.asarray(array[1:] - array[0], dtype=np.int64) if name in ("indptr", "missing_indptr") else array
        np.save(aside / f"{name}.npy", kept, allow_pickle=False)
        sizes[name], dtypes[name] = int(kept.size), kept.dtype.str
    try:
        aside.rename(folder)
    except OSError:
        # By a task that was run twice.
        shutil.rmtree(aside, ignore_errors=True)
        if not folder.is_dir():
            raise
    return Part(str(folder), sizes, dtypes)


def ranges(aside: Path, parts: Sequence[Part]) -> Iterator[Range]:
    """Make the files of the whole, still empty, and give the ranges in which they can be written in any order.

    Parameters
    ----------
    aside
        Where the files go.
    parts
        All rows, in order.
    """
    labelled = all(_ROW_LABELS in part.sizes for part in parts)
    for name in (*ARRAYS, _ROW_LABELS) if labelled else ARRAYS:
        pointers = name in ("indptr", "missing_indptr")
        first = int(pointers)
        base, sources = 0, []
        for part in parts:
            sources.append((part.folder, first, part.sizes[name], base))
            first += part.sizes[name]
            base += part.sizes[name.replace("indptr", "indices")] if pointers else 0
        known = [np.dtype(part.dtypes[name]) for part in parts]
        dtype = np.result_type(*known, *([NARROWEST] if name == "values" else []))
        path = aside / f"{name}.npy"
        header = _empty_file(path, dtype, first)
        aligned = header % dtype.itemsize == 0 and _RANGE_BYTES % dtype.itemsize == 0
        step = _RANGE_BYTES // dtype.itemsize
        edges = range(step - header // dtype.itemsize, first, step) if aligned else range(0)
        for start, stop in zip([0, *edges], [*edges, first], strict=True):
            own = [source for source in sources if source[2] and source[1] < stop and source[1] + source[2] > start]
            yield Range(str(path), name, dtype.str, header, start, stop, own)


def write_range(piece: Range) -> None:
    """Bring the numbers of a range from the parts to their places.

    Parameters
    ----------
    piece
        One of `ranges`.
    """
    dtype = np.dtype(piece.dtype)
    with Path(piece.path).open("r+b") as file:
        for folder, first, size, base in piece.sources:
            numbers = load_npy(Path(folder) / f"{piece.name}.npy", "r")
            start, stop = max(piece.start, first), min(piece.stop, first + size)
            file.seek(piece.header + start * dtype.itemsize)
            for at in range(start, stop, _COPIED_AT_ONCE):
                some = numbers[at - first : min(at + _COPIED_AT_ONCE, stop) - first]
                file.write(np.asarray(some + base if base else some, dtype=dtype).tobytes())
        file.flush()
        os.fsync(file.fileno())


def _empty_file(path: Path, dtype: np.dtype[Any], size: int) -> int:
    """A file of zeros with the header of NumPy; the length of that."""
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (size,)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, described)
        header = file.tell()
        file.truncate(header + size * dtype.itemsize)
    return header
