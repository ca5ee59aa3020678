"""What an engine does: a function over blocks, and the sum of what it gives in an order that never changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from partwise.engines.rows import Made

Block = TypeVar("Block")
Value = TypeVar("Value")


@runtime_checkable
class Engine(Protocol):
    """Where blocks are worked on.

    The result must not depend on how many workers there are: see `partwise.engines.tree` for the order of the sum.
    """

    def map_reduce(self, function: Callable[..., Value], blocks: Sequence[Block], *args: Any) -> Value:
        """The sum over blocks of ``function(block, *args)``, in the fixed tree.

        The function returns arrays, floats, or tuples or dataclasses of them, newly made: the engine adds in place.
        """

    def for_each(self, function: Callable[..., object], blocks: Sequence[Block], *args: Any) -> None:
        """Call ``function(block, *args)`` for every block; blocks write to disjoint parts of shared arrays."""

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

        Parameters
        ----------
        function
            A function of a module (workers import it), without memory, that goes over the rows of a
            `partwise.engines.rows.Block`. It returns a term of the sum, newly made (0.0 where there is nothing to sum).
        data
            What the rows are rows of.
        blocks
            Ranges of rows, in order, that cover all of them; at least one.
        shared
            Further arguments, the same for all blocks.
        reads
            Arrays with a row for each row of the data, or a single row for all; or `Ragged`.
        changes
            The same, changed in place by the function: what the caller gave is used up.
        makes
            Arrays that the function fills: they stay where they are made if some array given was placed.
        recut
            Whether other blocks give the same, as where nothing is summed, or whole numbers: an engine may then take
            those in which arrays were placed.
        stay
            Whether arrays that are made stay where they are made in any case.
        """

    def place(self, array: Any, data: Any, blocks: Sequence[tuple[int, int]], *, stacked: bool = False) -> Any:
        """Put an array with a row for each row of the data where blocks are worked on: there it and its heirs stay.

        Such an array is computed with as an array of NumPy (see `partwise.engines.distributed.RemoteRows`), but it
        cannot be written to. It may be `Ragged`, of which the array comes back. If ``stacked``, it has another axis in
        front, by which it is taken apart and put together: see `partwise.engines.rows.put_back`.
        """

    def fingerprint(self) -> str:
        """The same text for every engine, as none changes a result (see `partwise.core.fingerprint`)."""
