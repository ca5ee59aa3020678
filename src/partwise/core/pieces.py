"""Data of any size in pieces: each a function without arguments that gives some samples, here or on a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from partwise.core.chunks import is_chunked, rows_of_chunks
from partwise.core.coerce import as_table, matrix_or_layer
from partwise.errors import FileFormatError, InvalidInputError
from partwise.io import read
from partwise.io.table import Labels, Table, as_labels

# Stored values that are read at once: 48 MB of .h5ad.
_VALUES_AT_ONCE = 2**22

Piece = Callable[[], Any]
Each = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]
"""Calls a function with each of some lists of arguments: here, or on workers."""


def each_here(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call a function with each of some lists of arguments."""
    return [function(*own) for own in arguments]


def file_pieces(path: Path, options: dict[str, Any], each: Each = each_here) -> list[Piece] | None:
    """The pieces of a folder of parts, or of an .h5ad file; None of a file that is read as a whole.

    Parameters
    ----------
    path
        Of the folder or file.
    options
        Arguments of `partwise.read`.
    each
        Where the names of features are looked up.
    """
    if path.is_dir() and path.suffix != ".zarr":
        return _parts(path, options, each)
    if path.suffix == ".h5ad":
        return _h5ad(path, _layer_alone(options))
    return None


def backed_pieces(source: Any, options: dict[str, Any]) -> list[Piece]:
    """The pieces of a backed AnnData object."""
    return _h5ad(Path(source.filename), _layer_alone(options))


def lazy_matrix(source: Any, options: dict[str, Any]) -> tuple[Any, Labels | None, Labels | None] | None:
    """The array of Dask of a source, with labels of rows and columns; None if it has none.

    Parameters
    ----------
    source
        An array of Dask, or AnnData that holds one.
    options
        ``layer`` of AnnData.
    """
    if is_chunked(source):
        _no_options(options, "arrays of Dask")
        return source, None, None
    if not (hasattr(source, "obs_names") and hasattr(source, "layers")):
        return None
    matrix = matrix_or_layer(source, options.get("layer"))
    if not is_chunked(matrix):
        return None
    _layer_alone(options)
    return matrix, as_labels(source.obs_names), as_labels(source.var_names)


def here(source: Any, options: dict[str, Any]) -> Iterator[Any]:
    """Matrices of a source that is not a path, one after the other.

    Parameters
    ----------
    source
        Backed or lazy AnnData, an array of Dask, a matrix, or an iterable of matrices.
    options
        ``layer`` of AnnData.
    """
    if getattr(source, "isbacked", False):
        return (piece() for piece in backed_pieces(source, options))
    lazy = lazy_matrix(source, options)
    if lazy is not None:
        return _labelled(rows_of_chunks(lazy[0]), *lazy[1:])
    if not hasattr(source, "shape"):
        _no_options(options, "matrices in memory")
        return iter(source)
    return iter([as_table(source, layer=_layer_alone(options, "data in memory"))])


def _labelled(blocks: Iterable[Any], rows: Labels | None, columns: Labels | None) -> Iterator[Table]:
    first = 0
    for block in blocks:
        last = first + block.shape[0]
        yield Table(block, None if rows is None else rows[first:last], columns)
        first = last


def _parts(folder: Path, options: dict[str, Any], each: Each) -> list[Piece]:
    """The files of a folder; where parts name their features, each is brought to the features of all."""
    files = sorted(file for file in folder.absolute().iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise FileFormatError(f"{folder} has no files: name a folder of parts.")
    features: Labels | None = None
    if files[0].suffix == ".parquet":
        labels = each(_column_labels, [(file, options) for file in files])
        if all(names is not None for names in labels):
            # In the order of their first appearance.
            features = as_labels(dict.fromkeys(str(name) for names in labels for name in names))
    return [partial(_file, file, options, features) for file in files]


def _column_labels(file: Path, options: dict[str, Any]) -> Labels | None:
    return read(file, **options).column_labels


def _file(file: Path, options: dict[str, Any], features: Labels | None) -> Table:
    table = read(file, **options)
    return table if features is None else _with_features(table, features)


def _with_features(table: Table, features: Labels) -> Table:
    places = {str(name): at for at, name in enumerate(features)}
    matrix = sp.coo_array(table.matrix)
    own = () if table.column_labels is None else table.column_labels
    columns = np.array([places[str(name)] for name in own], dtype=np.int64)
    shape = (table.shape[0], len(features))
    moved = sp.csr_array((matrix.data, (matrix.coords[0], columns[matrix.coords[1]])), shape=shape)
    return Table(moved, table.row_labels, features, source=table.source)


def _layer_alone(options: dict[str, Any], what: str = "AnnData that are read in pieces") -> str | None:
    _no_options({name: value for name, value in options.items() if name != "layer"}, what)
    return options.get("layer")


def _no_options(options: dict[str, Any], what: str) -> None:
    if options:
        raise InvalidInputError(f"{min(options)}= is not for {what}: drop it.")


def _h5ad(path: Path, layer: str | None) -> list[Piece]:
    """Blocks of rows of X, or of a layer, of an .h5ad file."""
    path = path.absolute()
    return [partial(_h5ad_rows, path, layer, *cut) for cut in _in_h5ad(path, layer, _h5ad_cuts)]


def _in_h5ad(path: Path, layer: str | None, function: Callable[..., Any], *arguments: Any) -> Any:
    from partwise.io.optional import require

    h5py = require("h5py", "anndata", "reading .h5ad files")
    try:
        with h5py.File(path, "r") as file:
            return function(file, file["X"] if layer is None else file["layers"][layer], path, *arguments)
    except (OSError, KeyError) as error:
        raise FileFormatError(f"cannot read {path}: {error}; write it again.") from error


def _h5ad_cuts(file: Any, matrix: Any, path: Path) -> list[tuple[int, int]]:
    n_rows, n_columns = (_index(file[side]).shape[0] for side in ("obs", "var"))
    kind = matrix.attrs.get("encoding-type", "array")
    if kind not in ("csr_matrix", "array"):
        raise InvalidInputError(f"{path} stores its matrix by columns ({kind}): write it as CSR first.")
    return list(_cuts(matrix["indptr"][:] if kind == "csr_matrix" else np.arange(n_rows + 1) * n_columns))


def _h5ad_rows(path: Path, layer: str | None, start: int, stop: int) -> Table:
    table: Table = _in_h5ad(path, layer, _rows_of_h5ad, start, stop)
    return table


def _rows_of_h5ad(file: Any, matrix: Any, path: Path, start: int, stop: int) -> Table:
    columns = _names(_index(file["var"]))
    if matrix.attrs.get("encoding-type", "array") == "array":
        block: Any = matrix[start:stop]
    else:
        indptr = matrix["indptr"][start : stop + 1]
        first, last = int(indptr[0]), int(indptr[-1])
        cells = matrix["data"][first:last], matrix["indices"][first:last], indptr - first
        block = sp.csr_array(cells, shape=(stop - start, len(columns)))
    return Table(block, _names(_index(file["obs"]), start, stop), columns, source=str(path))


def _index(frame: Any) -> Any:
    return frame[frame.attrs["_index"]]


def _names(index: Any, start: int = 0, stop: int | None = None) -> Labels:
    return as_labels(index.asstr()[start:stop] if index.dtype.kind == "O" else index[start:stop])


def _cuts(indptr: Any) -> Iterator[tuple[int, int]]:
    start, n_rows = 0, len(indptr) - 1
    while start < n_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + _VALUES_AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield start, stop
        start = stop
