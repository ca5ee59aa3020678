"""Figure 5: the five data sets."""

from __future__ import annotations

from partwise.plotting import cluster_order, plot_matrix
from partwise.plotting._figures import new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import bits, parties

_NAMES = ("animals", "lastfm", "paleo", "parliament", "unvotes")
_LABELS = {
    "animals": ("attributes", "animals"),
    "lastfm": ("artists", "users"),
    "paleo": ("genera", "sites"),
    "parliament": ("followers", "followed"),
    "unvotes": ("countries", "roll calls, in order of time"),
}


def draw(notebook: Notebook) -> None:
    """Features x samples; missing votes are light blue (abstentions are zeros in the published file)."""
    figure = new_figure(9.0, 8.0)
    grid = figure.add_gridspec(3, 2)
    for position, name in enumerate(_NAMES):
        features = bits(name).T
        place = grid[position // 2, position % 2] if name != "unvotes" else grid[2, :]
        ax = figure.add_subplot(place)
        if name == "parliament":
            plot_matrix(
                features, row_groups=parties(), column_groups=parties(), title=name, labels=_LABELS[name], ax=ax
            )
            continue
        columns = None if name == "unvotes" else cluster_order(features.T)
        plot_matrix(features, rows=cluster_order(features), columns=columns, title=name, labels=_LABELS[name], ax=ax)
    notebook.figure("figure5_data", figure)
