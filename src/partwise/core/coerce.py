"""The one entry for data: arrays, sparse matrices, frames, AnnData and tables all become a ``Table``."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from partwise.core.validation import cell_name
from partwise.errors import InvalidInputError
from partwise.io.source import COUNT_FIRST, is_prose
from partwise.io.table import Labels, Table, as_labels

# Integers whose absolute sum is below this can be summed in int64 in any order.
_SAFE_TOTAL = 2.0**62
# Positions within a row are stored in 32 bits.
_MOST_COLUMNS = 2**31 - 1


def as_table(X: Any, *, layer: str | None = None, missing: Any = None, name: str = "X", first_row: int = 0) -> Table:
    """Convert data of any accepted kind to a ``Table``: a CSR matrix with labels and missing cells.

    Parameters
    ----------
    X
        NumPy array, masked array, SciPy sparse matrix of any format, pandas or polars frame, AnnData (backed and lazy
        too), Dask array of sparse or dense chunks, ``Table``, or nested lists. Rows are samples.
    layer
        Layer of an AnnData object to take instead of its ``X``.
    missing
        Sparse or dense boolean matrix, true where a cell was not observed. NaN in ``X`` and masked cells of a masked
        array are missing as well.
    name
        What messages call the data.
    first_row
        Number of the first row, for messages, if X is a piece of larger data.

    Returns
    -------
    Table
        Its matrix is a CSR array in canonical format, its mask a boolean one or None.

    Raises
    ------
    InvalidInputError
        The data are not a matrix of real numbers; ``TypeError`` where a cell holds an object.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import as_table
    >>> as_table(np.array([[1.0, np.nan], [0.0, 2.0]])).shape
    (2, 2)
    """
    rows: Labels | None = None
    columns: Labels | None = None
    matrix, masks = X, [missing]
    metadata = X.metadata if isinstance(X, Table) else {}
    if hasattr(X, "mod") and hasattr(X, "obsm"):  # NumPy would index it forever
        known = ", ".join(map(repr, X.mod))
        raise InvalidInputError(f"X is a MuData object: pass one of its modalities ({known}), such as X.mod[...].")
    if layer is not None and not is_anndata(X):
        raise InvalidInputError(f"layer={layer!r} needs an AnnData object, got {type(X).__name__}: drop layer.")
    if isinstance(X, Table):
        rows, columns, matrix = X.row_labels, X.column_labels, X.matrix
        name, first_row = X.source, X.first_row + first_row
        masks.append(X.missing)
    elif is_anndata(X):
        rows, columns, matrix = as_labels(X.obs_names), as_labels(X.var_names), _anndata_matrix(X, layer)
    elif hasattr(X, "to_numpy") and hasattr(X, "columns"):
        rows, columns, matrix = _frame_parts(X)
    # NumPy cannot join these chunks.
    if is_chunked(matrix) and matrix.ndim == 2 and not isinstance(getattr(matrix, "_meta", None), np.ndarray):
        from dask.base import compute

        whole = (joined(compute(*row)) for row in matrix.to_delayed())  # type: ignore[no-untyped-call]  # of Dask
        blocks = [rows for rows in whole if rows.shape[0]]
        matrix = sp.vstack(blocks, format="csr") if blocks else np.zeros((0, matrix.shape[1]))
    if isinstance(matrix, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(matrix)
        matrix = np.array(matrix.data)
        if hidden.dtype == np.bool_:  # records have a mask of records, and are refused below
            matrix[hidden] = 0
            masks.append(hidden)
    # A table without a matrix yet: only its labels are needed to name a cell.
    place = Table(None, rows, columns, source=name, first_row=first_row)
    csr = _sparse_to_csr(matrix, name) if sp.issparse(matrix) else _dense_to_csr(matrix, place)
    for labels, size, kind in ((rows, csr.shape[0], "row"), (columns, csr.shape[1], "column")):
        if labels is not None and len(labels) != size:
            raise InvalidInputError(f"{name} has {len(labels)} {kind} labels for {size} {kind}s: give one per {kind}.")
    return Table(csr, rows, columns, _joined_masks(masks, csr.shape, name), name, first_row, metadata)


def is_anndata(X: Any) -> bool:
    """Whether X is an AnnData object; the package is not imported to find out."""
    anndata = sys.modules.get("anndata")
    return anndata is not None and isinstance(X, anndata.AnnData)


def matrix_or_layer(X: Any, layer: str | None) -> Any:
    """The matrix of an AnnData object, or one of its layers, as it is stored there."""
    if layer is not None and layer not in X.layers:
        known = ", ".join(map(repr, X.layers)) or "none"
        raise InvalidInputError(f"layer={layer!r} is not in the AnnData object: its layers are {known}.")
    return X.X if layer is None else X.layers[layer]


def _anndata_matrix(X: Any, layer: str | None) -> Any:
    matrix = matrix_or_layer(X, layer)
    if matrix is None:
        raise InvalidInputError("The AnnData object has no X: name a layer.")
    if isinstance(matrix, np.ndarray) or sp.issparse(matrix):
        return matrix
    return matrix.to_memory() if hasattr(matrix, "to_memory") else matrix[:]


def _frame_parts(frame: Any) -> tuple[Labels | None, Labels, Any]:
    """Labels and values of a pandas or polars frame; a pandas range index counts as no labels."""
    pandas = sys.modules.get("pandas")
    columns = as_labels(frame.columns)
    if pandas is None or not isinstance(frame, pandas.DataFrame):
        for name, kind in zip(columns, frame.dtypes, strict=True):
            if hasattr(kind, "is_temporal") and kind.is_temporal():  # polars would convert them to numbers of days
                raise InvalidInputError(f"column {str(name)!r} holds dates or times ({kind}): drop it.")
            if str(kind) in {"Int128", "UInt128"}:
                raise InvalidInputError(f"column {str(name)!r} is of type {kind}: convert it to 64 bits or fewer.")
        return None, columns, frame.to_numpy()
    rows = None if isinstance(frame.index, pandas.RangeIndex) else as_labels(frame.index)
    kinds = list(frame.dtypes)
    if kinds and all(isinstance(kind, pandas.SparseDtype) and kind.fill_value == 0 for kind in kinds):
        return rows, columns, frame.sparse.to_coo()
    numbers = all(pandas.api.types.is_numeric_dtype(kind) for kind in kinds)
    plain = all(isinstance(kind, np.dtype) for kind in kinds)
    # Columns of pandas' own types would make an array of objects.
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan) if numbers and not plain else frame.to_numpy()
    return rows, columns, values


def _dense_to_csr(matrix: Any, place: Table) -> Any:
    """A CSR array of whatever NumPy converts ``matrix`` to; NaN stays as a stored value."""
    name = place.source
    try:
        array = np.asarray(matrix)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{name} is not a matrix, as its rows differ in length or in kind: pass samples x features."
        ) from error
    if array.ndim == 0:
        hint = "read a file with partwise.read" if isinstance(matrix, (str, os.PathLike)) else "pass samples x features"
        raise InvalidInputError(f"{name} is a {type(matrix).__name__}, and a 2D array is needed: {hint}.")
    if array.ndim == 1 and array.dtype.kind in "UO" and all(isinstance(item, str) for item in array[:10]):
        raise InvalidInputError(f"{name} is a sequence of texts, and counts are needed: {COUNT_FIRST}.")
    if array.ndim != 2:
        raise InvalidInputError(
            f"Expected 2D array, got {array.ndim}D array of shape {array.shape} as {name}: Reshape your data to"
            " samples x features."
        )
    _check_shape(array.shape, name)
    if array.dtype.kind in "OUSTVMmc":
        array = _numbers(array, place)
    if array.dtype.kind == "f" and array.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore"):  # values that are too large become infinite, and are refused as such
            array = array.astype(np.float64)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    # `!= 0` is true for NaN, so missing cells are kept as stored values.
    return sp.csr_array(array)


def _numbers(array: Any, place: Table) -> Any:
    """Convert objects to float64. None and pandas' NA become NaN; anything else that is not a real number is refused.

    Text that looks like a number is refused, too: a column of text more likely holds names than counts.
    """
    if array.dtype.kind == "c":
        _refuse_complex(place.source)
    numbers = np.empty(array.shape)
    nothing = (None, getattr(sys.modules.get("pandas"), "NA", None))
    for (row, column), value in np.ndenumerate(array):
        try:
            if isinstance(value, str | bytes | np.datetime64 | np.timedelta64):
                raise TypeError
            numbers[row, column] = np.nan if any(value is known for known in nothing) else float(value)
        except OverflowError:
            raise InvalidInputError(
                f"{cell_name(row, column, place)} is too large for float64: scale the data down or correct it."
            ) from None
        except (TypeError, ValueError):
            text = isinstance(value, str | bytes)
            if isinstance(value, str) and is_prose(value):
                raise InvalidInputError(
                    f"{cell_name(row, column, place)} is {value[:40]!r}…, which looks like raw text: {COUNT_FIRST}."
                ) from None
            what = f"{str(value)!r}, which is text" if text else f"of type {type(value).__name__}"
            sentence = (
                f"{cell_name(row, column, place)} is {what}: cells of the argument must be neither strings nor objects"
                " but numbers; drop that column or convert it."
            )
            raise (InvalidInputError if text else TypeError)(sentence) from None
    return numbers


def _refuse_complex(name: str) -> None:
    raise InvalidInputError(f"Complex data not supported: pass real numbers as {name}, such as abs({name}).")


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    for size, kind in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise InvalidInputError(
                f"Check how {name} was made: Found array with 0 {kind}(s) (shape={tuple(shape)}) while a minimum of 1"
                " is required."
            )
        if size > _MOST_COLUMNS:
            raise InvalidInputError(f"{name} has {size} {kind}s, and at most {_MOST_COLUMNS} are possible: split it.")


def _sparse_to_csr(matrix: Any, name: str) -> Any:
    """A canonical CSR array with 64-bit sums of duplicates; NaN stays as a stored value. The original is not touched.

    The structure is checked before any conversion, because SciPy's conversions follow bad indices out of bounds.
    """
    if matrix.ndim != 2:
        raise InvalidInputError(
            f"Expected 2D array, got {matrix.ndim}D sparse array as {name}: Reshape your data to samples x features."
        )
    _check_shape(matrix.shape, name)
    if matrix.dtype.kind == "c":
        _refuse_complex(name)
    if matrix.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} is a sparse matrix of {matrix.dtype}, and numbers are needed: convert it.")
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            _check_positions(matrix)
            flat = type(matrix)((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape, copy=False)
        else:
            coo = matrix.tocoo(copy=False)
            flat = sp.coo_array((coo.data, (coo.row, coo.col)), shape=coo.shape)
    except (ValueError, IndexError, TypeError) as error:
        raise InvalidInputError(f"{name} is not a valid sparse matrix ({error}): rebuild it.") from error
    if flat.format == "csr" and flat.has_canonical_format and flat.dtype.itemsize <= 8:
        return sp.csr_array(flat)
    csr = sp.csr_array(flat.astype(_type_for_sums(flat.data), copy=flat.format == "csr"))
    csr.sum_duplicates()
    return csr


def _check_positions(matrix: Any) -> None:
    """Refuse compressed formats with inconsistent arrays; SciPy's own check misses some of them."""
    shape = np.array(matrix.shape) // (matrix.blocksize if matrix.format == "bsr" else 1)
    n_rows, n_columns = shape[::-1] if matrix.format == "csc" else shape
    indptr, indices = np.asarray(matrix.indptr), np.asarray(matrix.indices)
    if indptr.shape != (n_rows + 1,) or indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError("its index pointers do not rise from 0 in one step per row")
    if indices.ndim != 1 or indptr[-1] > min(len(indices), len(matrix.data)):
        raise ValueError("its index pointers go beyond its entries")
    stored = indices[: indptr[-1]]
    if stored.size and (stored.min() < 0 or stored.max() >= n_columns):
        raise ValueError("a position is out of range")


def _type_for_sums(values: Any) -> Any:
    """The type in which duplicate entries are added: narrow integers would wrap. Booleans are combined by "or"."""
    if values.dtype.kind == "b":
        return np.bool_
    if values.dtype.kind == "f" or np.abs(values.astype(np.float64)).sum() >= _SAFE_TOTAL:
        return np.float64
    return np.int64


def _joined_masks(masks: list[Any], shape: tuple[int, int], name: str) -> Any:
    """A boolean CSR array, true where any of the masks is; None if there is none."""
    joined = None
    for mask in masks:
        if mask is None:
            continue
        if not sp.issparse(mask):
            mask = np.asarray(mask)
        if tuple(mask.shape) != tuple(shape):
            raise InvalidInputError(
                f"missing has shape {tuple(mask.shape)}, but {name} has shape {tuple(shape)}: make them the same."
            )
        if mask.dtype.kind not in "biuf":
            raise InvalidInputError(f"missing must be a boolean matrix, got one of {mask.dtype}: convert it.")
        mask = mask.astype(np.bool_)
        csr = _sparse_to_csr(mask, "missing") if sp.issparse(mask) else sp.csr_array(mask)
        csr.eliminate_zeros()
        joined = csr if joined is None else joined + csr
    return joined


def is_chunked(X: Any) -> bool:
    """True for a Dask array."""
    return hasattr(X, "dask") and hasattr(X, "chunks") and hasattr(X, "to_delayed")


def joined(chunks: Sequence[Any]) -> Any:
    """Join a row of chunks into one matrix. A single chunk stays as it is, unless the package ``sparse`` made it."""
    matrices = [chunk.to_scipy_sparse() if hasattr(chunk, "to_scipy_sparse") else chunk for chunk in chunks]
    return matrices[0] if len(matrices) == 1 else sp.csr_array(sp.hstack(list(map(sp.csr_array, matrices))))
