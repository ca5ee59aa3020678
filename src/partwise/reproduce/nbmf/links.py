"""Figure 1: three functions that turn a product of factors into the mean of a bit."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from partwise.plotting._figures import BLUE, GREY, ORANGE, new_figure
from partwise.reproduce._notebook import Notebook


def draw(notebook: Notebook) -> None:
    """Identity, logistic function, and the Bernoulli-Poisson link 1 - exp(-x)."""
    figure = new_figure(4.0, 2.8)
    ax = figure.add_subplot()
    real, positive, shares = np.linspace(-6, 6, 400), np.linspace(0, 6, 200), np.array([0.0, 1.0])
    ax.plot(real, expit(real), color=BLUE, label="logistic: x real")
    ax.plot(positive, -np.expm1(-positive), color=ORANGE, linestyle="--", label="Bernoulli-Poisson: x ≥ 0")
    ax.plot(shares, shares, color=GREY, linewidth=3, label="identity: 0 ≤ x ≤ 1")
    ax.set_xlabel("x")
    ax.set_ylabel("P(v = 1)")
    ax.legend(fontsize=7, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    notebook.figure("figure1_links", figure)
