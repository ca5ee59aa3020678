"""The format of rows on disk (.npy files and a JSON description), and data mapped into memory from such a folder."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import BinaryMatrix, CountMatrix, SparseData
from partwise.core.state import fingerprint
from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.arrays import load_npy
from partwise.io.atomic import FilePath, disk_error, sweep, temporary_name

ARRAYS = ("indptr", "indices", "values", "missing_indptr", "missing_indices")

POINTERS = {"indptr": "indices", "missing_indptr": "missing_indices"}
"""Arrays with the row starts, and the arrays that they point into."""

_KIND = "partwise rows on disk"
_VERSION = 2
_DESCRIPTION = "matrix.json"
_CLASSES: dict[str, type[SparseData]] = {"counts": CountMatrix, "bits": BinaryMatrix}
_CHECKED_AT_ONCE = 2**20


@dataclass(frozen=True)
class Description:
    """What a folder says about its rows, so that nobody has to read the rows to find out.

    Attributes
    ----------
    data
        ``"counts"`` or ``"bits"``.
    shape
        Samples, features.
    nonzeros, missing
        Number of observed nonzeros, and of missing cells.
    values, row_labels
        Data types of these arrays, as NumPy writes them; empty if rows have no labels.
    column_labels
        A checksum of the names of the features; empty if they have none.
    total
        Sum of the values.
    checksum
        Checksum of the arrays.
    """

    data: str
    shape: tuple[int, int]
    nonzeros: int
    missing: int
    values: str
    row_labels: str
    column_labels: str
    total: float
    checksum: str

    @classmethod
    def of(cls, block: SparseData) -> Description:
        """Describe rows that are in memory."""
        rows, columns = block.row_labels, block.column_labels
        return cls(
            data="bits" if isinstance(block, BinaryMatrix) else "counts",
            shape=block.shape,
            nonzeros=block.nnz,
            missing=block.n_missing,
            values=block.values.dtype.str,
            row_labels="" if rows is None else rows.dtype.str,
            column_labels="" if columns is None else fingerprint(np.asarray(columns, dtype=np.str_)),
            total=block.total,
            checksum=fingerprint([np.asarray(getattr(block, name)) for name in ARRAYS]),
        )

    @classmethod
    def of_all(cls, blocks: Sequence[Description]) -> Description:
        """Describe blocks of consecutive rows as a whole; refuse a block whose features differ from those before it."""
        if not blocks:
            raise InvalidInputError("there are no rows to write: check where they come from.")
        labels = [block.row_labels for block in blocks]
        return dataclasses.replace(
            blocks[0],
            shape=(sum(block.shape[0] for block in blocks), blocks[0].shape[1]),
            nonzeros=sum(block.nonzeros for block in blocks),
            missing=sum(block.missing for block in blocks),
            values=np.result_type(*(block.values for block in blocks)).str,
            row_labels=np.result_type(*labels).str if all(labels) else "",
            total=math.fsum(block.total for block in blocks),
            checksum=fingerprint([block.checksum for block in blocks]),
        )

    def check_features(self, other: Description, number: int) -> None:
        """Refuse the piece of the data with this number, counted from 0, if its features differ from these."""
        if other.shape[1] != self.shape[1]:
            raise InvalidInputError(
                f"Piece {number + 1} of the data has {other.shape[1]} features, and piece 1 has {self.shape[1]}: give"
                " all pieces (files or blocks of rows) the same features."
            )
        if other.column_labels != self.column_labels:
            raise InvalidInputError(
                f"Piece {number + 1} of the data has other feature names than piece 1: give all pieces (files or"
                " blocks of rows) the same features in the same order."
            )

    def arrays(self) -> dict[str, tuple[int, np.dtype[Any]]]:
        """Size and type of each array that has one entry per row or nonzero."""
        n_rows = self.shape[0]
        sizes = n_rows + 1, self.nonzeros, self.nonzeros, n_rows + 1, self.missing, n_rows
        types = "i8", "i4", self.values, "i8", "i4", self.row_labels
        names = *ARRAYS, "row_labels"
        return {name: (n, np.dtype(kind)) for name, n, kind in zip(names, sizes, types, strict=True) if kind}

    def write(self, folder: Path) -> None:
        """Write the description beside the arrays."""
        described = {"kind": _KIND, "version": _VERSION, **dataclasses.asdict(self)}
        (folder / _DESCRIPTION).write_text(json.dumps(described, indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Description:
        """Read the description of a folder."""
        found = json.loads((folder / _DESCRIPTION).read_text())
        if (found.pop("kind"), found.pop("version")) != (_KIND, _VERSION):
            raise ValueError("it was not written by this version of partwise")
        n_rows, n_columns = found.pop("shape")
        if np.dtype(found["values"]).kind not in "uif" or np.dtype(found["row_labels"] or "U").kind != "U":
            raise ValueError("its values are not numbers, or its row_labels not names")
        return cls(shape=(n_rows, n_columns), **found)


def is_csr_folder(path: FilePath) -> bool:
    """Whether a path is a folder of rows."""
    return (Path(path) / _DESCRIPTION).is_file()


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Provide a folder to write to. It gets its name when the block ends, and is removed if the block fails."""
    if folder.exists():
        raise InvalidInputError(f"{folder} exists already: name another folder, or remove it.")
    aside = folder.with_name(f".{temporary_name()}.writing")
    sweep(folder.parent)
    try:
        aside.mkdir(parents=True)
    except OSError as error:
        raise InvalidInputError(f"cannot write to {folder.parent} ({error}): name another folder.") from error
    try:
        yield aside
        aside.rename(folder)
    except BaseException as error:
        of_the_disk = disk_error(error, folder) if isinstance(error, Exception) else None
        # Rename it first, so that tasks that still run on workers cannot write to it.
        with contextlib.suppress(OSError):
            aside = aside.rename(aside.with_suffix(".abandoned"))
        shutil.rmtree(aside, ignore_errors=True)
        if of_the_disk is not None:
            raise of_the_disk from error
        raise


def open_folder(folder: Path) -> tuple[Description, SparseData]:
    """The description of a folder, and its data mapped into memory: pages are read when needed.

    The mapping is private and writable, because kernels are compiled for such arrays. Nothing writes to it.
    """
    with _sound(folder):
        description = Description.read(folder)
        arrays: dict[str, Any] = {}
        for name, (size, dtype) in description.arrays().items():
            arrays[name] = np.asarray(mapped_array(folder / f"{name}.npy"))
            if arrays[name].shape != (size,) or arrays[name].dtype != dtype:
                raise ValueError(f"its {name} are of another size or type than it says")
        for name, positions in POINTERS.items():
            pointers = arrays[name]
            if pointers[0] != 0 or pointers[-1] != arrays[positions].size or np.any(pointers[1:] < pointers[:-1]):
                raise ValueError("its rows do not follow each other")
        path = folder / "column_labels.npy"
        if description.column_labels or path.exists():
            arrays["column_labels"] = load_npy(path)
            if arrays["column_labels"].shape != description.shape[1:] or arrays["column_labels"].dtype.kind != "U":
                raise ValueError("its column_labels are not one name for each column")
        column_sums = load_npy(folder / "column_sums.npy")
        if column_sums.shape != description.shape[1:] or column_sums.dtype != np.float64:
            raise ValueError("its column_sums are not one number for each column")
        data = _CLASSES[description.data](shape=description.shape, **arrays)
        data.__dict__.update(total=float(description.total), column_sums=column_sums)
    return description, data


def check_positions(folder: Path, n_columns: int) -> None:
    """Refuse a folder with positions outside its columns: kernels would follow them out of bounds.

    All positions are read in pieces, not mapped, so that they do not stay in memory.
    """
    for name in POINTERS.values():
        path = folder / f"{name}.npy"
        mapped = mapped_array(path)
        for start in range(0, mapped.size, _CHECKED_AT_ONCE):
            some = np.fromfile(path, np.int32, _CHECKED_AT_ONCE, offset=mapped.offset + 4 * start)  # type: ignore[attr-defined]  # mapped, as it is not empty
            if some.min() < 0 or some.max() >= n_columns:
                raise FileFormatError(f"{folder} has cells beyond its {n_columns} columns: write it again.")


@contextlib.contextmanager
def _sound(folder: Path) -> Iterator[None]:
    """Report what is wrong with a folder, in one sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileFormatError(f"{folder} lacks {Path(str(error.filename)).name}: write it again.") from error
    except (AttributeError, KeyError, TypeError, ValueError, EOFError) as error:
        raise FileFormatError(f"{folder} cannot be read ({error}): write it again.") from error


def mapped_array(path: Path) -> NDArray[Any]:
    """A mapped .npy file. An empty one cannot be mapped, so it is read."""
    try:
        return load_npy(path, "c")
    except ValueError:
        return load_npy(path)


@dataclass(frozen=True, eq=False)
class MappedCounts(CountMatrix):
    """Counts (or nonnegative real numbers) in a folder. Every estimator that works row by row accepts them.

    Algorithms sum over rows block by block, because no single machine holds all rows of a column.
    """

    folder: Path = Path()
    checksum: str = ""
    source: str = "X"

    by_rows = True

    @classmethod
    def open(cls, folder: FilePath, source: str | None = None) -> MappedCounts:
        """Open a folder that `partwise.on_disk` wrote.

        Parameters
        ----------
        folder
            The folder.
        source
            What messages call the data; None = the name of the folder.
        """
        description, stored = open_folder(Path(folder))
        if not isinstance(stored, CountMatrix):
            raise InvalidInputError(f"{folder} holds {description.data}, not counts: open it with what wrote it.")
        arrays = {field.name: getattr(stored, field.name) for field in fields(stored)}
        data = cls(**arrays, folder=Path(folder), checksum=description.checksum, source=source or str(folder))
        data.__dict__.update(total=stored.total, column_sums=stored.column_sums)
        return data

    @classmethod
    def open_checked(cls, folder: FilePath) -> MappedCounts:
        """Open a folder that may have changed since it was written: all positions are read once to check them.

        Parameters
        ----------
        folder
            The folder.
        """
        data = cls.open(folder)
        check_positions(data.folder, data.shape[1])
        return data

    @property
    def transposed(self) -> Self:
        """Not available: the data would have to be rewritten by columns."""
        raise InvalidInputError(
            f"{self.source} holds rows on disk, and this algorithm needs columns: choose another inference, or load the"
            " data into memory."
        )

    def rows(self, start: int, stop: int) -> Any:
        """Samples ``start`` to ``stop`` as data of their own. Pages are read when needed."""
        return self._plain.rows(start, stop)

    def take(self, rows: NDArray[Any]) -> Any:
        """Some samples, in the order given, as data of their own, in memory."""
        return self._plain.take(rows)

    @cached_property
    def _plain(self) -> CountMatrix:
        """The same arrays, still mapped, as ordinary data."""
        return CountMatrix(**{field.name: getattr(self, field.name) for field in fields(CountMatrix)})

    def fingerprint(self) -> str:
        """The checksum from when the folder was written."""
        return self.checksum


def open_data(folder: FilePath) -> SparseData:
    """The data of a folder, mapped into memory, for a process that needs only some rows."""
    return open_folder(Path(folder))[1]
