"""``partwise.on_disk``: convert data of any size, block by block, to a folder that is mapped into memory."""

import os
import shutil
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from partwise.core.data import CountMatrix
from partwise.engines.local import resolve_engine
from partwise.errors import InvalidInputError
from partwise.io.atomic import FilePath
from partwise.storage.by_workers import write_by_workers
from partwise.storage.csr_folder import MappedCounts, is_csr_folder
from partwise.storage.sources import DataRules, checked, lazy_rows, matrices, unread_rows
from partwise.storage.writing import write_rows


def on_disk(
    source: Any, folder: FilePath | None = None, *, engine: Any = None, n_jobs: int | None = None, **options: Any
) -> MappedCounts:
    """Convert data that need not fit into memory, for estimators that work row by row.

    Data are read once, block by block, checked, and written to a folder of plain arrays that is mapped into memory
    (about 5 bytes per nonzero, 6 if counts exceed 255). The data are never in memory as a whole.

    Parameters
    ----------
    source
        A folder that this function wrote. A folder of parts: files of any format of `partwise.read`, each with some
        samples, in the order of their names. An .h5ad file, a backed or a lazy AnnData object. A Dask array of sparse
        or dense chunks, or an iterable of matrices.
    folder
        The folder to write; None if the source is a folder that this function wrote.
    engine
        With Dask (as for estimators), workers read, check and write the data, and this process sees only their sizes.
        The workers must be able to see the folder and the files.
    n_jobs
        Number of workers that ``engine="dask"`` starts.
    options
        Further arguments of `partwise.read` for parts; ``layer`` for AnnData.

    Returns
    -------
    MappedCounts
        Pass it as X to any ``fit``, ``transform`` and ``score``.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> parts = [np.array([[3, 0], [0, 1]]), np.array([[2, 2]])]
    >>> on_disk(parts, Path(tempfile.mkdtemp()) / "counts").shape
    (3, 2)
    """
    if isinstance(source, str | os.PathLike):
        source = Path(source)
        if is_csr_folder(source):
            if folder is not None or options:
                raise InvalidInputError(
                    f"{source} holds rows that were read and written before: open it without folder and options, or"
                    " copy it."
                )
            return MappedCounts.open_checked(source)
    if folder is None:
        raise InvalidInputError("folder= is needed: name a folder to write the data to, which must not exist yet.")
    where: Any = resolve_engine(engine, n_jobs)
    if _has_workers(where):
        unread = unread_rows(source, options, lambda *work: where.results(where.submit_each(*work)))
    else:
        unread = unread_rows(source, options)
    if _has_workers(where) and unread is not None:
        write_by_workers(where, unread, folder, DataRules())
    else:
        read = matrices(source, options) if unread is None else (rows.read() for rows in unread)
        write_rows(_checked_blocks(read), folder)
    return MappedCounts.open(folder)


def spread(X: Any, engine: Callable[[], Any], *, caller: str, integers: bool = False) -> Any:
    """Let workers write lazy data (a Dask array or AnnData) to disk instead of gathering them here.

    Parameters
    ----------
    X
        The data.
    engine
        Returns the engine of the estimator; called only if needed.
    caller
        Who uses the data, for messages.
    integers
        Whether the data must be counts.

    Returns
    -------
    MappedCounts
        For lazy data and an engine with workers: data in a folder of the engine, which is removed with it. Otherwise
        ``X`` itself, also for a batch of ``partial_fit``.
    """
    # A batch of partial_fit is meant to fit into memory, and its columns are needed.
    unread = None if caller.endswith(".partial_fit") else lazy_rows(X, {})
    if unread is None or not _has_workers(where := engine()):
        return X
    folder = where.folder / f"data-{uuid.uuid4().hex}"
    write_by_workers(where, unread, folder, DataRules(integers, caller))
    mapped = MappedCounts.open(folder, "X")
    weakref.finalize(mapped, shutil.rmtree, folder, ignore_errors=True)
    return mapped


def _has_workers(engine: Any) -> bool:
    return hasattr(engine, "submit_each")


def _checked_blocks(read: Iterable[Any]) -> Iterator[CountMatrix]:
    """Checked blocks of rows; messages give the position of a row in the whole data."""
    n_rows = 0
    for rows in read:
        block = checked(rows, n_rows, DataRules())
        if block is not None:
            yield block
            n_rows += block.shape[0]
