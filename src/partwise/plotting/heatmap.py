"""Matrices as pictures of grey cells: dictionaries with named rows, data, and what a model makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from partwise.errors import InvalidInputError
from partwise.plotting._figures import BLUE, INK, Floats, chosen_parts, components_of, new_figure, part_titles
from partwise.plotting.features import feature_names, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MISSING = "#9BC8E6"
"""A light blue of its own: no grey means missing."""

Positions = NDArray[np.int64]

_MOST_NAMES = 150
_ROW_HEIGHT = 0.115  # inches, for a name in the smallest print that can be read
_TALLEST = 14.0
_LONGEST_FLAT = 3
_POINTS_A_LETTER = 4.5


def cluster_order(matrix: Any) -> Positions:
    """Rows in the order of a tree of complete linkage, so that rows that are alike are neighbours.

    Parameters
    ----------
    matrix
        Rows x columns; a missing cell (NaN) counts as the mean of its column.

    Returns
    -------
    ndarray
        Positions of the rows.

    Examples
    --------
    >>> from partwise.plotting import cluster_order
    >>> order = cluster_order([[1, 1, 0], [0, 0, 1], [1, 1, 0]]).tolist()
    >>> order.index(1) != 1  # the odd row is not in the middle
    True
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    values = _matrix(matrix)
    if values.shape[0] < 2:
        return np.arange(values.shape[0])
    seen = ~np.isnan(values)
    means = np.where(seen, values, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    order: Positions = leaves_list(linkage(np.where(seen, values, means), "complete")).astype(np.int64)
    return order


def group_order(groups: Sequence[Any], names: Sequence[Any] | None = None) -> Positions:
    """Rows sorted by group, and by name within a group.

    Parameters
    ----------
    groups
        The group of each row.
    names
        The name of each row; without names, rows of a group stay in their order.

    Examples
    --------
    >>> from partwise.plotting import group_order
    >>> group_order(["b", "a", "b"], ["z", "y", "x"]).tolist()
    [1, 2, 0]
    """
    labels = [str(group) for group in groups]
    within = [str(name).lower() for name in names] if names is not None else [""] * len(labels)
    if len(within) != len(labels):
        raise InvalidInputError(f"names has {len(within)} entries for {len(labels)} groups; give one each.")
    return np.array(sorted(range(len(labels)), key=lambda row: (labels[row], within[row], row)), dtype=np.int64)


def plot_matrix(
    matrix: Any,
    *,
    rows: Sequence[int] | Positions | None = None,
    columns: Sequence[int] | Positions | None = None,
    row_groups: Sequence[Any] | None = None,
    column_groups: Sequence[Any] | None = None,
    title: str = "",
    labels: tuple[str, str] = ("", ""),
    ax: Any = None,
) -> Axes:
    """A matrix of probabilities or bits, dark where it is large: data, or what a model makes of them.

    Parameters
    ----------
    matrix
        Rows x columns; missing cells (NaN) are light blue. Grey goes from 0 (or the least, if negative) to 1 (or the
        largest, if greater).
    rows, columns
        Positions, in the order to draw them; all by default. `cluster_order` and `group_order` give some.
    row_groups, column_groups
        The group of each row and column of the matrix: lines part neighbours of different groups, which are named.
    title
        Above the picture.
    labels
        Of the axes: what rows are, and what columns are.
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
    values = _matrix(matrix)
    row_order = _order(rows, values.shape[0], "rows")
    column_order = _order(columns, values.shape[1], "columns")
    if ax is None:
        height = float(np.clip(5.0 * values.shape[0] / values.shape[1], 1.5, 7.0))
        ax = new_figure(5.5, height + 0.4).add_subplot()
    _draw(ax, values[np.ix_(row_order, column_order)])
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_ylabel(labels[0], fontsize=8)
    ax.set_xlabel(labels[1], fontsize=8)
    ax.set_title(title, fontsize=9)
    if row_groups is not None:
        _name_groups(ax, _labels_of(row_groups, values.shape[0], "row_groups"), row_order, "y")
    if column_groups is not None:
        named = _labels_of(column_groups, values.shape[1], "column_groups")
        _name_groups(ax, named, column_order, "x")
        ax.xaxis.labelpad = 4.0 + _POINTS_A_LETTER * max(map(len, named))  # below the names
    drawn: Axes = ax
    return drawn


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
    title: str = "",
    ax: Any = None,
) -> Axes:
    """A dictionary as a picture: a row a feature, a column a part, dark where a feature belongs to a part.

    Parameters
    ----------
    components
        Fitted model, or components x features.
    names
        Names of the features; by default those of the model, else ``feature f``.
    groups
        The group of each feature (a party, a continent): rows are sorted by group and name, groups are named on the
        right and parted by lines.
    order
        Without groups: ``"given"``, as in the data, or ``"parts"``, by the part that a feature belongs to most.
    features
        Which features; all by default.
    parts
        Which parts, in which order; by default all, largest first (by the root of their sum of squares).
    n_parts
        At most so many parts.
    titles
        One for each part drawn; their positions by default.
    show_names
        Whether rows are named; by default if there are at most 150.
    title
        Above the picture.
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
    values = components_of(components)
    named = feature_names(components, names, values.shape[1])
    if order not in ("given", "parts"):
        raise InvalidInputError(f"order={order!r} is unknown; give 'given' or 'parts'.")
    chosen = largest_parts(values, n_parts) if parts is None else chosen_parts(parts, values.shape[0])[:n_parts]
    dictionary = values[chosen].T
    rows = _order(features, values.shape[1], "features")
    belongs = None if groups is None else _labels_of(groups, values.shape[1], "groups")
    if belongs is not None:
        rows = rows[group_order([belongs[f] for f in rows], [named[f] for f in rows])]
    elif order == "parts":
        rows = rows[_by_part(dictionary[rows])]
    named_rows = len(rows) <= _MOST_NAMES if show_names is None else show_names
    if ax is None:
        height = float(np.clip(_ROW_HEIGHT * len(rows), 2.0, _TALLEST))
        ax = new_figure(1.2 + 0.22 * len(chosen) + (1.2 if named_rows else 0.0), height + 0.6).add_subplot()
    _draw(ax, dictionary[rows])
    short = [title.removeprefix("part ") for title in part_titles(titles, components, chosen)]
    upright = max(len(title) for title in short) > _LONGEST_FLAT
    ax.set_xticks(np.arange(len(chosen)), short, fontsize=6, rotation=90 if upright else 0)
    ax.tick_params(length=0)
    ax.set_yticks(np.arange(len(rows)) if named_rows else [], [shortened(named[f]) for f in rows if named_rows])
    ax.tick_params(axis="y", labelsize=5)
    ax.set_title(title, fontsize=9)
    if belongs is not None:
        _name_groups(ax, belongs, rows, "y")
    drawn: Axes = ax
    return drawn


def largest_parts(components: Any, n_parts: int | None = None) -> list[int]:
    """Positions of the parts by the root of their sum of squares, largest first.

    Parameters
    ----------
    components
        Fitted model, or components x features.
    n_parts
        At most so many.
    """
    values = components_of(components)
    return [int(k) for k in np.argsort(-np.sum(values**2, axis=1), kind="stable")[:n_parts]]


def _draw(ax: Any, values: Floats) -> None:
    from matplotlib import colormaps

    seen = values[~np.isnan(values)]
    low, high = (min(0.0, float(seen.min())), max(1.0, float(seen.max()))) if seen.size else (0.0, 1.0)
    colours = colormaps[INK].with_extremes(bad=MISSING)
    ax.imshow(np.ma.masked_invalid(values), cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")


def _by_part(values: Floats) -> Positions:
    """Rows by their largest column, and from large to small within it."""
    part = values.argmax(axis=1)
    order: Positions = np.lexsort((-values[np.arange(part.size), part], part)).astype(np.int64)
    return order


def _name_groups(ax: Any, groups: list[str], order: Positions, axis: Literal["x", "y"]) -> None:
    """Lines between neighbours of different groups, and the name of each run of one group at its middle."""
    sorted_groups = [groups[position] for position in order]
    edges = [i for i in range(1, len(sorted_groups)) if sorted_groups[i] != sorted_groups[i - 1]]
    for edge in edges:
        (ax.axhline if axis == "y" else ax.axvline)(edge - 0.5, color=BLUE, linewidth=0.8)
    for start, stop in zip([0, *edges], [*edges, len(sorted_groups)], strict=True):
        middle, name = 0.5 * (start + stop - 1), sorted_groups[start].replace("$", r"\$")
        if axis == "y":
            ax.annotate(
                name,
                (1.0, middle),
                xycoords=("axes fraction", "data"),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
                color=BLUE,
            )
        else:
            ax.annotate(
                name,
                (middle, 0.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, -3),
                textcoords="offset points",
                ha="center",
                va="top",
                rotation=90,
                fontsize=7,
                color=BLUE,
            )


def _matrix(matrix: Any) -> Floats:
    values = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidInputError(f"matrix must have rows and columns, got shape {values.shape}.")
    if np.any(np.isinf(values)):
        raise InvalidInputError("matrix holds infinity; pass finite values, NaN where a cell is missing.")
    return values


def _order(positions: Sequence[int] | Positions | None, size: int, argument: str) -> Positions:
    if positions is None:
        return np.arange(size)
    order = np.asarray(positions, dtype=np.int64)
    outside = (order < 0) | (order >= size)
    if order.size == 0 or outside.any():
        found = "is empty" if order.size == 0 else f"holds {order[np.argmax(outside)]}"
        raise InvalidInputError(f"{argument} {found}; give positions from 0 to {size - 1}.")
    return order


def _labels_of(groups: Sequence[Any], size: int, argument: str) -> list[str]:
    labels = [str(group) for group in groups]
    if len(labels) != size:
        raise InvalidInputError(f"{argument} has {len(labels)} entries for {size} of them; give one each.")
    return labels
