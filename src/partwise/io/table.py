"""A matrix with the names of its rows and columns, and where these names come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from partwise.errors import InvalidInputError
from partwise.io.source import bad_file, check_regular, refuse_above, text_lines

if TYPE_CHECKING:
    from partwise.io.reading import LabelSource, ReadOptions

Labels = np.ndarray[tuple[int], np.dtype[np.str_]]


@dataclass(frozen=True)
class Table:
    """A samples x features matrix with optional labels and missing cells.

    ``partwise.read`` returns one, and every estimator accepts one. Build one by hand to pass a sparse mask:
    ``Table(X, missing=mask)``. Index rows as in an array, ``table[[3, 1]]``: names and metadata are kept, so
    scikit-learn can split a table.

    Parameters
    ----------
    matrix
        Dense array or SciPy sparse matrix. NaN (stored explicitly, if sparse) also marks a missing cell.
    row_labels, column_labels
        Names of samples and features, as arrays of str.
    missing
        Sparse or dense boolean matrix of the same shape, true where the cell was not observed.
    source
        Where the data came from, for messages.
    first_row
        Number of its first row, for messages, if it is a piece of larger data.
    metadata
        Metadata of the samples: an array of str for each name, one entry per row. `partwise.count_texts` fills in
        ``"group"``, ``"time"`` and ``"text"``, which reports show. AnnData files give their obs columns, and .npz files
        keep metadata.
    """

    matrix: Any
    row_labels: Labels | None = None
    column_labels: Labels | None = None
    missing: Any = None
    source: str = "X"
    first_row: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples, features."""
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Table:
        """Some rows, and optionally some columns, with names and metadata: positions, slices or booleans."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        rows, columns = _positions(rows, self.shape[0]), _positions(columns, self.shape[1])
        sparse = sp.issparse(self.matrix)
        taken = [sp.csr_array(one) if sp.issparse(one) else one for one in (self.matrix, self.missing)]
        matrix, missing = (None if one is None else one[rows][:, columns] for one in taken)
        return replace(
            self,
            matrix=matrix if sparse else np.asarray(matrix),
            missing=missing,
            row_labels=None if self.row_labels is None else self.row_labels[rows],
            column_labels=None if self.column_labels is None else self.column_labels[columns],
            metadata={name: values[rows] for name, values in self.metadata.items()},
            first_row=0,
        )

    def with_metadata(self, **columns: Any) -> Table:
        """The same table with more metadata about its samples, such as ``group=``, ``time=`` or ``text=``.

        Parameters
        ----------
        columns
            One value per row for each column; values are stored as text. None drops a column.
        """
        known = dict(self.metadata)
        for name, values in columns.items():
            if values is None:
                known.pop(name, None)
                continue
            known[name] = text_array(values)
            if known[name].size != self.shape[0]:
                raise InvalidInputError(
                    f"{name} has {known[name].size} values for {self.shape[0]} samples: give one per sample."
                )
        return replace(self, metadata=known)

    def transpose(self) -> Table:
        """Swap samples and features. Metadata of samples are dropped."""
        return replace(
            self,
            metadata={},
            matrix=self.matrix.T,
            row_labels=self.column_labels,
            column_labels=self.row_labels,
            missing=None if self.missing is None else self.missing.T,
        )

    def with_nan(self) -> Any:
        """The matrix, CSR or dense, with NaN in missing cells."""
        sparse = sp.issparse(self.matrix)
        matrix = sp.csr_array(self.matrix) if sparse else np.asarray(self.matrix)
        if self.missing is None:
            return matrix
        missing = sp.csr_array(self.missing, dtype=np.float64)
        missing.eliminate_zeros()
        if not sparse:
            filled = matrix.astype(np.float64)
            filled[missing.nonzero()] = np.nan
            return filled
        missing.data[:] = np.nan
        return sp.csr_array(matrix.astype(np.float64) + missing)

    def describe(self) -> str:
        """One line that describes the data."""
        rows, columns = self.shape
        kind = f"sparse, {self.matrix.nnz} stored values" if sp.issparse(self.matrix) else "dense"
        return f"{self.source}: {rows} samples x {columns} features ({kind})"


def _positions(key: Any, size: int) -> Any:
    """A slice, or positions as an array: converts pandas' indices and lists of booleans."""
    if key is Ellipsis:
        return slice(None)
    if isinstance(key, slice):
        return key
    array = np.atleast_1d(np.asarray(key))
    if array.dtype.kind == "b" and array.size != size:
        raise InvalidInputError(f"{array.size} booleans choose from {size} rows or columns: give one for each.")
    return array if array.size else np.zeros(0, dtype=np.intp)


def text_array(values: Any) -> NDArray[np.object_]:
    """An array of texts of any length. A long text does not make all others take its space."""
    found = np.empty(len(values), dtype=object)
    found[:] = [str(value) for value in values]
    return found


def as_labels(values: Any) -> Labels:
    """Turn any sequence of names into an array of str."""
    return np.asarray([str(value) for value in values], dtype=np.str_)


def label_array(values: Sequence[str], where: object, limit: int) -> Labels:
    """An array of str; refused if one overlong label would exhaust memory."""
    # In a NumPy array of str, every element takes the space of the longest one, at four bytes per character.
    longest = max(map(len, values), default=0)
    refuse_above(limit, 4 * longest * len(values), f"{where} (labels of up to {longest} characters)")
    return np.array(values, dtype=np.str_)


def read_label_file(path: Path, limit: int) -> Labels:
    """One label per line, UTF-8, .gz or not."""
    check_regular(path)
    return label_array([line.rstrip("\r\n") for line in text_lines(path, limit)], path, limit)


class Found(NamedTuple):
    """Labels, and where they came from."""

    labels: Labels
    origin: str


def find_labels(
    source: LabelSource | Literal[False] | None, option: str, path: Path, names: Iterable[str], limit: int
) -> Found | None:
    """Labels from the option or, without it, from the first existing file of ``names`` beside ``path``."""
    if source is False:
        return None
    if source is None:
        beside_it = (path.parent / name for name in names)
        return next((_from_file(file, limit) for file in beside_it if file.is_file()), None)
    if isinstance(source, str | Path):
        return _from_file(Path(source).expanduser(), limit)
    return Found(label_array([str(value) for value in source], option, limit), f"the argument {option}")


def _from_file(file: Path, limit: int) -> Found:
    return Found(read_label_file(file, limit), str(file))


def with_labels(
    table: Table, path: Path, options: ReadOptions, names: Iterable[str], rows: Iterable[str] = ()
) -> Table:
    """Add labels to a table whose file has none, from the options or from files beside it (``names`` for columns)."""
    fitting = []
    for option, files, own, size, axis in (
        ("row_labels", rows, table.row_labels, table.shape[0], "rows"),
        ("vocabulary", names, table.column_labels, table.shape[1], "columns"),
    ):
        found = find_labels(getattr(options, option), option, path, files, options.limit)
        if found is not None and len(found.labels) != size:
            remedy = f"give the matching labels as {option}= (in Python, {option}=False for none)"
            raise bad_file(path, f"it has {size} {axis} but {found.origin} has {len(found.labels)} labels", remedy)
        fitting.append(own if found is None else found.labels)
    return replace(table, row_labels=fitting[0], column_labels=fitting[1])


def beside(stem: str, *endings: str) -> list[str]:
    """File names made from a stem and each ending, plain and compressed."""
    return [f"{stem}{ending}{gz}" for ending in endings for gz in ("", ".gz")]


def labels_beside(table: Table, path: Path, options: ReadOptions, stem: str, *endings: str) -> Table:
    """Add labels as `with_labels` does, from STEM.vocab.txt (or another ending) and STEM.rows.txt beside the data."""
    return with_labels(table, path, options, beside(stem, ".vocab.txt", *endings), beside(stem, ".rows.txt"))
