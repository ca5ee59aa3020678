"""What an engine does: call a function for every block of rows, and sum its results in an order that never changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from partwise.engines.blocks import Made

Function = Callable[..., Any]
Calls = Sequence[tuple[Any, ...]]
"""Arguments of several calls of a function."""
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
        """The sum over blocks of ``function(block, *args)`` in the fixed tree, by threads of this process.

        The function returns arrays, floats, or tuples or dataclasses of them, newly made: the engine adds in place.
        """

    def for_each(self, function: Callable[..., object], blocks: Sequence[Block], *args: Any) -> None:
        """Call ``function(block, *args)`` for every block, by threads of this process.

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
        with workers has placed or made them. What is changed, or made beside them, then stays on the workers.

        Parameters
        ----------
        function
            A function of a module (workers import it) that keeps nothing between calls. It returns a term of the sum,
            newly made (0.0 where there is nothing to sum).
        data
            The data whose rows are visited.
        blocks
            Ranges of rows, in order, that cover all of them; at least one.
        shared
            Further arguments, the same for all blocks. Rows on workers are given whole.
        reads
            Arrays with one row per row of the data, or a single row for all; or `Ragged`.
        changes
            The same, changed in place by the function: what the caller gave is used up.
        makes
            Arrays that the function fills.
        recut
            Set it where any other blocks would give the same result, because only whole numbers, or nothing, are
            summed. An engine may then use the cuts of arrays that are on workers, so that no row has to move.
        stay
            Whether arrays that are made stay on the workers even if none was given.
        """

    def map_columns(
        self, function: Function, arguments: Calls, *arrays: Any, n_made: int, order: Sequence[int] | None = None
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """Call ``function(*arguments[k], column k of each array)`` for each k, and join the columns that it makes.

        Parameters
        ----------
        function
            A function of a module that returns something small, and then ``n_made`` columns.
        arguments
            Further arguments, one tuple per column.
        arrays
            Rows x columns, or a single row for all; the first has all rows.
        n_made
            Number of arrays that are made.
        order
            The order in which columns are begun.

        Returns
        -------
        found, made
            What the function returned first for each column, and the arrays that it made, on the workers if the first
            array is there.
        """

    def place(self, array: Any, data: Any, blocks: Sequence[tuple[int, int]]) -> Any:
        """Store an array with one row per row of the data on the workers; without workers it is returned as it is.

        Of a `Ragged` array, the array itself is returned.
        """

    def fingerprint(self) -> str:
        """The same text for every engine, as none changes a result (see `partwise.core.state`)."""
