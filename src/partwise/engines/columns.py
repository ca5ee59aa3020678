"""Functions over the columns of arrays with a row for each sample: each needs all rows of its column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from partwise.engines import tasks
from partwise.engines.base import Engine
from partwise.engines.distributed import DistributedRows, RemoteRows


def map_columns(
    engine: Engine,
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    *arrays: Any,
    n_made: int,
    order: Sequence[int] | None = None,
) -> tuple[list[Any], tuple[Any, ...]]:
    """Call ``function(*arguments[k], column k of each array)`` for each k, and put together the columns that it makes.

    Parameters
    ----------
    engine
        Where it is done: on this machine in threads; where the first array is one of the workers, on these.
    function
        A function of a module, without memory, that returns something small and then ``n_made`` columns.
    arguments
        Further arguments, of each column.
    arrays
        Rows x columns, or a single row for all.
    n_made
        Arrays that are made.
    order
        Columns in the order in which they are begun.

    Returns
    -------
    found, made
        What the function returned first for each column, and the arrays that it made, which stay where they are made.
    """
    order = range(len(arguments)) if order is None else order
    if isinstance(arrays[0], RemoteRows):
        return _on_workers(arrays[0], function, arguments, arrays, n_made, order)
    columns = [np.ascontiguousarray(array.T) for array in arrays]
    made = [np.empty_like(columns[0]) for _ in range(n_made)]
    found: list[Any] = [None] * len(arguments)

    def one(k: int) -> None:
        found[k], *values = function(*arguments[k], *(array[k] for array in columns))
        for array, column in zip(made, values, strict=True):
            array[k] = column

    engine.for_each(one, order)
    return found, tuple(np.ascontiguousarray(array.T) for array in made)


def _on_workers(
    first: RemoteRows,
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    arrays: Sequence[Any],
    n_made: int,
    order: Sequence[int],
) -> tuple[list[Any], tuple[Any, ...]]:
    engine = first.engine
    given = [engine.sent(array) for array in arrays]
    results = engine.submit_each(tasks.on_column, [(function, arguments[k], k, given) for k in order])
    found, *columns = (
        dict(zip(order, engine.submit_each(tasks.item, [(result, at) for result in results]), strict=True))
        for at in range(1 + n_made)
    )
    placed = [array for array in arrays if isinstance(array, RemoteRows)]
    depth, stored = max(array.depth for array in placed), frozenset().union(*(array.stored for array in placed))
    made = []
    for each in columns:
        own = [each[k] for k in range(len(arguments))]
        pieces = engine.submit_each(tasks.rows_of_columns, [(own, *bound) for bound in first.bounds])
        rows = DistributedRows(engine, first.bounds, pieces, first.row_shape, first.dtype, 1 + depth, stored)
        made.append(engine.kept(rows))
    return engine.results([found[k] for k in range(len(arguments))]), tuple(made)
