"""Sparse matrices built from untrusted arrays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from partwise.io.reading import Duplicates
from partwise.io.source import bad_file, refuse_above

Array = np.ndarray[Any, Any]
Entries = tuple[Array, Array, Array]
"""Row, column and value of each entry."""
Place = Callable[[int], str]
"""Describes the n-th entry for a message, such as its line."""

_LARGEST_INT = 2**63 - 1
# A matrix with more rows or columns than this, nearly all of them empty, has most likely a wrong header.
_MANY = 10**7
_SPARSEST = 1000


def numeric(array: Array, path: Path, what: str) -> Array:
    """The array as plain numbers that SciPy can handle; anything else is refused."""
    if array.dtype.kind not in "biuf":
        raise bad_file(path, f"{what} has values of type {array.dtype}, not numbers", "save real numbers")
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def check_declared(path: Path, shape: tuple[int, int], entries: int, limit: int, bytes_each: int = 40) -> None:
    """Refuse sizes that would exhaust memory or make no sense, before anything is allocated."""
    rows, columns = shape
    if rows < 0 or columns < 0 or entries < 0:
        raise bad_file(path, f"it declares a negative size ({rows} x {columns}, {entries} entries)")
    described = f"{path} (a matrix of {rows} x {columns} with {entries} entries)"
    refuse_above(limit, 8 * (rows + columns) + bytes_each * entries, described)
    longest = max(rows, columns)
    if longest > _MANY and longest > _SPARSEST * (entries + 1):
        raise bad_file(path, f"it declares {rows} x {columns} but only {entries} entries", "correct its header")


def from_compressed(data: Array, indices: Array, indptr: Array, shape: tuple[int, int], path: Path) -> sp.csr_array:
    """A checked CSR array; repeated entries are summed, as in SciPy."""
    indices, indptr = check_compressed(indices, indptr, shape, len(data), path)
    matrix = sp.csr_array((data[: len(indices)], indices, indptr), shape=shape)
    if not matrix.has_canonical_format:
        matrix.sort_indices()
    if matrix.has_canonical_format:
        return matrix
    entries = matrix.tocoo()
    return _summed((entries.row, entries.col, entries.data), matrix.shape, path)


def check_compressed(
    indices: Array, indptr: Array, shape: tuple[int, int], stored: int, path: Path
) -> tuple[Array, Array]:
    """Check the index arrays of a CSR matrix against its shape and the number of stored values."""
    rows, columns = shape
    if indices.ndim != 1 or indptr.ndim != 1 or indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu":
        raise bad_file(path, "indices and indptr must be arrays of integers with one axis")
    if len(indptr) != rows + 1:
        raise bad_file(path, f"indptr has {len(indptr)} values, but {rows} rows need {rows + 1}")
    if len(indices) != stored:
        raise bad_file(path, f"it has {stored} values but {len(indices)} indices")
    if indptr[0] != 0 or int(indptr[-1]) > stored:
        raise bad_file(path, f"indptr runs from {indptr[0]} to {indptr[-1]}, but there are {stored} values")
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if falls.size:
        raise bad_file(path, f"indptr falls after row {falls[0]}")
    indices = indices[: int(indptr[-1])]
    outside = np.flatnonzero((indices < 0) | (indices >= columns))
    if outside.size:
        row = int(np.searchsorted(indptr, outside[0], side="right")) - 1
        raise bad_file(path, f"row {row} has an entry in column {indices[outside[0]]}, but there are {columns} columns")
    return indices, indptr


def from_coordinates(
    entries: Entries, shape: tuple[int, int], path: Path, duplicates: Duplicates, place: Place = "entry {}".format
) -> sp.csr_array:
    """A CSR array from entries that are known to be inside ``shape``; ``place`` describes the n-th one in a message."""
    rows, columns, values = entries
    matrix = sp.coo_array((values, (rows, columns)), shape=shape).tocsr()
    if matrix.nnz < len(values):
        if duplicates == "refuse":
            first, second = _first_repeat(rows, columns, shape)
            remedy = "remove one of them, or pass duplicates='sum' to add them up"
            raise bad_file(path, f"{place(second)} repeats the row and column of {place(first)}", remedy)
        matrix = _summed(entries, shape, path)
    return sp.csr_array(matrix)


def _summed(entries: Entries, shape: tuple[int, int], path: Path) -> sp.csr_array:
    """Add repeated entries, in 64 bits so that small integers do not overflow."""
    rows, columns, values = entries
    if values.dtype.kind in "biu":
        if np.abs(values.astype(np.float64)).sum() > 0.99 * _LARGEST_INT:
            raise bad_file(path, "its repeated entries add up to more than 64 bits hold", "remove the repeated entries")
        values = values.astype(np.int64)
    return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=shape).tocsr())


def _first_repeat(rows: Array, columns: Array, shape: tuple[int, int]) -> tuple[int, int]:
    keys = rows.astype(np.int64) * shape[1] + columns.astype(np.int64)
    order = np.argsort(keys, kind="stable")
    repeats = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    position = repeats[np.argmin(order[repeats + 1])]
    return int(order[position]), int(order[position + 1])
