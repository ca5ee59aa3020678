"""How a fit went."""

from __future__ import annotations

from typing import Any, Literal

from partwise.contract.estimator import FactorizationEstimator
from partwise.core.result import Trace
from partwise.errors import InvalidInputError
from partwise.plotting._figures import BLUE, GREY, Axes, finish_axes, given_or_new_axes, write_beside

_FEW = 30
_LABELS = {"iteration": "iteration", "elapsed": "seconds"}


def plot_trace(
    model: Any,
    *,
    column: str = "objective",
    against: Literal["iteration", "elapsed"] = "iteration",
    gap: bool = False,
    ax: Any = None,
) -> Axes:
    """Draw the progress of a fit, such as its log-likelihood at each iteration.

    Parameters
    ----------
    model
        Fitted model, or its ``trace_``.
    column
        Column of the trace.
    against
        ``"iteration"`` or ``"elapsed"`` (seconds).
    gap
        Draw how far below the best value each value is, on a logarithmic scale, where the last steps can be seen.
    ax
        Axes to draw into; by default those of a new figure, which is ``ax.figure``.

    Returns
    -------
    Axes
        The axes drawn into.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.plotting import plot_trace
    >>> plot_trace(PoissonNMF(2, random_state=0).fit(np.eye(4) + 1)).get_xlabel()
    'iteration'
    """
    trace = model.trace_ if isinstance(model, FactorizationEstimator) else model
    if not isinstance(trace, Trace):
        raise InvalidInputError(f"model must be a fitted model or a Trace, got {type(model).__name__}.")
    if against not in _LABELS:
        raise InvalidInputError(f"against={against!r} is unknown; give 'iteration' or 'elapsed'.")
    if column not in trace:
        raise InvalidInputError(f"column={column!r} is not in the trace; it has {', '.join(trace)}.")
    iterations, values = trace.evaluated(column)
    if not len(values):
        raise InvalidInputError(
            f"the trace has no values of {column!r}: nothing was fitted, or for too few iterations to compute one."
        )
    positions = iterations if against == "iteration" else trace["elapsed"][iterations - 1]
    ax = given_or_new_axes(ax, 6.0, 3.5)
    if gap:
        _draw_gap(ax, positions, values)
    else:
        _draw_values(ax, positions, values)
    if against == "iteration":
        ax.xaxis.get_major_locator().set_params(integer=True)
    return finish_axes(ax, _LABELS[against], f"{column}, below its best" if gap else column)


def _draw_values(ax: Any, positions: Any, values: Any) -> None:
    ax.plot(positions, values, color=BLUE, linewidth=1.5, marker="o" if len(values) < _FEW else "", markersize=3)
    ax.axhline(values[-1], color=GREY, linewidth=0.8, linestyle=":")
    place = (positions[-1], values[-1])
    write_beside(ax, f"{values[-1]:.6g}", place, offset=(0, -4), size=8, ha="right", va="top")


def _draw_gap(ax: Any, positions: Any, values: Any) -> None:
    distance = values.max() - values
    below = distance > 0  # the best value itself is not on a logarithmic scale
    if not below.any():
        raise InvalidInputError("gap=True needs values that differ; there is only one.")
    ax.semilogy(positions[below], distance[below], color=BLUE, linewidth=1.5, marker="o", markersize=2)
