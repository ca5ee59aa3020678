"""What an engine does: a function over blocks, and the sum of what it gives in an order that never changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

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

    def fingerprint(self) -> str:
        """The same text for every engine, as none changes a result (see `partwise.core.fingerprint`)."""
