"""Matrices as grey cells: dictionaries with named rows, data, and reconstructions."""

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats, Positions
from partwise.plotting import figures
from partwise.plotting import order as ordering
from partwise.plotting.features import feature_names, shortened

MISSING = "#9BC8E6"
"""Light blue, so that no grey can mean missing."""

_MOST_NAMES = 150
_ROW_HEIGHT = 0.115  # inches per name in the smallest readable print
_TALLEST = 14.0
_LONGEST_FLAT = 3
_POINTS_A_LETTER = 4.5


def plot_matrix(
    matrix: Any,
    *,
    rows: Sequence[int] | Positions | Literal["cluster"] | None = None,
    columns: Sequence[int] | Positions | Literal["cluster"] | None = None,
    row_groups: Sequence[Any] | None = None,
    column_groups: Sequence[Any] | None = None,
    top: float | None = None,
    power: float = 1.0,
    title: str = "",
    labels: tuple[str, str] = ("", ""),
    ax: Any = None,
) -> figures.Axes:
    """Draw a matrix of probabilities, bits or counts: larger cells are darker.

    Parameters
    ----------
    matrix
        Rows x columns; missing cells (NaN) are light blue.
    rows, columns
        Positions in drawing order; all by default. Use `cluster_order` or `group_order`, or pass ``"cluster"`` for the
        first.
    row_groups, column_groups
        The group of each row and column of the matrix. Groups are named, with lines between them.
    top
        The value drawn black: by default 1, or the largest value if greater. 0 (or the smallest, if negative) is white.
    power
        Grey is proportional to this power of the value: 0.5 makes small counts visible beside large ones.
    title
        Title of the picture.
    labels
        Labels of the axes: what rows are, and what columns are.
    ax
        Axes to draw into; by default those of a new figure, which is ``ax.figure``.

    Returns
    -------
    Axes
        The axes drawn into.

    Examples
    --------
    >>> from partwise.plotting import plot_matrix
    >>> plot_matrix([[0, 1], [1, float("nan")]], title="votes").get_title()
    'votes'
    """
    values = ordering.finite_or_missing(matrix)
    row_order = _order(rows, values, "rows")
    column_order = _order(columns, values.T, "columns")
    ax = figures.given_or_new_axes(ax, 5.5, float(np.clip(5.0 * values.shape[0] / values.shape[1], 1.5, 7.0)) + 0.4)
    draw_cells(ax, values[np.ix_(row_order, column_order)], top=top, power=power)
    ax.set(xticks=[], yticks=[])
    ax.set_ylabel(labels[0], fontsize=8)
    ax.set_xlabel(labels[1], fontsize=8)
    ax.set_title(title, fontsize=9)
    if row_groups is not None:
        _name_groups(ax, ordering.checked_groups(row_groups, values.shape[0], "row_groups"), row_order, "y")
    if column_groups is not None:
        named = ordering.checked_groups(column_groups, values.shape[1], "column_groups")
        _name_groups(ax, named, column_order, "x")
        ax.xaxis.labelpad = 4.0 + _POINTS_A_LETTER * max(map(len, named))  # below the names
    return cast(figures.Axes, ax)


def plot_dictionary(
    components: Any,
    names: Any = None,
    *,
    groups: Sequence[Any] | None = None,
    order: Literal["given", "parts"] = "given",
    features: Sequence[int] | Positions | None = None,
    parts: Sequence[int] | None = None,
    n_parts: int | None = None,
    titles: Sequence[str] | None = None,
    show_names: bool | None = None,
    top: float | None = None,
    power: float = 1.0,
    title: str = "",
    ax: Any = None,
) -> figures.Axes:
    """Draw a dictionary: one row per feature, one column per part, dark where a feature belongs to a part.

    Parameters
    ----------
    components
        Fitted model, or parts x features.
    names
        Names of the features; by default those of the model, else ``feature f``.
    groups
        The group of each feature (a party, a continent). Rows are sorted by group and name, with lines between groups
        and their names on the right.
    order
        Without groups: ``"given"``, as in the data, or ``"parts"``, by the part that a feature mostly belongs to.
    features
        Which features; all by default.
    parts
        Which parts, in which order; by default all, largest first (by the root of their sum of squares).
    n_parts
        At most this many parts.
    titles
        One title per part; by default the positions.
    show_names
        Whether rows are named; by default if there are at most 150.
    top, power
        Greys, as for `plot_matrix`.
    title
        Title of the picture.
    ax
        Axes to draw into; by default those of a new figure, which is ``ax.figure``.

    Returns
    -------
    Axes
        The axes drawn into.

    Examples
    --------
    >>> from partwise.plotting import plot_dictionary
    >>> ax = plot_dictionary([[0.9, 0.1, 0.8], [0.1, 0.9, 0.2]], ["ape", "bear", "cat"], order="parts")
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['ape', 'cat', 'bear']
    """
    values = figures.components_of(components)
    named = feature_names(components, names, values.shape[1])
    if order not in ("given", "parts"):
        raise InvalidInputError(f"order={order!r} is unknown; give 'given' or 'parts'.")
    largest = ordering.largest_parts(values, n_parts)
    chosen = largest if parts is None else figures.chosen_parts(parts, len(values))[:n_parts]
    dictionary = values[chosen].T
    rows = ordering.checked_positions(features, values.shape[1], "features")
    belongs = None if groups is None else ordering.checked_groups(groups, values.shape[1], "groups")
    if belongs is not None:
        rows = rows[ordering.group_order([belongs[f] for f in rows], [named[f] for f in rows])]
    elif order == "parts":
        rows = rows[ordering.part_order(dictionary[rows])]
    named_rows = len(rows) <= _MOST_NAMES if show_names is None else show_names
    width = 1.2 + 0.22 * len(chosen) + (1.2 if named_rows else 0.0)
    ax = figures.given_or_new_axes(ax, width, float(np.clip(_ROW_HEIGHT * len(rows), 2.0, _TALLEST)) + 0.6)
    draw_cells(ax, dictionary[rows], top=top, power=power)
    long = figures.part_titles(titles, components, chosen)
    short = [title.removeprefix("part ") for title in long]
    ax.set_xlabel("part" if short != long else "", fontsize=6)
    upright = max(len(title) for title in short) > _LONGEST_FLAT
    ax.set_xticks(np.arange(len(chosen)), short, fontsize=6, rotation=90 if upright else 0)
    ax.tick_params(length=0)
    ax.set_yticks(np.arange(len(rows)) if named_rows else [], [shortened(named[f]) for f in rows if named_rows])
    ax.tick_params(axis="y", labelsize=5)
    ax.set_title(title, fontsize=9)
    if belongs is not None:
        _name_groups(ax, belongs, rows, "y")
    return cast(figures.Axes, ax)


def draw_cells(ax: Any, values: Floats, *, top: float | None = None, power: float = 1.0) -> None:
    """Draw a matrix as grey cells: `top` is black, by default 1 or the largest value; missing cells are light blue."""
    from matplotlib import colormaps
    from matplotlib.colors import PowerNorm

    if (top is not None and not top > 0) or not power > 0:
        raise InvalidInputError(f"top={top} and power={power} must be positive.")
    seen = values[~np.isnan(values)]
    low, high = (min(0.0, float(seen.min())), max(1.0, float(seen.max()))) if seen.size else (0.0, 1.0)
    greys = PowerNorm(power, vmin=low, vmax=high if top is None else top, clip=True)
    colours = colormaps[figures.INK].with_extremes(bad=MISSING)
    ax.imshow(np.ma.masked_invalid(values), cmap=colours, norm=greys, aspect="auto", interpolation="nearest")


def _order(
    positions: Sequence[int] | Positions | Literal["cluster"] | None, values: Floats, argument: str
) -> Positions:
    if isinstance(positions, str):
        if positions != "cluster":
            raise InvalidInputError(f"{argument}={positions!r} is unknown; give positions, or 'cluster'.")
        return ordering.cluster_order(values)
    return ordering.checked_positions(positions, values.shape[0], argument)


def _name_groups(ax: Any, groups: list[str], order: Positions, axis: Literal["x", "y"]) -> None:
    """Lines between neighbours of different groups, and the name of each group at its middle."""
    sorted_groups = [groups[position] for position in order]
    edges = [i for i in range(1, len(sorted_groups)) if sorted_groups[i] != sorted_groups[i - 1]]
    for edge in edges:
        (ax.axhline if axis == "y" else ax.axvline)(edge - 0.5, color=figures.BLUE, linewidth=0.8)
    for start, stop in zip([0, *edges], [*edges, len(sorted_groups)], strict=True):
        middle, name = 0.5 * (start + stop - 1), sorted_groups[start].replace("$", r"\$")
        if axis == "y":
            look: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center"}
            figures.write_beside(ax, name, (1.0, middle), offset=(3, 0), color=figures.BLUE, **look)
        else:
            look = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top", "rotation": 90}
            figures.write_beside(ax, name, (middle, 0.0), offset=(0, -3), color=figures.BLUE, **look)
