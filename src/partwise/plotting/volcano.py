"""How much more frequent features are in each part than in others, and how certain that is."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.contract.differential import Differential
from partwise.plotting.features import shortened
from partwise.plotting.figures import BLUE, GREY, ORANGE, FigureBase, finish_axes, panel_grid, write_beside


def plot_volcano(
    found: Differential,
    *,
    parts: Sequence[int] | None = None,
    n: int = 6,
    lfsr: float = 0.05,
    fig: FigureBase | None = None,
) -> FigureBase:
    """Draw one panel per part: log2 fold change of each feature against its size in standard errors. Markers are named.

    Parameters
    ----------
    found
        The result of ``model.differential(X)``.
    parts
        Positions of the parts to draw; all by default.
    n
        Number of features to name in each panel.
    lfsr
        Features with at most this local false sign rate are coloured: blue if they are more frequent in the part,
        orange if less.
    fig
        Figure to draw into; by default a new one.

    Examples
    --------
    >>> import numpy as np, partwise
    >>> from partwise.plotting import plot_volcano
    >>> X = np.random.default_rng(0).poisson(np.kron(np.eye(2), np.full((50, 4), 10.0)))
    >>> found = partwise.PoissonNMF(2, random_state=0).fit(X).differential(X)
    >>> [sorted(text.get_text() for text in ax.texts)[0] for ax in plot_volcano(found).axes]
    ['feature 0', 'feature 4']
    """
    chosen = list(range(len(found.parts))) if parts is None else list(parts)
    figure, axes = panel_grid(fig, len(chosen), 2.6, 2.4, widest=4)
    for ax, k in zip(axes, chosen, strict=True):
        known = np.isfinite(found.change[k])
        size = np.zeros(known.size)
        size[known] = np.abs(found.change[k][known]) / found.std_error[k][known]
        sure = known & (found.lfsr[k] <= lfsr)
        more = found.mean[k] > 0
        for rows, colour, label in (
            (known & ~sure, GREY, f"not sure (false sign rate above {lfsr:g})"),
            (sure & more, BLUE, "more in the part"),
            (sure & ~more, ORANGE, "less in the part"),
        ):
            look: dict[str, Any] = {"s": 5, "color": colour, "linewidths": 0, "alpha": 0.6, "rasterized": True}
            ax.scatter(found.mean[k][rows], size[rows], label=label, **look)
        ax.set_yscale("symlog", linthresh=2.0)
        ax.yaxis.set_major_formatter("{x:g}")
        marks = np.flatnonzero(sure & more)
        best = marks[np.argsort(-found.mean[k][marks], kind="stable")][:n]
        for rank, f in enumerate(best):
            place = (0.98, 0.04 + 0.08 * (len(best) - 1 - rank))
            look = {"xycoords": "axes fraction", "va": "bottom", "ha": "right", "color": BLUE}
            write_beside(ax, shortened(found.features[f]), place, size=6, **look)
        finish_axes(ax, "log2 fold change", "|change| / std. error", title=found.parts[k], label_size=7, tick_size=6)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=7, frameon=False, markerscale=2)
    return figure
