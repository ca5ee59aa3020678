"""Callbacks see every iteration of a fit and can stop it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from partwise.core.result import Trace
from partwise.errors import InvalidInputError


class Callback(Protocol):
    """What is called after each iteration; returning True stops the fit, any other value does not."""

    def __call__(self, iteration: int, state: Any, trace: Trace, /) -> bool | None:
        """Look at the state: do not change it, and copy what you keep, as the next iteration reuses its arrays."""


class StopFit(Exception):  # noqa: N818 - a signal, as StopIteration is, not an error
    """Raised in a callback to stop the fit; the message becomes part of its status."""


@dataclass(frozen=True)
class TimeLimit:
    """Stop after the first iteration that ends later than `seconds`.

    A resumed run has its own allowance only if it gets a larger limit: the seconds of the trace go on.

    Parameters
    ----------
    seconds
        Allowance of the whole fit.
    """

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise InvalidInputError(f"seconds must be positive, got {self.seconds}.")

    def __call__(self, iteration: int, state: Any, trace: Trace, /) -> None:
        """Raise `StopFit` when the time is over."""
        if trace.columns["elapsed"][-1] > self.seconds:
            raise StopFit(f"the time limit of {self.seconds:g} s was reached")
