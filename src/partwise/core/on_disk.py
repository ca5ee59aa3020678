"""``partwise.on_disk``: data of any size, brought block by block into a folder that is mapped into memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from partwise.core.data import CountMatrix
from partwise.core.mapped import MappedCounts, write_rows
from partwise.errors import FileFormatError, InvalidInputError
from partwise.io import read
from partwise.io.csr_folder import is_csr_folder
from partwise.io.table import Labels, Table, as_labels

# Stored values that are read at once: 48 MB of .h5ad.
_VALUES_AT_ONCE = 2**22


def on_disk(source: Any, folder: str | os.PathLike[str] | None = None, **options: Any) -> MappedCounts:
    """Data that need not fit into memory, for estimators that go over rows.

    They are read once, block by block, checked, and written to a folder of plain arrays that is mapped into memory
    (about 6 bytes a nonzero). Nothing of the size of the data is ever in memory.

    Parameters
    ----------
    source
        A folder that this function wrote; a folder of parts (files of any format of `partwise.read`, taken in the order
        of their names, each with some samples); an .h5ad file or a backed AnnData object; a Dask array of sparse or
        dense chunks; or an iterable of matrices.
    folder
        The folder to write; not needed for one that is there already.
    options
        Further arguments of `partwise.read` for parts; ``layer`` for AnnData.

    Returns
    -------
    MappedCounts
        What every ``fit``, ``transform`` and ``score`` accepts as X.

    Examples
    --------
    >>> import tempfile
    >>> parts = [np.array([[3, 0], [0, 1]]), np.array([[2, 2]])]
    >>> on_disk(parts, Path(tempfile.mkdtemp()) / "counts").shape
    (3, 2)
    """
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and is_csr_folder(path):
        return MappedCounts.open(path)
    if folder is None:
        raise InvalidInputError("folder is needed: name one, that is not there yet, to write the data to.")
    tables = _tables(source, path, options)
    write_rows((CountMatrix.build(table, integers=False, caller="on_disk") for table in tables), folder)
    return MappedCounts.open(folder)


def _tables(source: Any, path: Path | None, options: dict[str, Any]) -> Iterator[Any]:
    if path is not None:
        if path.is_dir() and path.suffix != ".zarr":
            return _parts(path, options)
        if path.suffix == ".h5ad":
            return _h5ad(path, _layer_alone(options))
        return iter([read(path, **options)])
    if getattr(source, "isbacked", False):
        return _h5ad(Path(source.filename), _layer_alone(options))
    if hasattr(source, "dask") and hasattr(source, "chunks"):
        return _dask_chunks(source)
    if hasattr(source, "shape"):
        return iter([source])
    return iter(source)


def _parts(folder: Path, options: dict[str, Any]) -> Iterator[Table]:
    """The files of a folder; where parts name their features, each is brought to the features of all."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise FileFormatError(f"{folder} has no files: name a folder of parts.")
    labels = [read(file, **options).column_labels for file in files] if files[0].suffix == ".parquet" else [None]
    features: Labels | None = None
    if all(names is not None for names in labels):
        # In the order of their first appearance.
        features = as_labels(dict.fromkeys(str(name) for names in labels if names is not None for name in names))
    for file in files:
        table = read(file, **options)
        yield table if features is None else _with_features(table, features)


def _with_features(table: Table, features: Labels) -> Table:
    places = {str(name): at for at, name in enumerate(features)}
    matrix = sp.coo_array(table.matrix)
    own = () if table.column_labels is None else table.column_labels
    columns = np.array([places[str(name)] for name in own], dtype=np.int64)
    shape = (table.shape[0], len(features))
    moved = sp.csr_array((matrix.data, (matrix.coords[0], columns[matrix.coords[1]])), shape=shape)
    return Table(moved, table.row_labels, features, source=table.source)


def _layer_alone(options: dict[str, Any]) -> str | None:
    foreign = sorted(options.keys() - {"layer"})
    if foreign:
        raise InvalidInputError(f"{foreign[0]}= is not for AnnData that are read in pieces: drop it.")
    return options.get("layer")


def _h5ad(path: Path, layer: str | None) -> Iterator[Table]:
    """Blocks of rows of X, or of a layer, of an .h5ad file."""
    from partwise.io.optional import require

    h5py = require("h5py", "anndata", "reading .h5ad files")
    try:
        with h5py.File(path, "r") as file:
            matrix = file["X"] if layer is None else file["layers"][layer]
            rows, columns = (_names(file[side]) for side in ("obs", "var"))
            n_rows, n_columns = len(rows), len(columns)
            kind = matrix.attrs.get("encoding-type", "array")
            if kind not in ("csr_matrix", "array"):
                raise InvalidInputError(f"{path} stores its matrix by columns ({kind}): write it as CSR first.")
            indptr = matrix["indptr"][:] if kind == "csr_matrix" else np.arange(n_rows + 1) * n_columns
            for start, stop in _cuts(indptr):
                first, last = int(indptr[start]), int(indptr[stop])
                block: Any = matrix[start:stop] if kind == "array" else None
                if block is None:
                    cells = matrix["data"][first:last], matrix["indices"][first:last], indptr[start : stop + 1] - first
                    block = sp.csr_array(cells, shape=(stop - start, n_columns))
                yield Table(block, rows[start:stop], columns, source=str(path))
    except (OSError, KeyError) as error:
        raise FileFormatError(f"cannot read {path}: {error}; write it again.") from error


def _names(frame: Any) -> Labels:
    index = frame[frame.attrs["_index"]]
    return as_labels(index.asstr()[:] if index.dtype.kind == "O" else index[:])


def _cuts(indptr: Any) -> Iterator[tuple[int, int]]:
    start, n_rows = 0, len(indptr) - 1
    while start < n_rows:
        stop = int(np.searchsorted(indptr, indptr[start] + _VALUES_AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield start, stop
        start = stop


def _dask_chunks(array: Any) -> Iterator[Any]:
    """The chunks of a Dask array one after the other; those of one row of chunks are set side by side."""
    for at in range(array.numblocks[0]):
        pieces = [array.blocks[at, column].compute() for column in range(array.numblocks[1])]
        matrices = [piece if sp.issparse(piece) else sp.csr_array(np.asarray(_dense(piece))) for piece in pieces]
        yield sp.csr_array(sp.hstack(matrices, format="csr"))


def _dense(piece: Any) -> Any:
    """Chunks of the package ``sparse`` know SciPy."""
    return piece.todense() if hasattr(piece, "todense") else piece
