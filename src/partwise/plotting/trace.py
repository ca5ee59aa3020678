"""How a fit progressed.

Also, how parts grow and die out during a fit.
"""

from typing import Any, Literal

import numpy as np

from partwise.contract.estimator import FactorizationEstimator
from partwise.core.result import Trace
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.plotting import figures
from partwise.plotting.features import shortened

_FEW = 30
_LABELS = {"iteration": "iteration", "elapsed": "seconds"}


def plot_trace(
    model: Any,
    *,
    column: str = "objective",
    against: Literal["iteration", "elapsed"] = "iteration",
    gap: bool = False,
    ax: Any = None,
) -> figures.Axes:
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
        Draw how far each value is below the best one, on a logarithmic scale, which shows the last steps.
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
    ax = figures.given_or_new_axes(ax, 6.0, 3.5)
    if gap:
        distance = values.max() - values
        below = distance > 0  # the best value itself cannot be on a logarithmic scale
        if not below.any():
            raise InvalidInputError("gap=True needs values that differ; there is only one.")
        ax.semilogy(positions[below], distance[below], color=figures.BLUE, linewidth=1.5, marker="o", markersize=2)
    else:
        ax.plot(
            positions, values, color=figures.BLUE, linewidth=1.5, marker="o" if len(values) < _FEW else "", markersize=3
        )
        ax.axhline(values[-1], color=figures.GREY, linewidth=0.8, linestyle=":")
        place = (positions[-1], values[-1])
        figures.write_beside(ax, f"{values[-1]:.6g}", place, offset=(0, -4), size=8, ha="right", va="top")
    if against == "iteration":
        ax.xaxis.get_major_locator().set_params(integer=True)
    return figures.finish_axes(ax, _LABELS[against], f"{column}, below its best" if gap else column)


_DASHES = ("-", "--", ":", "-.")
_MOST_NAMED = 12
_SMALLEST_NORM = 1e-5  # of the largest: what is below is not drawn


def plot_column_norms(model: Any, *, title: str = "", ax: Any = None) -> figures.Axes:
    """Draw the sum of each part over its features at each iteration. Parts that are not needed fall to 0.

    Parameters
    ----------
    model
        Fitted model with ``column_norms_`` (`GammaPoissonNMF`), or iterations x parts.
    title
        Above the picture.
    ax
        Axes to draw into; by default those of a new figure, which is ``ax.figure``.

    Returns
    -------
    Axes
        The axes, with a logarithmic scale that ends at a 100,000th of the largest sum. Nearly empty parts are thin and
        grey.

    Examples
    --------
    >>> from partwise.plotting import plot_column_norms
    >>> len(plot_column_norms([[1.0, 1.0], [2.0, 0.5], [3.0, 0.1]]).lines)
    2
    """
    norms = _norms(model)
    n_components = norms.shape[1]
    active = figures.chosen_parts(
        model.active_components_ if isinstance(model, FactorizationEstimator) else None, n_components
    )
    ax = figures.given_or_new_axes(ax, 6.0, 3.5)
    iterations = np.arange(1, norms.shape[0] + 1)
    drawable = np.where(norms > 0, norms, np.nan)
    for k in sorted(set(range(n_components)) - set(active)):
        ax.semilogy(iterations, drawable[:, k], color=figures.GREY, linewidth=0.6, alpha=0.6)
    largest = sorted(active, key=lambda k: -norms[-1, k])
    names = figures.part_titles(None, model, largest)
    for position, (k, name) in enumerate(zip(largest, names, strict=True)):
        label = shortened(name) if position < _MOST_NAMED else None
        dashes = _DASHES[position // len(figures.COLOURS) % len(_DASHES)]
        colour = figures.COLOURS[position % len(figures.COLOURS)]
        ax.semilogy(iterations, drawable[:, k], color=colour, linestyle=dashes, linewidth=1.5, label=label)
    if norms.max() > 0:
        # a part that died out would squeeze the others into a corner
        ax.set_ylim(bottom=max(float(np.nanmin(drawable)) / 2, _SMALLEST_NORM * float(norms.max())))
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False)
    return figures.finish_axes(ax, "iteration", "sum of the part's column", title=title)


def _norms(model: Any) -> Floats:
    if isinstance(model, FactorizationEstimator):
        names = [f"column_norm_{k}" for k in range(model.n_components_)]
        if any(name not in model.trace_ for name in names):
            raise InvalidInputError(
                f"the trace of this {type(model).__name__} has no column norms: pass a model that traces them, such as"
                " a GammaPoissonNMF, or an array of iterations x parts."
            )
        model = np.column_stack([model.trace_[name] for name in names])
    norms = np.asarray(model, dtype=np.float64)
    if norms.ndim != 2 or 0 in norms.shape or not np.all(np.isfinite(norms)):
        raise InvalidInputError(f"column norms must be finite numbers, iterations x parts, got shape {norms.shape}.")
    return norms
