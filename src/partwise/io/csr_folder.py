"""A sparse matrix as a folder of plain .npy files that can be mapped into memory, written block by block."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.npy import load_npy

KIND = "partwise rows on disk"
DESCRIPTION = "matrix.json"
ARRAYS = ("indptr", "indices", "values", "missing_indptr", "missing_indices")
NARROWEST = np.dtype(np.uint16)
"""Type of values, until wider ones come."""

_VERSION = 1
_COPIED_AT_ONCE = 2**20


class _Column:
    """A one-dimensional .npy file that grows; its header, which NumPy pads for the purpose, is written anew at the end.

    Parameters
    ----------
    path
        The file.
    dtype
        Type of the numbers, until wider ones come.
    """

    def __init__(self, path: Path, dtype: Any) -> None:
        self.path, self.dtype, self.size = path, np.dtype(dtype), 0
        self._file = self._begin()

    def append(self, array: NDArray[Any]) -> None:
        if array.dtype != self.dtype and not np.can_cast(array.dtype, self.dtype, "safe"):
            self._widen(np.promote_types(array.dtype, self.dtype))
        self._file.write(np.ascontiguousarray(array, dtype=self.dtype).data)
        self.size += array.size

    def close(self) -> None:
        self._file.seek(0)
        self._header()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _begin(self) -> IO[bytes]:
        self._file = self.path.open("w+b")
        self._header()
        return self._file

    def _header(self) -> None:
        described = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(self._file, described)

    def _widen(self, dtype: np.dtype[Any]) -> None:
        self.close()
        narrow = self.path.rename(self.path.with_name(self.path.name + ".narrow"))
        before = load_npy(narrow, "r")
        self.dtype, self.size = dtype, 0
        self._begin()
        for first in range(0, before.size, _COPIED_AT_ONCE):
            self.append(np.asarray(before[first : first + _COPIED_AT_ONCE], dtype=dtype))
        del before
        narrow.unlink()


class CsrWriter:
    """Writes rows to a folder, a block at a time; it is there, whole, when `close` has been called, or not at all.

    Parameters
    ----------
    folder
        The folder to make; there must be none of this name.
    n_columns
        Number of features.
    """

    def __init__(self, folder: str | os.PathLike[str], n_columns: int) -> None:
        self.folder = Path(folder)
        self.n_columns = n_columns
        self._aside = begin_folder(self.folder)
        types = np.int64, np.int32, NARROWEST, np.int64, np.int32
        self._columns = {
            name: _Column(self._aside / f"{name}.npy", dtype) for name, dtype in zip(ARRAYS, types, strict=True)
        }
        for name in ("indptr", "missing_indptr"):
            self._columns[name].append(np.zeros(1, np.int64))

    def append(
        self,
        indptr: NDArray[Any],
        indices: NDArray[Any],
        values: NDArray[Any],
        missing_indptr: NDArray[Any],
        missing_indices: NDArray[Any],
    ) -> None:
        """Add rows, given as the arrays of a checked matrix."""
        columns = self._columns
        for name, pointers, positions in (
            ("indptr", indptr, indices),
            ("missing_indptr", missing_indptr, missing_indices),
        ):
            before = columns[name.replace("indptr", "indices")].size
            columns[name].append(np.asarray(pointers[1:], dtype=np.int64) - int(pointers[0]) + before)
            columns[name.replace("indptr", "indices")].append(positions)
        columns["values"].append(values)

    def close(self, kind: str, arrays: Mapping[str, NDArray[Any] | None], facts: dict[str, Any]) -> None:
        """Finish the files, write further arrays (labels, sums) beside them, and give the folder its name."""
        sizes = {name: column.size for name, column in self._columns.items()}
        for column in self._columns.values():
            column.close()
        for name, array in arrays.items():
            if array is not None:
                np.save(self._aside / f"{name}.npy", array, allow_pickle=False)
        shape = sizes["indptr"] - 1, self.n_columns
        finish_folder(self._aside, self.folder, kind, shape, (sizes["values"], sizes["missing_indices"]), facts)

    def abandon(self) -> None:
        """Remove what was written."""
        for column in self._columns.values():
            column._file.close()
        shutil.rmtree(self._aside, ignore_errors=True)


def begin_folder(folder: Path) -> Path:
    """A folder beside one that is to be made, for what is written meanwhile."""
    if folder.exists():
        raise InvalidInputError(f"{folder} is there already: name a folder that is not, or remove it.")
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.writing")
    try:
        aside.mkdir(parents=True)
    except OSError as error:
        raise InvalidInputError(f"cannot write to {folder.parent} ({error}): name another folder.") from error
    return aside


def finish_folder(
    aside: Path, folder: Path, kind: str, shape: tuple[int, int], stored: tuple[int, int], facts: dict[str, Any]
) -> None:
    """Write what the folder says of itself, and give it its name.

    Parameters
    ----------
    aside, folder
        Where its files are, and its name.
    kind
        What the data are.
    shape
        Rows, columns.
    stored
        Nonzeros, and missing cells.
    facts
        What else is known.
    """
    description = {
        "kind": KIND,
        "version": _VERSION,
        "data": kind,
        "shape": list(shape),
        "nonzeros": stored[0],
        "missing": stored[1],
        **facts,
    }
    (aside / DESCRIPTION).write_text(json.dumps(description, indent=1) + "\n")
    aside.rename(folder)


def is_csr_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder that `CsrWriter` made."""
    return (Path(path) / DESCRIPTION).is_file()


def open_csr(folder: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any] | None]]:
    """What a folder says of itself, and its arrays mapped into memory: pages are read when they are needed.

    The mapping is private and writable, as kernels are compiled for such arrays, and nothing writes to it.
    """
    folder = Path(folder)
    with _sound(folder):
        description = json.loads((folder / DESCRIPTION).read_text())
        if description["kind"] != KIND or description["version"] != _VERSION:
            raise ValueError("it was not written by this version of partwise")
        found = {name: np.asarray(_mapped(folder / f"{name}.npy")) for name in ARRAYS}
        n_rows, n_columns = description["shape"]
        _check_pattern(found["indptr"], found["indices"], n_rows, description["nonzeros"])
        _check_pattern(found["missing_indptr"], found["missing_indices"], n_rows, description["missing"])
        if found["values"].shape != found["indices"].shape or found["values"].dtype.kind not in "uif":
            raise ValueError("its values are not one number for each nonzero")
        arrays: dict[str, NDArray[Any] | None] = {**found}
        for name, size in (("row_labels", n_rows), ("column_labels", n_columns)):
            path = folder / f"{name}.npy"
            arrays[name] = labels = load_npy(path) if path.exists() else None
            if labels is not None and (labels.shape != (size,) or labels.dtype.kind != "U"):
                raise ValueError(f"its {name} are not {size} names")
    return description, arrays


def read_sums(folder: str | os.PathLike[str], description: dict[str, Any]) -> tuple[float, str, NDArray[np.float64]]:
    """The sum of all values, the checksum and the sums of columns, as a folder says them."""
    with _sound(Path(folder)):
        total, checksum = float(description["total"]), str(description["checksum"])
        sums = load_npy(Path(folder) / "column_sums.npy")
        if sums.shape != (description["shape"][1],) or sums.dtype != np.float64:
            raise ValueError("its column_sums are not one number for each column")
    return total, checksum, sums


def check_positions(folder: str | os.PathLike[str], n_columns: int) -> None:
    """Refuse a folder of which a cell is in no column: kernels would follow such positions out of their arrays.

    All positions are read, a piece at a time, and not mapped, so that they are not kept in memory.
    """
    for name in ("indices", "missing_indices"):
        path = Path(folder) / f"{name}.npy"
        mapped = _mapped(path)
        for start in range(0, mapped.size, _COPIED_AT_ONCE):
            piece = np.fromfile(path, np.int32, _COPIED_AT_ONCE, offset=mapped.offset + 4 * start)  # type: ignore[attr-defined]  # mapped, as it is not empty
            if piece.min() < 0 or piece.max() >= n_columns:
                raise FileFormatError(f"{folder} has cells beyond its {n_columns} columns: write it anew.")


@contextlib.contextmanager
def _sound(folder: Path) -> Iterator[None]:
    """What is wrong with a folder, in one sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileFormatError(f"{folder} lacks {Path(str(error.filename)).name}: write it anew.") from error
    except (KeyError, TypeError, ValueError, EOFError) as error:
        raise FileFormatError(f"{folder} cannot be read ({error}): write it anew.") from error


def _check_pattern(indptr: NDArray[Any], indices: NDArray[Any], n_rows: int, stored: int) -> None:
    if indptr.dtype != np.int64 or indices.dtype != np.int32:
        raise ValueError("its positions are not whole numbers of 64 and 32 bits")
    if (indptr.shape, indices.shape) != ((n_rows + 1,), (stored,)):
        raise ValueError("its files have other sizes than it says")
    if indptr[0] != 0 or indptr[-1] != stored or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError("its rows do not follow each other")


def _mapped(path: Path) -> NDArray[Any]:
    """A mapped .npy file; an empty one, which cannot be mapped, is read."""
    try:
        array: NDArray[Any] = load_npy(path, "c")
    except ValueError:
        array = load_npy(path)
    return array
