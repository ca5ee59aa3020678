"""Where rows come from: files, folders of parts, AnnData, Dask arrays and matrices, cut into blocks of rows."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise, starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from partwise.core.coerce import as_table, is_anndata, is_chunked, joined, matrix_or_layer
from partwise.core.data import CountMatrix
from partwise.engines.blocks import row_blocks
from partwise.errors import FileFormatError, InvalidInputError
from partwise.io import read
from partwise.io.optional import require
from partwise.io.table import Labels, Table, as_labels

# Stored values read at once: 48 MB of .h5ad.
_VALUES_AT_ONCE = 2**22

CallEach = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Iterable[Any]]
"""Calls a function once per list of arguments, in this process or on workers."""


class DataRules(NamedTuple):
    """What data must be, and what messages call the user of the data."""

    integers: bool = False
    caller: str = "on_disk"


class UnreadRows(NamedTuple):
    """Some rows that are not read yet: a function that reads them, here or on a worker, and its arguments.

    Attributes
    ----------
    function, arguments
        Arguments may contain what Dask has yet to compute, if ``delayed``.
    first_row
        Position of the first row in the whole data, if it is known.
    """

    function: Callable[..., Any]
    arguments: Sequence[Any]
    first_row: int | None = None
    delayed: bool = False

    def read(self) -> Any:
        """Read the rows in this process."""
        arguments = self.arguments
        if self.delayed:
            from dask.base import compute

            arguments = compute(*arguments)  # type: ignore[no-untyped-call]  # of Dask
        return self.function(*arguments)


def unread_rows(source: Any, options: dict[str, Any], call_each: CallEach = starmap) -> list[UnreadRows] | None:
    """Cut data in files or in Dask into blocks of rows; None for data in memory.

    Parameters
    ----------
    source
        The path of a file or a folder of parts, backed or lazy AnnData, an array of Dask, or anything else.
    options
        Arguments of `partwise.read`; ``layer`` of AnnData.
    call_each
        Looks up the names of features, here or on workers.
    """
    if isinstance(source, Path):
        if source.is_dir() and source.suffix != ".zarr":
            return _folder_of_parts(source, options, call_each)
        if source.suffix == ".h5ad":
            return _h5ad(source, _only_layer(options))
        return [UnreadRows(_read_file, (source.absolute(), options, None))]
    if getattr(source, "isbacked", False):
        return _h5ad(Path(source.filename), _only_layer(options))
    return lazy_rows(source, options)


def matrices(source: Any, options: dict[str, Any]) -> Iterator[Any]:
    """Matrices in memory, one after the other: from a matrix, AnnData, or an iterable of matrices."""
    if not hasattr(source, "shape"):
        _refuse_options(options, "matrices in memory")
        yield from source
    else:
        yield as_table(source, layer=_only_layer(options, "data in memory"))


def checked(rows: Any, first_row: int, rules: DataRules) -> CountMatrix | None:
    """Check rows; None if there are none.

    Parameters
    ----------
    rows
        A matrix, or a table.
    first_row
        Position of the first row in the whole data, for messages.
    rules
        What to check.
    """
    if getattr(rows, "shape", (1,))[0] == 0:
        return None
    found = CountMatrix.build(as_table(rows, first_row=first_row), integers=rules.integers, caller=rules.caller)
    # Use one byte if the values fit: this saves one byte in six on disk. In memory 16 bits are the minimum, so that
    # kernels are compiled once for most data.
    small = found.is_integer and found.values.max(initial=0) <= np.iinfo(np.uint8).max
    return found.with_values(found.values.astype(np.uint8)) if small else found


# Folders of parts


def _folder_of_parts(folder: Path, options: dict[str, Any], call_each: CallEach) -> list[UnreadRows]:
    """The files of a folder. If Parquet files name their features, each is aligned to the features of all."""
    files = sorted(file for file in folder.absolute().iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise FileFormatError(f"{folder} has no files: name a folder of data files.")
    features: Labels | None = None
    if files[0].suffix == ".parquet":
        labels = list(call_each(_column_labels, [(file, options) for file in files]))
        if all(names is not None for names in labels):
            # In order of first appearance.
            features = as_labels(dict.fromkeys(str(name) for names in labels for name in names))
    return [UnreadRows(_read_file, (file, options, features)) for file in files]


def _column_labels(file: Path, options: dict[str, Any]) -> Labels | None:
    return read(file, **options).column_labels


def _read_file(file: Path, options: dict[str, Any], features: Labels | None) -> Table:
    table = read(file, **options)
    if features is None:
        return table
    places = {str(name): at for at, name in enumerate(features)}
    matrix = sp.coo_array(table.matrix)
    own = () if table.column_labels is None else table.column_labels
    columns = np.array([places[str(name)] for name in own], dtype=np.int64)
    shape = (table.shape[0], len(features))
    moved = sp.csr_array((matrix.data, (matrix.coords[0], columns[matrix.coords[1]])), shape=shape)
    return Table(moved, table.row_labels, features, source=table.source)


# Arrays of Dask


def lazy_rows(source: Any, options: dict[str, Any]) -> list[UnreadRows] | None:
    """The rows of chunks of a Dask array, or of lazy AnnData; None for anything else."""
    if is_chunked(source):
        _refuse_options(options, "arrays of Dask")
        return _rows_of_chunks(source, None, None)
    if not is_anndata(source):
        return None
    matrix = matrix_or_layer(source, options.get("layer"))
    if not is_chunked(matrix):
        return None
    _only_layer(options)
    return _rows_of_chunks(matrix, as_labels(source.obs_names), as_labels(source.var_names))


def _rows_of_chunks(array: Any, rows: Labels | None, columns: Labels | None) -> list[UnreadRows]:
    """One block per row of chunks, which one worker holds at a time."""
    from dask.delayed import delayed

    if array.ndim != 2:
        raise InvalidInputError(f"X is an array of {array.ndim} dimensions, and 2 are needed: Reshape your data.")
    if rows is not None and any(math.isnan(height) for height in array.chunks[0]):
        array = array.compute_chunk_sizes()
    starts = [None if math.isnan(start) else int(start) for start in accumulate(array.chunks[0], initial=0)]
    names = None if columns is None else delayed(columns)
    return [
        UnreadRows(_table_of_chunks, [list(chunks), None if rows is None else rows[start:stop], names], start, True)
        for chunks, (start, stop) in zip(array.to_delayed(), pairwise(starts), strict=True)
    ]


def _table_of_chunks(chunks: Sequence[Any], rows: Labels | None, columns: Labels | None) -> Table:
    return Table(joined(chunks), rows, columns)


# Files of AnnData


def _h5ad(path: Path, layer: str | None) -> list[UnreadRows]:
    """Blocks of rows of X, or of a layer, of an .h5ad file."""
    path = path.absolute()
    with _open_h5ad(path, layer) as (file, matrix):
        n_rows, n_columns = (_index(file[side]).shape[0] for side in ("obs", "var"))
        kind = matrix.attrs.get("encoding-type", "array")
        if kind not in ("csr_matrix", "array"):
            raise InvalidInputError(f"{path} stores its matrix by columns ({kind}): write it as CSR first.")
        indptr = matrix["indptr"][:] if kind == "csr_matrix" else np.arange(n_rows + 1) * n_columns
    cuts = row_blocks(indptr, _VALUES_AT_ONCE, most_rows=len(indptr))
    return [UnreadRows(_rows_of_h5ad, (path, layer, start, stop), start) for start, stop in cuts]


@contextlib.contextmanager
def _open_h5ad(path: Path, layer: str | None) -> Iterator[tuple[Any, Any]]:
    h5py = require("h5py", "anndata", "reading .h5ad files")
    try:
        with h5py.File(path, "r") as file:
            yield file, file["X"] if layer is None else file["layers"][layer]
    except (OSError, KeyError) as error:
        raise FileFormatError(f"cannot read {path}: {error}; write it again.") from error


def _rows_of_h5ad(path: Path, layer: str | None, start: int, stop: int) -> Table:
    with _open_h5ad(path, layer) as (file, matrix):
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


# Options


def _only_layer(options: dict[str, Any], what: str = "AnnData that are read in pieces") -> str | None:
    _refuse_options({name: value for name, value in options.items() if name != "layer"}, what)
    return options.get("layer")


def _refuse_options(options: dict[str, Any], what: str) -> None:
    if options:
        raise InvalidInputError(f"{min(options)}= is not for {what}: drop it.")
