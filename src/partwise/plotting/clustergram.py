"""Parts of many restarts: how they cluster, and how stability depends on the number of parts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.plotting.figures import BLUE, GREY, ORANGE, Axes, Figure, finish_axes, given_or_new_axes, new_figure
from partwise.plotting.order import evenly_spaced
from partwise.restarts.consensus import Consensus

_MOST_PARTS = 1000


def plot_clustergram(found: Consensus, *, density_threshold: float = 0.5) -> Figure:
    """Draw the distances between the parts of all restarts, sorted by cluster, and their local densities.

    Dark blocks on the diagonal are parts that restarts agree on. Pale rows at the end are outliers.

    Parameters
    ----------
    found
        The result of `partwise.consensus`.
    density_threshold
        Where to draw the line between parts and outliers.

    Returns
    -------
    Figure
        Distances, and the histogram of local densities beside them.

    Examples
    --------
    >>> import numpy as np, partwise
    >>> from partwise.plotting import plot_clustergram
    >>> X = np.random.default_rng(0).poisson(np.kron(np.eye(2), np.full((20, 4), 5.0)))
    >>> found = partwise.consensus(partwise.PoissonNMF(2, random_state=0), X, n_restarts=3)
    >>> plot_clustergram(found).axes[0].get_title(loc="left")
    '3 restarts, stability 1.00'
    """
    clusters = found.clusters
    order = clusters.order()
    order = order[evenly_spaced(order.size, _MOST_PARTS)]
    figure = new_figure(7.2, 3.8)
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    image = left.imshow(clusters.distances[np.ix_(order, order)], cmap="Greys_r", vmin=0, vmax=np.sqrt(2.0))
    figure.colorbar(image, ax=left, shrink=0.8, label="distance (0: the same part)").ax.tick_params(labelsize=7)
    labels = clusters.labels[order]
    starts = np.flatnonzero(np.diff(labels)) + 0.5
    for start in starts:
        left.axhline(start, color=ORANGE, linewidth=0.6)
        left.axvline(start, color=ORANGE, linewidth=0.6)
    names = found.model.part_labels()
    shown = [k for k in (*range(found.n_components), -1) if np.any(labels == k)]
    middles = [float(np.flatnonzero(labels == k).mean()) for k in shown]
    left.set_yticks(middles, [names[k] if k >= 0 else "left out" for k in shown])
    left.set_xticks([])
    finish_axes(left, title=f"{found.n_restarts} restarts, stability {found.stability:.2f}", tick_size=7)
    right.hist(clusters.densities, bins=30, color=BLUE)
    right.axvline(density_threshold, color=ORANGE, label="left out: beyond this")
    finish_axes(right, "mean distance to nearest parts", "parts", label_size=8, tick_size=7, legend_size=7)
    return figure


def plot_stability(found: Sequence[Consensus], *, ax: Any = None) -> Axes:
    """Draw stability and silhouette against the number of parts.

    Parameters
    ----------
    found
        The result of `partwise.restarts.consensus_by_rank`.
    ax
        Axes to draw into; by default those of a new figure.

    Examples
    --------
    >>> import numpy as np, partwise
    >>> from partwise.plotting import plot_stability
    >>> X = np.random.default_rng(0).poisson(np.kron(np.eye(2), np.full((20, 4), 5.0)))
    >>> found = partwise.restarts.consensus_by_rank(partwise.PoissonNMF(random_state=0), X, [1, 2], n_restarts=3)
    >>> plot_stability(found).get_xticks().tolist()
    [1, 2]
    """
    ax = given_or_new_axes(ax, 4.5, 3.0)
    ranks = [one.n_components for one in found]
    ax.plot(ranks, [one.stability for one in found], "o-", color=BLUE, label="stability (mean cosine)")
    ax.plot(ranks, [one.clusters.silhouette for one in found], "s--", color=GREY, label="silhouette")
    ax.set_xticks(ranks)
    return finish_axes(ax, "number of parts", "", legend_size=8, label_size=8, tick_size=7)
