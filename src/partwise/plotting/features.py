"""Parts as bars: the largest features of each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.contract.estimator import FactorizationEstimator
from partwise.errors import InvalidInputError
from partwise.plotting.figures import BLUE, FigureBase, components_of, part_panels

_LONGEST_NAME = 24


def top_features(components: Any, names: Any = None, *, n: int = 10) -> list[list[tuple[str, float]]]:
    """List the largest features of each part; `top_features` of a fitted model can also order by relevance.

    Parameters
    ----------
    components
        Fitted model, or parts x features.
    names
        Names of the features; by default those of the model, else ``feature f``.
    n
        Largest number of features per part; features of weight 0 are left out.

    Returns
    -------
    list
        For each part, ``(name, share)`` pairs, largest first. The shares of a whole part sum to 1; if it has negative
        weights, their absolute values do.

    Examples
    --------
    >>> from partwise.plotting import top_features
    >>> top_features([[1, 3, 0], [0, 0, 2]], ["ape", "bear", "cat"], n=2)
    [[('bear', 0.75), ('ape', 0.25)], [('cat', 1.0)]]
    """
    if n < 1:
        raise InvalidInputError(f"n must be at least 1, got {n}.")
    weights = components_of(components)
    labels = feature_names(components, names, weights.shape[1])
    found = []
    for row in weights:
        total = np.abs(row).sum()
        # Stable sort: features of equal weight stay in the order of the data.
        order = np.argsort(-row, kind="stable")[:n]
        found.append([(labels[f], float(row[f] / total)) for f in order if row[f] > 0])
    return found


def plot_top_features(
    components: Any,
    names: Any = None,
    *,
    n: int = 10,
    parts: Sequence[int] | None = None,
    titles: Sequence[str] | None = None,
    n_columns: int | None = None,
    fig: FigureBase | None = None,
) -> FigureBase:
    """Draw one panel of bars per part: its largest features, by their share of the part.

    Parameters
    ----------
    components
        Fitted model, or parts x features.
    names
        Names of the features; by default those of the model, else ``feature f``.
    n
        Number of features per part.
    parts
        Which parts, in which order; all by default.
    titles
        One title per part; by default its name, else ``part k``.
    n_columns
        Number of panels per row; by default up to five.
    fig
        Figure or subfigure to draw into; by default a new one.

    Returns
    -------
    Figure
        The figure.

    Examples
    --------
    >>> from partwise.plotting import plot_top_features
    >>> len(plot_top_features([[1, 3, 0], [0, 0, 2]], ["ape", "bear", "cat"]).axes)
    2
    """
    ranked = top_features(components, names, n=n)
    size = (2.2, 0.45 + 0.17 * n)
    figure, drawn = part_panels(fig, components, len(ranked), parts, titles, size, n_columns=n_columns, widest=5)
    for ax, k, title in drawn:
        features = ranked[k]
        positions = np.arange(len(features))
        ax.barh(positions, [share for _, share in features], color=BLUE, height=0.75)
        ax.set_yticks(positions, [shortened(name) for name, _ in features], fontsize=8)
        ax.set_ylim(n - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize=7)
        percent_axis(ax.xaxis)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.set_title(title, fontsize=9, loc="left")
    return figure


def feature_names(model: Any, names: Any, n_features: int) -> list[str]:
    """Names of the features: the given ones, those of the model, or numbers."""
    if names is None and isinstance(model, FactorizationEstimator):
        return model.feature_labels()
    if names is None:
        return [f"feature {f}" for f in range(n_features)]
    labels = [str(name) for name in names]
    if len(labels) != n_features:
        raise InvalidInputError(f"names has {len(labels)} entries, but the parts have {n_features} features.")
    return labels


def shortened(name: str) -> str:
    """A name short enough to fit beside a picture."""
    # A dollar sign would start a formula.
    name = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    return name.replace("$", r"\$")


def percent_axis(axis: Any) -> None:
    """Few ticks, in percent."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
