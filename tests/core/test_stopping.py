"""Rules of convergence."""

from __future__ import annotations

import math

import pytest

from partwise.core.result import Trace
from partwise.core.stopping import Rule, SmallChange, Threshold
from partwise.errors import InvalidInputError


def stops_at(rule: Rule, values: list[float | None], key: str = "objective") -> int | None:
    """The first iteration at which a rule is met."""
    trace = Trace()
    for iteration, value in enumerate(values, 1):
        trace.append(iteration, float(iteration), {} if value is None else {key: value})
        if rule.check(trace) is not None:
            return iteration
    return None


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        (SmallChange(0.1), [-100.0, -50.0, -46.0, -46.0], 3),
        (SmallChange(0.01), [-100.0, -50.0, -46.0, -46.0], 4),
        (SmallChange(0.0), [-1.0, -1.0, -1.0], None),
        (SmallChange(0.1), [-1.0], None),
        (SmallChange(0.1), [], None),
        # A fall that is large is no convergence; rising through zero neither.
        (SmallChange(0.1), [-1.0, -2.0, 0.0, 1.0, 1.01], 5),
        (SmallChange(0.1), [-math.inf, -math.inf, -5.0, -5.0], 4),
        # Patience: so many small changes one after the other.
        (SmallChange(0.1, patience=2), [-100.0, -99.0, -50.0, -49.0, -48.0], 5),
        # Over ten iterations, a change may be ten times as large.
        (SmallChange(0.1), [-100.0, *[None] * 9, -10.0], 11),
        (SmallChange(0.1), [-100.0, *[None] * 7, -10.0], None),
        # Iterations without a value do not count as another look.
        (SmallChange(0.1, patience=2), [-100.0, -99.0, None, None, -98.0], 5),
        (SmallChange(0.1, unit=10.0), [-100.0, -98.0, -97.1], 3),
        (SmallChange(0.1, unit=10.0), [5.0, None, 6.9], 3),
        (SmallChange(0.0, unit=10.0), [5.0, 5.0], None),
        (SmallChange(0.1, unit=10.0, patience=2), [0.0, 0.5, 5.0, 5.5, 6.0], 5),
    ],
)
def test_change(rule: Rule, values: list[float | None], expected: int | None) -> None:
    assert stops_at(rule, values) == expected


def test_threshold() -> None:
    rule = Threshold("kkt_residual", 1e-3)
    assert stops_at(rule, [0.1, None, 1e-3, 1e-4], "kkt_residual") == 3
    assert stops_at(rule, [0.1, math.nan, 0.01], "kkt_residual") is None
    assert stops_at(rule, [1e-9], "objective") is None


def test_the_reason_is_a_clause() -> None:
    trace = Trace()
    trace.append(1, 0.0, {"objective": -1.0, "kkt_residual": 0.25})
    trace.append(2, 0.0, {"objective": -1.0, "kkt_residual": 0.25})
    assert Threshold("kkt_residual", 0.5).check(trace) == "the kkt residual fell to 0.25, at most 0.5"
    assert SmallChange(0.1).check(trace) == "the objective changed by less than 0.1 of its size per iteration"
    assert SmallChange(0.1, 7.0).check(trace) == "the objective changed by less than 0.7 nats per iteration"


@pytest.mark.parametrize("tol", [-1.0, math.nan])
def test_bad_tolerances(tol: float) -> None:
    for make in (SmallChange, lambda tol: SmallChange(tol, 1.0), lambda tol: Threshold("kkt_residual", tol)):
        with pytest.raises(InvalidInputError, match="tol must be"):
            make(tol)


def test_bad_patience() -> None:
    with pytest.raises(InvalidInputError, match="patience must be at least 1, got 0"):
        SmallChange(0.1, patience=0)
