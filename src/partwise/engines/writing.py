"""Rows on disk written by the workers of a cluster: the client sees sizes and checksums, and never the data."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from partwise.core.chunks import is_chunked
from partwise.core.mapped import check_same_features, of_all
from partwise.core.parts import Rules, StoredPart, add_column_sums, store_chunks, store_piece
from partwise.core.pieces import Piece
from partwise.engines.cluster import abandon
from partwise.errors import EngineError, InvalidInputError, LogNormalisedWarning
from partwise.io.csr_folder import begin_folder, finish_folder
from partwise.io.csr_parts import ranges, write_range
from partwise.io.table import Labels

Submit = Callable[[Sequence[str], Sequence[int], Sequence[int]], list[Any]]
"""Futures of some parts, given all names of folders, numbers of parts, and their first rows in all of the data."""


def write_pieces(engine: Any, pieces: Sequence[Piece], folder: str | os.PathLike[str], rules: Rules) -> None:
    """Let workers get pieces, check them and write them, and make one folder of all.

    Parameters
    ----------
    engine
        A `partwise.engines.dask.DaskEngine`.
    pieces
        Functions that can be sent.
    folder
        The folder to make, which all workers see.
    rules
        What is checked.
    """

    def submit(names: Sequence[str], numbers: Sequence[int], first_rows: Sequence[int]) -> list[Any]:
        given = zip(numbers, first_rows, strict=True)
        return list(engine.submit_each(store_piece, [(pieces[at], names[at], first, rules) for at, first in given]))

    _written(engine, submit, [None] * len(pieces), Path(folder).absolute())


def write_chunks(
    engine: Any,
    array: Any,
    folder: str | os.PathLike[str],
    rules: Rules,
    rows: Labels | None = None,
    columns: Labels | None = None,
) -> None:
    """Let the workers that hold, or make, the chunks of a Dask array check and write them, and make one folder of all.

    Parameters
    ----------
    engine
        A `partwise.engines.dask.DaskEngine`.
    array
        Samples x features, of sparse or dense chunks; a row of chunks is together on one worker at a time.
    folder
        The folder to make, which all workers see.
    rules
        What is checked.
    rows, columns
        Labels.
    """
    import dask
    from dask.delayed import delayed

    if array.ndim != 2:
        raise InvalidInputError(f"X is an array of {array.ndim} dimensions, and 2 are needed: Reshape your data.")
    if rows is not None and any(math.isnan(size) for size in array.chunks[0]):
        array = array.compute_chunk_sizes()
    heights = array.chunks[0]
    known: list[int | None] = [None if math.isnan(first) else int(first) for first in _starts(heights)]
    store = delayed(store_chunks)
    names_of_columns = None if columns is None else delayed(columns)
    chunks = array.to_delayed()

    def submit(names: Sequence[str], numbers: Sequence[int], first_rows: Sequence[int]) -> list[Any]:
        tasks = [
            store(
                list(chunks[at]),
                None if rows is None else rows[known[at] : int(known[at] + heights[at])],
                names_of_columns,
                names[at],
                first,
                rules,
            )
            for at, first in zip(numbers, first_rows, strict=True)
        ]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return list(engine.client.compute(tasks))

    _written(engine, submit, known, Path(folder).absolute())


def _starts(sizes: Sequence[float]) -> list[float]:
    return [0, *itertools.accumulate(sizes)][:-1]


def _written(engine: Any, submit: Submit, first_rows: Sequence[int | None], folder: Path) -> None:
    aside = begin_folder(folder)
    futures: list[Any] = []
    try:
        parts_folder = aside / "parts"
        parts_folder.mkdir()
        names = [str(parts_folder / str(number)) for number in range(len(first_rows))]
        futures = submit(names, range(len(first_rows)), [first or 0 for first in first_rows])
        stored = _stored(engine, lambda at, first: submit(names, [at], [first])[0], first_rows, futures)
        if not stored:
            raise InvalidInputError("there are no rows to write: check where they come from.")
        for sentence in dict.fromkeys(itertools.chain.from_iterable(part.warned for part in stored)):
            warnings.warn(sentence, LogNormalisedWarning, stacklevel=4)
        parts, facts = [one.part for one in stored], [one.facts for one in stored]
        futures = engine.submit_each(write_range, [(piece,) for piece in ranges(aside, parts)])
        futures += engine.submit_each(add_column_sums, [(str(aside), [part.folder for part in parts])])
        engine.results(futures)
        if facts[0].names:
            shutil.copyfile(Path(parts[0].folder) / "column_labels.npy", aside / "column_labels.npy")
        shutil.rmtree(parts_folder)
        sizes = [sum(part.sizes[name] for part in parts) for name in ("indptr", "values", "missing_indices")]
        shape, cells = (sizes[0], facts[0].n_columns), (sizes[1], sizes[2])
        finish_folder(aside, folder, facts[0].kind, shape, cells, of_all(facts))
    except BaseException as error:
        abandon(engine.client, futures)
        _remove(aside)
        if isinstance(error, OSError):
            raise EngineError(
                f"a worker could not write its part of the data ({error}): give a folder that all workers see, with"
                " room for the data twice."
            ) from error
        raise


def _stored(
    engine: Any, again: Callable[[int, int], Any], first_rows: Sequence[int | None], futures: list[Any]
) -> list[StoredPart]:
    """What is known of all parts, in order; the first that cannot be used is refused with its place in the whole."""
    stored: list[StoredPart] = []
    n_rows = 0
    for number, (known, future) in enumerate(zip(first_rows, futures, strict=True)):
        try:
            found = engine.result(future)
        except InvalidInputError:
            if known is None and n_rows:
                engine.result(again(number, n_rows))
            raise
        if found is not None:
            stored.append(found)
            check_same_features(stored[0].facts, found.facts, number)
            n_rows += found.part.n_rows
    return stored


def _remove(aside: Path) -> None:
    """Remove what was written; under another name, so that tasks which still run find nowhere to write."""
    gone = aside.with_name(f"{aside.name}.{uuid.uuid4().hex}")
    try:
        aside.rename(gone)
    except OSError:
        gone = aside
    shutil.rmtree(gone, ignore_errors=True)


def has_workers(engine: Any) -> bool:
    """Whether an engine has workers that can write."""
    return hasattr(engine, "submit_each")


def is_lazy(X: Any) -> bool:
    """Whether X is an array of Dask, or AnnData that holds one."""
    return is_chunked(X) or (hasattr(X, "obs_names") and hasattr(X, "layers") and is_chunked(X.X))
