"""Orders of rows and columns that make a picture readable: by similarity, by group, by part."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats, Positions
from partwise.plotting.figures import components_of

_FEW_ROWS = 500


def cluster_order(matrix: Any, *, optimal: bool | None = None) -> Positions:
    """Order rows by complete-linkage clustering, so that similar rows are neighbours.

    Parameters
    ----------
    matrix
        Rows x columns; a missing cell (NaN) counts as the mean of its column.
    optimal
        Whether branches of the tree are flipped to minimise the sum of distances between neighbours (Bar-Joseph,
        Gifford & Jaakkola 2001). The time grows with the cube of the number of rows; by default it is done for at
        most 500 rows.

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

    values = finite_or_missing(matrix)
    if values.shape[0] < 2:
        return np.arange(values.shape[0])
    seen = ~np.isnan(values)
    means = np.where(seen, values, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    turned = values.shape[0] <= _FEW_ROWS if optimal is None else optimal
    tree = linkage(np.where(seen, values, means), "complete", optimal_ordering=turned)
    return np.asarray(leaves_list(tree).astype(np.int64))


def group_order(groups: Sequence[Any], names: Sequence[Any] | None = None) -> Positions:
    """Rows sorted by group, and by name within a group.

    Parameters
    ----------
    groups
        The group of each row.
    names
        The name of each row; without names, rows of a group keep their order.

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


def largest_parts(components: Any, n_parts: int | None = None) -> list[int]:
    """Positions of the parts by the root of their sum of squares, largest first.

    Parameters
    ----------
    components
        Fitted model, or parts x features.
    n_parts
        Largest number of parts.

    Examples
    --------
    >>> from partwise.plotting import largest_parts
    >>> largest_parts([[1.0, 2.0], [3.0, 0.0]])
    [1, 0]
    """
    return [int(k) for k in np.argsort(-np.sum(components_of(components) ** 2, axis=1), kind="stable")[:n_parts]]


def part_order(values: Floats) -> Positions:
    """Order rows by their largest column, and from large to small within it."""
    part = values.argmax(axis=1)
    return np.asarray(np.lexsort((-values[np.arange(part.size), part], part)).astype(np.int64))


def evenly_spaced(size: int, most: int) -> Positions:
    """Positions from 0 to ``size - 1``: all, or at most as many as requested."""
    return np.unique(np.linspace(0, size - 1, min(most, size)).astype(np.int64))


def finite_or_missing(matrix: Any) -> Floats:
    """A dense matrix of numbers, NaN where a cell is missing."""
    values = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidInputError(f"matrix must have rows and columns, got shape {values.shape}.")
    if np.any(np.isinf(values)):
        raise InvalidInputError("matrix holds infinity; pass finite values, NaN where a cell is missing.")
    return values


def checked_positions(positions: Sequence[int] | Positions | None, size: int, argument: str) -> Positions:
    """Positions of rows or columns, all by default."""
    if positions is None:
        return np.arange(size)
    order = np.asarray(positions, dtype=np.int64)
    outside = (order < 0) | (order >= size)
    if order.size == 0 or outside.any():
        found = "is empty" if order.size == 0 else f"holds {order[np.argmax(outside)]}"
        raise InvalidInputError(f"{argument} {found}; give positions from 0 to {size - 1}.")
    return order


def checked_groups(groups: Sequence[Any], size: int, argument: str) -> list[str]:
    """One group for each, as text."""
    labels = [str(group) for group in groups]
    if len(labels) != size:
        raise InvalidInputError(f"{argument} has {len(labels)} entries for {size} of them; give one each.")
    return labels
