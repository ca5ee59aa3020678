"""What an engine does: call a function for every block of rows, and sum the results in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from partwise.engines.blocks import Made

Function = Callable[..., Any]
Calls = Sequence[tuple[Any, ...]]
"""Arguments for several calls of a function."""
Block = TypeVar("Block")
Value = TypeVar("Value")


@runtime_checkable
class Engine(Protocol):
    """Where blocks of rows are processed.

    The result does not depend on the number of workers: see `partwise.engines.tree` for the order of the sum.
    """

    @property
    def here(self) -> Engine:
        """The threads of this process, for arrays that never leave it."""

    def map_reduce(self, function: Callable[..., Value], blocks: Sequence[Block], *args: Any) -> Value:
        """The sum of ``function(block, *args)`` over blocks, in a fixed tree, with threads of this process.

        The function returns new arrays, floats, or tuples or dataclasses of them. The engine adds into them in place.
        """

    def for_each(self, function: Callable[..., object], blocks: Sequence[Block], *args: Any) -> None:
        """Call ``function(block, *args)`` for every block, with threads of this process.

        Blocks write to disjoint parts of shared arrays.
        """

    def map_rows(
        self,
        function: Callable[..., Value],
        data: Any,
        blocks: Sequence[tuple[int, int]],
        *shared: Any,
        reads: Sequence[Any] = (),
        changes: Sequence[Any] = (),
        makes: Sequence[Made] = (),
        recut: bool = False,
        stay: bool = False,
    ) -> tuple[Value, tuple[Any, ...]]:
        """The sum of ``function(Block, *reads, *changes, *makes, *shared)``, and the arrays it changed and made.

        Arrays with one row per sample are NumPy arrays, or `partwise.engines.worker_rows.RowsOnWorkers` once an engine
        with workers has stored or made them. Arrays that are changed or made then stay on the workers.

        Parameters
        ----------
        function
            A function at module level (workers import it) without memory between calls. It returns one term of the sum,
            in new arrays (None if there is nothing to sum).
        data
            The data whose rows are processed.
        blocks
            Ranges of rows, in order, that cover all rows; at least one.
        shared
            Further arguments, the same for all blocks. Arrays on workers are passed as a whole.
        reads
            Arrays with one row per row of the data, or a single row for all; or `Ragged`.
        changes
            The same, but changed in place by the function. Do not use the given arrays afterwards.
        makes
            Arrays that the function fills.
        recut
            Set it if any other blocks would give the same result, because only whole numbers, or nothing, are summed.
            An engine may then keep the cuts of arrays on workers, so that no row has to move.
        stay
            Whether new arrays stay on the workers even if no given array was there.
        """

    def map_columns(
        self, function: Function, arguments: Calls, *arrays: Any, n_made: int, order: Sequence[int] | None = None
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """Call ``function(*arguments[k], column k of each array)`` for each k, and join the columns that it returns.

        Parameters
        ----------
        function
            A function at module level that returns something small, followed by ``n_made`` columns.
        arguments
            Further arguments, one tuple per column.
        arrays
            Rows x columns, or a single row for all; the first has all rows.
        n_made
            Number of arrays that are made.
        order
            The order in which columns are started.

        Returns
        -------
        found, made
            The first result of the function for each column, and the arrays that it made. These stay on the workers if
            the first array is there.
        """

    def place(self, array: Any, data: Any, blocks: Sequence[tuple[int, int]]) -> Any:
        """Store a per-row array on the workers; without workers, return it unchanged.

        For a `Ragged` array, return the array itself.
        """

    def fingerprint(self) -> str:
        """The same text for every engine, because no engine changes a result (see `partwise.core.state`)."""
