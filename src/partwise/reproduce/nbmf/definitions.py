"""Figures 1, 2 and 5: links, matrices drawn from the three models, and the five data sets."""

from typing import Any

import numpy as np
from scipy.special import expit

from partwise.binary.model import KINDS, BinaryModel
from partwise.core.keys import Key
from partwise.plotting import plot_matrix
from partwise.plotting.figures import BLUE, GREY, ORANGE, finish_axes, new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import bits, parties

_SIZE, _COMPONENTS = 100, 4
_TITLES = {"beta-dir": "Beta-Dir", "dir-beta": "Dir-Beta", "dir-dir": "Dir-Dir"}
_LABELS = {
    "animals": ("attributes", "animals"),
    "lastfm": ("artists", "users"),
    "paleo": ("genera", "sites"),
    "parliament": ("followers", "followed"),
    "unvotes": ("countries", "roll calls, in order of time"),
}


def make(notebook: Notebook) -> None:
    """All three figures."""
    draw_links(notebook)
    draw_synthetic(notebook)
    draw_originals(notebook)


def draw_links(notebook: Notebook) -> None:
    """Three functions that turn a product of factors into the mean of a bit.

    They are the identity, the logistic function, and the Bernoulli-Poisson link 1 - exp(-x).
    """
    figure = new_figure(4.0, 2.8)
    ax = figure.add_subplot()
    real, positive, shares = np.linspace(-6, 6, 400), np.linspace(0, 6, 200), np.array([0.0, 1.0])
    ax.plot(real, expit(real), color=BLUE, label="logistic: x real")
    ax.plot(positive, -np.expm1(-positive), color=ORANGE, linestyle="--", label="Bernoulli-Poisson: x ≥ 0")
    ax.plot(shares, shares, color=GREY, linewidth=3, label="identity: 0 ≤ x ≤ 1")
    finish_axes(ax, "x", "P(v = 1)", legend_size=7)
    notebook.figure("figure1_links", figure)


def draw_synthetic(notebook: Notebook) -> None:
    """Matrices drawn with flat and with sparse priors, rows and columns in the order of complete linkage."""
    figure = new_figure(7.0, 4.8)
    for row, axes in zip((1.0, 0.1), figure.subplots(2, 3), strict=True):
        for kind, ax in zip(KINDS, axes, strict=True):
            features = BinaryModel(kind, _COMPONENTS, row, row, row, row).simulate(Key(1), _SIZE, _SIZE).bits.T
            title = f"{_TITLES[kind]}, all parameters {row:g}"
            plot_matrix(features, rows="cluster", columns="cluster", title=title, ax=ax)
    notebook.figure("figure2_synthetic", figure)


def draw_originals(notebook: Notebook) -> None:
    """The data, features x samples; missing votes are light blue (abstentions are zeros in the published file)."""
    figure = new_figure(9.0, 8.0)
    grid = figure.add_gridspec(3, 2)
    for position, (name, labels) in enumerate(_LABELS.items()):
        ax = figure.add_subplot(grid[position // 2, position % 2] if name != "unvotes" else grid[2, :])
        order: dict[str, Any] = {"rows": "cluster", "columns": None if name == "unvotes" else "cluster"}
        if name == "parliament":
            order = {"row_groups": parties(), "column_groups": parties()}
        plot_matrix(bits(name).T, **order, title=name, labels=labels, ax=ax)
    notebook.figure("figure5_data", figure)
