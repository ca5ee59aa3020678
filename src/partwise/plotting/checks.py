"""Pictures of posterior predictive checks: what was observed, against what the model would draw."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from partwise.errors import InvalidInputError
from partwise.plotting._figures import BLUE, GREY, ORANGE, Axes, FigureBase, finish_axes, given_or_new_axes, panels
from partwise.plotting.order import evenly_spaced
from partwise.plotting.predictive import Check, PredictiveChecks, predictive_checks

STATISTICS = {
    "row_sums": "sum of a row",
    "zeros": "zeros of a feature",
    "dispersion": "variance / mean of a feature",
}
"""What can be checked, in words."""

_MOST_POINTS = 1500
_WIDE = 30.0


def plot_predictive_check(
    checks: PredictiveChecks, statistic: Literal["row_sums", "zeros", "dispersion"], *, ax: Any = None
) -> Axes:
    """Compare one statistic of the data with draws from the model, one bar per row or feature.

    Parameters
    ----------
    checks
        What `predictive_checks` found.
    statistic
        ``"row_sums"``, ``"zeros"`` or ``"dispersion"``.
    ax
        Axes to draw into; by default those of a new figure, which is ``ax.figure``.

    Returns
    -------
    Axes
        The axes drawn into. Bars hold nine of ten draws; blue ones meet the dotted line, where drawn is observed, and
        orange crosses do not. Of many, only some, evenly spaced, are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.plotting import plot_predictive_check, predictive_checks
    >>> X = np.random.default_rng(0).poisson(3.0, size=(60, 8))
    >>> checks = predictive_checks(PoissonNMF(1, random_state=0).fit(X), X)
    >>> plot_predictive_check(checks, "zeros").get_xlabel()
    'observed'
    """
    if statistic not in STATISTICS:
        raise InvalidInputError(f"statistic={statistic!r} is unknown; give {', '.join(STATISTICS)}.")
    check: Check = getattr(checks, statistic)
    ax = given_or_new_axes(ax, 3.2, 3.2)
    rows = np.argsort(check.observed, kind="stable")
    if rows.size:
        rows = rows[evenly_spaced(rows.size, _MOST_POINTS)]
    observed, low, high = check.observed[rows], check.low[rows], check.high[rows]
    inside = (observed >= low) & (observed <= high)
    for kept, colour, marker in ((inside, BLUE, "."), (~inside, ORANGE, "x")):
        ax.vlines(observed[kept], low[kept], high[kept], color=colour, linewidth=0.8, alpha=0.35)
        ax.plot(observed[kept], check.middle[rows][kept], marker, color=colour, markersize=3.5)
    _frame(ax, np.concatenate([observed, low, high]), logarithmic=statistic != "zeros")
    title = f"{STATISTICS[statistic]}\n{100 * check.coverage:.0f} % in the interval"
    return finish_axes(ax, "observed", "drawn from the model", title=title, title_size=8, label_size=8, tick_size=7)


def plot_predictive_checks(model: Any, X: Any = None, *, fig: FigureBase | None = None, **options: Any) -> FigureBase:
    """Check whether the model could have made the data: row sums, zeros, and variance over mean.

    Parameters
    ----------
    model
        Fitted model, or what `predictive_checks` found.
    X
        The data, if a model is given.
    fig
        Figure or subfigure to draw into; by default a new one.
    options
        Of `predictive_checks`: ``n_draws``, ``max_rows``, ``random_state``.

    Returns
    -------
    Figure
        The figure drawn into, three panels beside each other.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.plotting import plot_predictive_checks
    >>> X = np.random.default_rng(0).poisson(3.0, size=(60, 8))
    >>> len(plot_predictive_checks(PoissonNMF(1, random_state=0).fit(X), X).axes)
    3
    """
    if isinstance(model, PredictiveChecks):
        checks = model
    elif X is None:
        raise InvalidInputError("X is missing: predictive checks compare a model with data.")
    else:
        checks = predictive_checks(model, X, **options)
    figure, axes = panels(fig, 1, 3, 2.7, 2.9)
    plot_predictive_check(checks, "row_sums", ax=axes[0])
    plot_predictive_check(checks, "zeros", ax=axes[1])
    plot_predictive_check(checks, "dispersion", ax=axes[2])
    return figure


def _frame(ax: Any, values: Any, *, logarithmic: bool) -> None:
    """The same scale on both axes, and the line on which drawn is observed."""
    if not values.size:
        return
    positive = values[values > 0]
    least, most = float(values.min()), float(values.max())
    if logarithmic and positive.size and most > _WIDE * float(positive.min()):
        least = float(positive.min())
        ax.set_xscale("log")
        ax.set_yscale("log")
        limits = (least / 1.3, most * 1.3)
    else:
        margin = 0.05 * (most - least or 1.0)
        limits = (least - margin, most + margin)
    ax.plot(limits, limits, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_xlim(limits)
    ax.set_ylim(limits)
