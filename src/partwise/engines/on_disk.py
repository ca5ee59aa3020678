"""``partwise.on_disk``: data of any size, brought block by block into a folder that is mapped into memory."""

from __future__ import annotations

import os
import shutil
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from partwise.core.coerce import as_table
from partwise.core.data import CountMatrix
from partwise.core.mapped import MappedCounts, write_rows
from partwise.core.parts import Rules
from partwise.core.pieces import backed_pieces, file_pieces, here, lazy_matrix
from partwise.engines.resolve import resolve_engine
from partwise.engines.writing import has_workers, is_lazy, write_chunks, write_pieces
from partwise.errors import InvalidInputError
from partwise.io import read
from partwise.io.csr_folder import is_csr_folder


def on_disk(
    source: Any,
    folder: str | os.PathLike[str] | None = None,
    *,
    engine: Any = None,
    n_jobs: int | None = None,
    **options: Any,
) -> MappedCounts:
    """Data that need not fit into memory, for estimators that go over rows.

    They are read once, block by block, checked, and written to a folder of plain arrays that is mapped into memory
    (about 6 bytes a nonzero). Nothing of the size of the data is ever in memory.

    Parameters
    ----------
    source
        A folder that this function wrote; a folder of parts (files of any format of `partwise.read`, taken in the order
        of their names, each with some samples); an .h5ad file, a backed or a lazy AnnData object; a Dask array of
        sparse or dense chunks; or an iterable of matrices.
    folder
        The folder to write; None where the source is one that is there already.
    engine
        With Dask (as of estimators), the workers read, check and write parts, .h5ad files and chunks, and this process
        sees only their sizes. They must see the folder, and files.
    n_jobs
        Workers that ``engine="dask"`` starts.
    options
        Further arguments of `partwise.read` for parts; ``layer`` for AnnData.

    Returns
    -------
    MappedCounts
        What every ``fit``, ``transform`` and ``score`` accepts as X.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> parts = [np.array([[3, 0], [0, 1]]), np.array([[2, 2]])]
    >>> on_disk(parts, Path(tempfile.mkdtemp()) / "counts").shape
    (3, 2)
    """
    path = Path(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and is_csr_folder(path):
        if folder is not None or options:
            raise InvalidInputError(
                f"{path} holds rows that were read and written before: open it without folder and options, or copy it."
            )
        return MappedCounts.open_checked(path)
    if folder is None:
        raise InvalidInputError("folder is needed: name one, that is not there yet, to write the data to.")
    where = resolve_engine(engine, n_jobs)
    if not (has_workers(where) and _written_by_workers(where, source, path, folder, options)):
        write_rows(_blocks(source if path is None else path, options), folder)
    return MappedCounts.open(folder)


def spread(X: Any, engine: Callable[[], Any], *, caller: str, integers: bool = False) -> Any:
    """Data that estimators are given: a Dask array, or lazy AnnData, is written by the workers and not gathered.

    Parameters
    ----------
    X
        Data of any kind.
    engine
        Gives the engine of the estimator; called where it matters.
    caller
        What messages call the user of the data.
    integers
        Whether they have to be counts.

    Returns
    -------
    MappedCounts
        Of lazy data where the engine has workers, in a folder of the engine that is removed with it; otherwise ``X``,
        as a batch of ``partial_fit`` is.
    """
    # A batch of partial_fit is meant to fit into memory, and its columns are looked at.
    if not is_lazy(X) or caller.endswith(".partial_fit"):
        return X
    where = engine()
    if not has_workers(where):
        return X
    folder = where.folder / f"data-{uuid.uuid4().hex}"
    matrix, *labels = _lazy(X, {})
    write_chunks(where, matrix, folder, Rules(integers, caller), *labels)
    mapped = MappedCounts.open(folder, "X")
    weakref.finalize(mapped, shutil.rmtree, folder, ignore_errors=True)
    return mapped


def _lazy(X: Any, options: dict[str, Any]) -> Sequence[Any]:
    found = lazy_matrix(X, options)
    assert found is not None
    return found


def _written_by_workers(
    engine: Any, source: Any, path: Path | None, folder: str | os.PathLike[str], options: dict[str, Any]
) -> bool:
    """Let workers write what they can get at; false where this process has to read."""
    if path is not None:
        pieces = file_pieces(path, options, lambda *work: engine.results(engine.submit_each(*work)))
    elif getattr(source, "isbacked", False):
        pieces = backed_pieces(source, options)
    elif is_lazy(source):
        matrix, *labels = _lazy(source, options)
        write_chunks(engine, matrix, folder, Rules(), *labels)
        return True
    else:
        return False
    if pieces is None:
        return False
    write_pieces(engine, pieces, folder, Rules())
    return True


def _blocks(source: Any, options: dict[str, Any]) -> Iterator[CountMatrix]:
    """Checked blocks of rows; messages name rows by their place in the whole."""
    if isinstance(source, Path):
        pieces = file_pieces(source, options)
        given = iter([read(source, **options)]) if pieces is None else (piece() for piece in pieces)
    else:
        given = here(source, options)
    n_rows = 0
    for matrix in given:
        table = as_table(matrix, first_row=n_rows)
        yield CountMatrix.build(table, integers=False, caller="on_disk")
        n_rows += table.shape[0]
