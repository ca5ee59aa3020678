"""Checked data: counts (or nonnegative reals) and bits, stored by rows, with labels and missing cells."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from partwise.core.coerce import as_table
from partwise.core.state import fingerprint
from partwise.core.validation import check_values, refuse_all_zero, refuse_fraction, refuse_missing, warn_if_normalised
from partwise.core.weights import CellWeights
from partwise.io.table import Labels, Table
from partwise.kernels.arrays import Bools, Floats, Indices, Numbers, Positions, Starts

# Entries summed at once: NumPy converts its input to 64 bits, and for all data that copy would exceed the data.
_PIECE = 2**16

MISSING_REMEDY = "fill it in, or leave out that row"
"""What to do about a missing cell if there is no better advice."""


@dataclass(frozen=True, eq=False)
class SparseData:
    """Samples x features in CSR form: only nonzeros are stored, and missing cells as a second pattern.

    Attributes
    ----------
    indptr, indices, values
        CSR arrays of the observed nonzeros; ``values`` has the smallest type that holds them.
    missing_indptr, missing_indices
        CSR pattern of the missing cells (empty where nothing is missing).
    shape
        Samples, features.
    weights
        Known factors of the rates of cells, such as batch factors; None = all 1.
    """

    shape: tuple[int, int]
    indptr: Starts
    indices: Indices
    values: Numbers
    missing_indptr: Starts
    missing_indices: Indices
    row_labels: Labels | None = field(default=None, repr=False)
    column_labels: Labels | None = field(default=None, repr=False)
    weights: CellWeights | None = field(default=None, repr=False)

    bits: ClassVar[bool] = False
    by_rows: ClassVar[bool] = False
    """Whether the data can only be read by rows, because no single place holds all rows of a column."""

    @property
    def nnz(self) -> int:
        """Number of observed nonzeros."""
        return int(self.indices.size)

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return int(self.missing_indices.size)

    @property
    def is_integer(self) -> bool:
        """Whether all values are whole numbers."""
        return bool(self.values.dtype.kind in "iu")

    @cached_property
    def total(self) -> float:
        """Sum of all observed values."""
        return float(np.sum(self.values, dtype=np.float64))

    @cached_property
    def row_sums(self) -> Floats:
        """Sum of the observed values of each sample."""
        # reduceat over the rows that have entries: cumulative sums would lose digits on long data.
        indptr, sums = self.indptr, np.zeros(self.indptr.size - 1)
        filled = np.flatnonzero(np.diff(indptr))
        cuts = np.searchsorted(indptr[filled], np.arange(_PIECE, self.values.size, _PIECE))
        for rows in np.split(filled, np.unique(cuts)):
            if rows.size:
                first, last = indptr[rows[0]], indptr[rows[-1] + 1]
                sums[rows] = np.add.reduceat(self.values[first:last], indptr[rows] - first, dtype=np.float64)
        return sums

    @cached_property
    def column_sums(self) -> Floats:
        """Sum of the observed values of each feature."""
        sums = np.zeros(self.shape[1])
        for start in range(0, self.nnz, _PIECE):
            piece = slice(start, start + _PIECE)
            sums += np.bincount(self.indices[piece], weights=self.values[piece], minlength=self.shape[1])
        return sums

    @cached_property
    def transposed(self) -> Self:
        """The same data by columns: features take the place of samples, so one kernel serves both factors."""
        n_rows, n_columns = self.shape
        csc, missing = self.to_scipy().tocsc(), self.missing_matrix().tocsc()
        return replace(
            self,
            shape=(n_columns, n_rows),
            indptr=csc.indptr.astype(np.int64),
            indices=csc.indices.astype(np.int32, copy=False),
            values=csc.data,
            missing_indptr=missing.indptr.astype(np.int64),
            missing_indices=missing.indices.astype(np.int32, copy=False),
            row_labels=self.column_labels,
            column_labels=self.row_labels,
            weights=None if self.weights is None else self.weights.transposed,
        )

    def rows(self, start: int, stop: int) -> Self:
        """Samples ``start`` to ``stop`` as data of their own (views of the same arrays)."""
        first, last = self.indptr[start], self.indptr[stop]
        first_missing, last_missing = self.missing_indptr[start], self.missing_indptr[stop]
        return replace(
            self,
            shape=(stop - start, self.shape[1]),
            indptr=self.indptr[start : stop + 1] - first,
            indices=self.indices[first:last],
            values=self.values[first:last],
            missing_indptr=self.missing_indptr[start : stop + 1] - first_missing,
            missing_indices=self.missing_indices[first_missing:last_missing],
            row_labels=None if self.row_labels is None else self.row_labels[start:stop],
            weights=None if self.weights is None else self.weights.take(np.arange(start, stop)),
        )

    def take(self, rows: Numbers) -> Self:
        """Some samples, in the order given, as data of their own."""
        indptr, cells = _taken(self.indptr, rows)
        missing_indptr, hidden = _taken(self.missing_indptr, rows)
        return replace(
            self,
            shape=(rows.size, self.shape[1]),
            indptr=indptr,
            indices=self.indices[cells],
            values=self.values[cells],
            missing_indptr=missing_indptr,
            missing_indices=self.missing_indices[hidden],
            row_labels=None if self.row_labels is None else self.row_labels[rows],
            weights=None if self.weights is None else self.weights.take(rows),
        )

    @property
    def unweighted(self) -> Self:
        """The same data without weights. All copies made by `weighted` share it."""
        found: Self = self.__dict__.get("_unweighted", self)
        return found

    def weighted(self, weights: CellWeights) -> Self:
        """The same data with known factors of the rates of cells. Cached results are kept."""
        plain = self.unweighted
        found = replace(plain, weights=weights)
        found.__dict__.update({name: getattr(plain, name) for name in ("total", "row_sums", "column_sums")})
        found.__dict__["_unweighted"] = plain
        if not self.by_rows:
            found.__dict__["transposed"] = turned = replace(plain.transposed, weights=weights.transposed)
            turned.__dict__.update(total=plain.total, row_sums=plain.column_sums, column_sums=plain.row_sums)
            turned.__dict__["_unweighted"] = plain.transposed
        return found

    def with_values(self, values: Numbers) -> Self:
        """The same cells with other values (zeros are allowed to be stored)."""
        return replace(self, values=values)

    def only(self, kept: Bools) -> Self:
        """Keep some of the stored cells; the others become zeros."""
        if kept.all():
            return self
        kept_before = np.concatenate(([0], np.cumsum(kept)))
        return replace(self, indptr=kept_before[self.indptr], indices=self.indices[kept], values=self.values[kept])

    def to_scipy(self) -> Any:
        """A SciPy CSR array of the observed values; missing cells are absent from it."""
        return _csr_array(self.values, self.indices, self.indptr, self.shape)

    def to_table(self, source: str = "X") -> Table:
        """The same data as a table; nothing is copied but the pattern of missing cells."""
        missing = self.missing_matrix() if self.n_missing else None
        return Table(self.to_scipy(), self.row_labels, self.column_labels, missing, source)

    def missing_matrix(self) -> Any:
        """A SciPy CSR array of booleans, true in the missing cells."""
        pattern = np.ones(self.n_missing, dtype=np.bool_)
        return _csr_array(pattern, self.missing_indices, self.missing_indptr, self.shape)

    def fingerprint(self) -> str:
        """A checksum of values, positions, missing cells and shape. A checkpoint uses it to recognise its data."""
        arrays = [self.indptr, self.indices, self.values, self.missing_indptr, self.missing_indices]
        return fingerprint([type(self).__name__, self.shape, arrays])

    @classmethod
    def build(
        cls,
        X: Any,
        *,
        integers: bool = True,
        caller: str = "",
        allow_missing: bool = True,
        allow_all_zero: bool = True,
        missing_remedy: str = MISSING_REMEDY,
    ) -> Self:
        """Check data of any accepted kind (see ``as_table``) and store it.

        Parameters
        ----------
        X
            The data, samples x features.
        integers
            Refuse values that are not whole numbers. Bits are always checked.
        caller
            Who uses the data, for messages; by default the class.
        allow_missing, allow_all_zero
            Whether missing cells, and data without a nonzero, are accepted.
        missing_remedy
            What messages suggest where missing cells are not accepted.

        Examples
        --------
        >>> from partwise import BinaryMatrix, CountMatrix
        >>> CountMatrix.build([[3, 0], [0, 1]]).nnz
        2
        >>> BinaryMatrix.build([[1, 0], [float("nan"), 1]]).n_missing
        1
        """
        kind = "binary" if cls.bits else "integer" if integers else "real"
        caller, remedy = caller or cls.__name__, missing_remedy
        if isinstance(X, cls) and (X.by_rows or np.all(X.values)):  # checked before, and no zeros are stored
            labels = Table(None, X.row_labels, X.column_labels)
            if X.n_missing and not allow_missing:
                refuse_missing(X.missing_indptr, X.missing_indices, labels, caller, remedy)
            if kind == "integer" and not X.is_integer:
                refuse_fraction(X, labels, caller)
            if X.nnz == 0 and not allow_all_zero:
                refuse_all_zero(labels, X.n_missing > 0, caller)
            return X
        if isinstance(X, SparseData):
            X = X.to_table()
        table = as_table(X)
        csr, missing = _split_missing(table)
        if missing is not None and not allow_missing:
            refuse_missing(missing.indptr, missing.indices, table, caller, remedy)
        check_values(csr, table, caller=caller, kind=kind)
        if kind == "real":
            warn_if_normalised(csr, table, caller)
        if csr.nnz == 0 and not allow_all_zero:
            refuse_all_zero(table, missing is not None, caller)
        return cls.store(csr, missing, table.row_labels, table.column_labels)

    @classmethod
    def store(cls, csr: Any, missing: Any, row_labels: Labels | None, column_labels: Labels | None) -> Self:
        """Store cells that need no check, such as some of the cells of checked data.

        Parameters
        ----------
        csr, missing
            SciPy CSR arrays in canonical format without stored zeros: the nonzeros, and the pattern of the missing
            cells (None = nothing is missing).
        row_labels, column_labels
            Names of samples and features.
        """
        empty = np.zeros(csr.shape[0] + 1, dtype=np.int64)
        return cls(
            shape=csr.shape,
            indptr=csr.indptr.astype(np.int64),
            indices=csr.indices.astype(np.int32),
            values=_smallest(csr.data),
            missing_indptr=empty if missing is None else missing.indptr.astype(np.int64),
            missing_indices=np.zeros(0, np.int32) if missing is None else missing.indices.astype(np.int32),
            row_labels=row_labels,
            column_labels=column_labels,
        )


class CountMatrix(SparseData):
    """Counts, or any nonnegative real numbers for models that need only expected counts."""


class BinaryMatrix(SparseData):
    """Bits: stored nonzeros are ones, and cells that are neither stored nor missing are zeros."""

    bits: ClassVar[bool] = True


def _csr_array(values: Numbers, indices: Indices, indptr: Starts, shape: tuple[int, int]) -> Any:
    """SciPy converts both index arrays to the wider type. Narrow pointers avoid a wide copy of the positions."""
    narrow = indices.size <= np.iinfo(np.int32).max
    return sp.csr_array((values, indices, indptr.astype(np.int32) if narrow else indptr), shape=shape)


def _taken(indptr: Starts, rows: Numbers) -> tuple[Starts, Starts]:
    """Row pointers of some rows, and where their entries are."""
    sizes = np.diff(indptr)[rows]
    taken = np.concatenate(([0], np.cumsum(sizes)))
    return taken, np.arange(taken[-1]) + np.repeat(indptr[rows] - taken[:-1], sizes)


def _split_missing(table: Table) -> tuple[Any, Any]:
    """Observed nonzeros and missing cells of a table. Values stored in missing cells are dropped before any check."""
    csr, missing = table.matrix, table.missing
    hidden = np.isnan(csr.data) if csr.data.dtype.kind == "f" else np.zeros(csr.nnz, dtype=np.bool_)
    if hidden.any():
        # a copy, because eliminate_zeros below works in place and these arrays are shared
        nan_pattern = sp.csr_array((hidden, csr.indices, csr.indptr), shape=csr.shape, copy=True)
        missing = nan_pattern if missing is None else (missing + nan_pattern)
        missing = sp.csr_array(missing)
        missing.eliminate_zeros()
    if missing is not None and missing.nnz:
        missing.sort_indices()
        cells, absent = _flat_positions(csr), _flat_positions(missing)
        hidden |= absent[np.minimum(np.searchsorted(absent, cells), absent.size - 1)] == cells
    drop = hidden | (csr.data == 0)
    if drop.any():
        kept = np.concatenate(([0], np.cumsum(~drop)))
        csr = sp.csr_array((csr.data[~drop], csr.indices[~drop], kept[csr.indptr]), shape=csr.shape)
    return csr, missing if missing is not None and missing.nnz else None


def _flat_positions(csr: Any) -> Positions:
    """``row * n_columns + column`` of each stored entry; increasing, as the format is canonical."""
    rows = np.repeat(np.arange(csr.shape[0], dtype=np.int64), np.diff(csr.indptr))
    return np.asarray(rows * np.int64(csr.shape[1]) + csr.indices)


def _smallest(values: Numbers) -> Numbers:
    """The values in the smallest type that holds them: unsigned 16 or 32 bits, int64, or float64 for reals."""
    if values.dtype.kind == "f" and not np.all(values == np.floor(values)):
        return values.astype(np.float64)
    largest = int(values.max(initial=0))  # exact: the float 2**63 equals the largest int64 to NumPy
    for kind in (np.uint16, np.uint32, np.int64):
        if largest <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.float64)
