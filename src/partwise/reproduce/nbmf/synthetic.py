"""Figure 2: matrices drawn from the three models, with flat and with sparse priors."""

from __future__ import annotations

from partwise.binary.model import KINDS, BinaryModel
from partwise.core.keys import Key
from partwise.plotting import cluster_order, plot_matrix
from partwise.plotting._figures import new_figure
from partwise.reproduce._notebook import Notebook

_SIZE, _COMPONENTS = 100, 4
_TITLES = {"beta-dir": "Beta-Dir", "dir-beta": "Dir-Beta", "dir-dir": "Dir-Dir"}


def draw(notebook: Notebook) -> None:
    """Rows and columns in the order of complete linkage."""
    figure = new_figure(7.0, 4.8)
    for row, axes in zip((1.0, 0.1), figure.subplots(2, 3), strict=True):
        for kind, ax in zip(KINDS, axes, strict=True):
            model = BinaryModel(kind, _COMPONENTS, row, row, row, row)
            features = model.simulate(Key(1), _SIZE, _SIZE).bits.T
            plot_matrix(
                features,
                rows=cluster_order(features),
                columns=cluster_order(features.T),
                title=f"{_TITLES[kind]}, all parameters {row:g}",
                ax=ax,
            )
    notebook.figure("figure2_synthetic", figure)
