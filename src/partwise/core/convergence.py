"""When a fit has converged: rules that look at the trace alone, so that a resumed run stops where it would have."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Protocol

from partwise.core.result import Trace
from partwise.errors import InvalidInputError


class Rule(Protocol):
    """When to stop. A rule keeps nothing between calls: all that it knows is in the trace."""

    def check(self, trace: Trace) -> str | None:
        """Why the fit has converged at the last row of the trace, as a clause; None if it has not."""


@dataclass(frozen=True)
class SmallChange:
    """Converged when a column changes per iteration by less than `tol` units.

    The change is taken between successive computed values and divided by the iterations between them, so `tol`
    means the same however often the algorithm computes its objective. ``tol=0`` never stops.

    Parameters
    ----------
    tol
        Change per iteration, in units, below which the fit has converged.
    unit
        Size of a unit: the log-likelihood of counts, whose own size depends on a constant, is measured in nats per
        count with ``unit = total count``. None = the size of the value itself.
    key
        Column of the trace.
    patience
        How many successive changes must be that small.
    """

    tol: float
    unit: float | None = None
    key: str = "objective"
    patience: int = 1

    def __post_init__(self) -> None:
        _check_tol(self.tol)
        if self.patience < 1:
            raise InvalidInputError(f"patience must be at least 1, got {self.patience}.")

    def check(self, trace: Trace) -> str | None:
        """Why the fit has converged, None if it has not."""
        latest = _computed_now(trace, self.key, self.patience + 1)
        if len(latest) <= self.patience:
            return None
        for (iteration, value), (previous_iteration, previous) in itertools.pairwise(latest):
            unit = abs(previous) if self.unit is None else self.unit
            # Multiplied out: no division by a value of zero; an infinite value makes this NaN, which is not smaller.
            if not abs(value - previous) < self.tol * unit * (iteration - previous_iteration):
                return None
        unit_in_words = "of its size" if self.unit is None else f"x {self.unit:.6g}"
        return f"the {self.key} changed by less than {self.tol:g} {unit_in_words} per iteration"


@dataclass(frozen=True)
class Threshold:
    """Converged when a column that measures the distance from a solution is at most `tol`.

    Parameters
    ----------
    key
        Column of the trace, for example ``"kkt_residual"``.
    tol
        Value from which on the fit has converged.
    """

    key: str
    tol: float

    def __post_init__(self) -> None:
        _check_tol(self.tol)

    def check(self, trace: Trace) -> str | None:
        """Why the fit has converged, None if it has not."""
        latest = _computed_now(trace, self.key, 1)
        if latest and latest[0][1] <= self.tol:
            return f"the {self.key} fell to {latest[0][1]:.3g}, at most {self.tol:g}"
        return None


def _check_tol(tol: float) -> None:
    if not tol >= 0:
        raise InvalidInputError(f"tol must be a number that is not negative, got {tol}.")


def _computed_now(trace: Trace, key: str, count: int) -> list[tuple[int, float]]:
    """The latest values, none if the last row has no value: then the rule was already asked about them."""
    column = trace.columns.get(key)
    if not column or column[-1] != column[-1]:
        return []
    return trace.latest(key, count)


def small_change(tol: float, unit: float) -> SmallChange | None:
    """The usual rule of fits that maximise something: two successive changes below ``tol`` units; none if tol is 0."""
    return SmallChange(tol, unit, patience=2) if tol > 0 else None
