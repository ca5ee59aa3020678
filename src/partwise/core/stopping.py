"""When a run stops: it has converged, a callback asks for it, or Ctrl-C was pressed."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

from partwise.core.result import Trace
from partwise.errors import InvalidInputError

_NOTICE = b"\nstopping after this iteration; press Ctrl-C again to stop at once and lose the fit\n"


class Rule(ABC):
    """When to stop. A rule has no memory: everything it needs is in the trace."""

    @abstractmethod
    def check(self, trace: Trace) -> str | None:
        """Why the fit has converged at the last row of the trace, as a clause; None if it has not converged."""

    def advice(self, trace: Trace, max_iter: int, onward: str) -> str:
        """What to do about a fit that has not converged, as a clause; ``onward`` says how to continue it."""
        return f"raise max_iter= (now {max_iter}) or tol=, and {onward}"


@dataclass(frozen=True)
class SmallChange(Rule):
    """Converged when the objective changes per iteration by less than `tol` units.

    The change between successive computed values is divided by the iterations between them. So `tol` means the same
    however often the algorithm computes its objective. ``tol=0`` never stops.

    Parameters
    ----------
    tol
        Change per iteration, in units, below which the fit has converged.
    unit
        Size of a unit. The log-likelihood of counts depends on a constant, so it is measured in nats per count:
        ``unit = total count``. None = the size of the value itself.
    patience
        How many successive changes must be that small.
    """

    tol: float
    unit: float | None = None
    patience: int = 1

    def __post_init__(self) -> None:
        _check_tol(self.tol)
        if self.patience < 1:
            raise InvalidInputError(f"patience must be at least 1, got {self.patience}.")

    def check(self, trace: Trace) -> str | None:
        """Why the fit has converged; None if it has not."""
        latest = _computed_now(trace, "objective", self.patience + 1)
        if len(latest) <= self.patience:
            return None
        for (iteration, value), (previous_iteration, previous) in itertools.pairwise(latest):
            unit = abs(previous) if self.unit is None else self.unit
            # Written as a product to avoid a division by zero. An infinite value gives NaN, which is never smaller.
            if not abs(value - previous) < self.tol * unit * (iteration - previous_iteration):
                return None
        limit = f"{self.tol:g} of its size" if self.unit is None else f"{self.tol * self.unit:.3g} nats"
        return f"the objective changed by less than {limit} per iteration"


@dataclass(frozen=True)
class Threshold(Rule):
    """Converged when a column that measures the distance from a solution is at most `tol`.

    Parameters
    ----------
    key
        Column of the trace, for example ``"kkt_residual"``.
    tol
        The fit has converged when the value is at most this.
    """

    key: str
    tol: float

    def __post_init__(self) -> None:
        _check_tol(self.tol)

    def check(self, trace: Trace) -> str | None:
        """Why the fit has converged; None if it has not."""
        latest = _computed_now(trace, self.key, 1)
        if latest and latest[0][1] <= self.tol:
            return f"the {self.key.replace('_', ' ')} fell to {latest[0][1]:.3g}, at most {self.tol:g}"
        return None


def _check_tol(tol: float) -> None:
    if not tol >= 0:
        raise InvalidInputError(f"tol must be a number that is not negative, got {tol}.")


def _computed_now(trace: Trace, key: str, count: int) -> list[tuple[int, float]]:
    """The latest values. Empty if the last row has none, because the rule has already seen the others."""
    column = trace.columns.get(key)
    return trace.latest(key, count) if column and column[-1] == column[-1] else []


def small_change(tol: float, unit: float) -> SmallChange | None:
    """The usual rule of fits that maximise something: two successive changes below ``tol`` units. None if tol is 0."""
    return SmallChange(tol, unit, patience=2) if tol > 0 else None


class Callback(Protocol):
    """A function called after each iteration. Returning True stops the fit; any other value does not."""

    def __call__(self, iteration: int, state: Any, trace: Trace, /) -> bool | None:
        """Look at the state, but do not change it. Copy what you keep: the next iteration reuses its arrays."""


class StopFit(Exception):  # noqa: N818 - a signal, as StopIteration is, not an error
    """Raised in a callback to stop the fit; the message becomes part of its status."""


class DeferredInterrupt:
    """Context in which the first Ctrl-C only sets `requested`, and a second one raises ``KeyboardInterrupt`` at once.

    A step may reuse the arrays of the state, so an exception in its middle would leave a half-done update. Nothing is
    installed outside the main thread, or where SIGINT is ignored or left to the system. In nested runs, the request
    reaches all of them. The earlier handler is always restored.

    Parameters
    ----------
    notice
        Whether the first Ctrl-C writes a line on standard error.
    """

    _active: list[DeferredInterrupt] = []  # noqa: RUF012 - one process has one SIGINT

    def __init__(self, *, notice: bool) -> None:
        self.requested = False
        self.outermost = True
        self._notice = notice
        self._previous: signal._HANDLER = None

    def __enter__(self) -> DeferredInterrupt:
        if threading.current_thread() is not threading.main_thread():
            return self
        previous = signal.getsignal(signal.SIGINT)
        if callable(previous):
            self.outermost = not self._active
            self._previous = previous
            self._active.append(self)
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *unused: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._active.remove(self)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        for run in self._active:
            run.requested = True
        if self._notice and sys.stderr is not None and sys.stderr.isatty():
            # Not through sys.stderr: the signal may have interrupted a write to it.
            os.write(sys.stderr.fileno(), _NOTICE)
