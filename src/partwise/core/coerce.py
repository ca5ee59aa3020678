"""One door for data: whatever users hold (arrays, sparse matrices, frames, AnnData, tables) becomes a ``Table``."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from partwise.errors import InvalidInputError
from partwise.io.table import Labels, Table, as_labels


def as_table(X: Any, *, layer: str | None = None, missing: Any = None, name: str = "X") -> Table:
    """Bring data of any accepted kind into a ``Table``: a CSR matrix with labels and missing cells.

    Parameters
    ----------
    X
        NumPy array, masked array, SciPy sparse matrix of any format, pandas or polars frame, AnnData (backed too),
        ``Table``, or nested lists. Rows are samples.
    layer
        Layer of an AnnData object to take instead of its ``X``.
    missing
        Sparse or dense boolean matrix, true where a cell was not observed. NaN in ``X`` and masked cells of a masked
        array are missing as well.
    name
        What messages call the data.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import as_table
    >>> as_table(np.array([[1.0, np.nan], [0.0, 2.0]])).shape
    (2, 2)
    """
    rows: Labels | None = None
    columns: Labels | None = None
    source = name
    matrix = X
    if layer is not None and not _is_anndata(X):
        raise InvalidInputError(f"layer={layer!r} needs an AnnData object, got {type(X).__name__}: drop layer.")
    if isinstance(X, Table):
        rows, columns, source, matrix = X.row_labels, X.column_labels, X.source, X.matrix
        missing = X.missing if missing is None else missing
    elif _is_anndata(X):
        rows, columns, matrix = as_labels(X.obs_names), as_labels(X.var_names), _anndata_matrix(X, layer)
    elif hasattr(X, "columns") and hasattr(X, "to_numpy"):
        rows, columns, matrix = _frame_parts(X)
    if isinstance(matrix, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(matrix)
        missing = hidden if missing is None else hidden | _dense_mask(missing)
        matrix = matrix.filled(0)
    return Table(_as_csr(matrix, name), rows, columns, _as_mask(missing, matrix, name), source)


def _is_anndata(X: Any) -> bool:
    anndata = sys.modules.get("anndata")
    return anndata is not None and isinstance(X, anndata.AnnData)


def _anndata_matrix(X: Any, layer: str | None) -> Any:
    if layer is not None and layer not in X.layers:
        known = ", ".join(map(repr, X.layers)) or "none"
        raise InvalidInputError(f"layer={layer!r} is not in the AnnData object: its layers are {known}.")
    matrix = X.X if layer is None else X.layers[layer]
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
        return None, columns, frame.to_numpy()
    rows = None if isinstance(frame.index, pandas.RangeIndex) else as_labels(frame.index)
    if len(frame.columns) and all(isinstance(kind, pandas.SparseDtype) for kind in frame.dtypes):
        return rows, columns, frame.sparse.to_coo().tocsr()
    return rows, columns, frame.to_numpy(na_value=np.nan) if frame.isna().to_numpy().any() else frame.to_numpy()


def _as_csr(matrix: Any, name: str) -> Any:
    """A canonical CSR array with 64-bit sums of duplicates; NaN stays as a stored value."""
    checked: Any = check_array(
        matrix, accept_sparse=True, accept_large_sparse=True, ensure_all_finite=False, dtype="numeric", input_name=name
    )
    if not sp.issparse(checked):
        # `!= 0` is true for NaN, so missing cells are kept as stored values.
        return sp.csr_array(checked)
    try:
        checked.tocsr().check_format(full_check=True)
    except ValueError as error:
        raise InvalidInputError(
            f"{name} is not a valid sparse matrix ({error}): rebuild it from its entries."
        ) from None
    csr = sp.csr_array(checked)
    if not csr.has_canonical_format:
        # A copy in 64 bits: narrow integers would wrap, and the caller's matrix stays as it is.
        csr = csr.astype(np.float64 if csr.dtype.kind == "f" else np.int64, copy=True)
        csr.sum_duplicates()
    return csr


def _dense_mask(missing: Any) -> Any:
    return missing.toarray() if sp.issparse(missing) else np.asarray(missing)


def _as_mask(missing: Any, matrix: Any, name: str) -> Any:
    """A boolean CSR array of missing cells, or None."""
    if missing is None:
        return None
    mask = sp.csr_array(missing if sp.issparse(missing) else np.asarray(missing))
    shape = np.shape(matrix) if not sp.issparse(matrix) else matrix.shape
    if mask.shape != tuple(shape):
        raise InvalidInputError(f"missing has shape {mask.shape} but {name} has shape {tuple(shape)}: they must agree.")
    mask = mask.astype(np.bool_, copy=True)
    mask.sum_duplicates()
    mask.eliminate_zeros()
    return mask
