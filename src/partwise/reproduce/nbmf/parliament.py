"""Figures 6 and 7: reconstructions and dictionaries of who follows whom in the Catalan parliament."""

from __future__ import annotations

from typing import Any

from partwise.plotting import plot_matrix
from partwise.plotting._figures import new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import bits, feature_labels, parties
from partwise.reproduce.nbmf._five import draw_dictionaries, fit_five
from partwise.reproduce.nbmf._protocol import Protocol

PAPER = {"Beta-Dir GS": 4863, "Beta-Dir VB": 4729, "Dir-Dir GS": 8930, "bICA-8": 4957, "logPCA-8": 1783}
"""Negative log-likelihoods of Section 6.3.1."""

_COMPONENTS = 8


def draw(notebook: Notebook, protocol: Protocol) -> list[dict[str, Any]]:
    """Both figures; returns a line of the table for each method."""
    fits = fit_five(notebook, "parliament", _COMPONENTS, protocol, n_parts=_COMPONENTS)
    party = parties()
    figure = new_figure(9.0, 6.0)
    original, *others = figure.subplots(2, 3).flat
    plot_matrix(bits("parliament").T, row_groups=party, title="data", ax=original)
    for ax, (name, fit) in zip(others, fits.items(), strict=True):
        title = f"{name}: {fit.negative_log_likelihood:,.0f}"
        plot_matrix(fit.probabilities.T, row_groups=party, title=title, ax=ax)
    notebook.figure("figure6_parliament", figure)
    labels = feature_labels("parliament")
    draw_dictionaries(notebook, "figure7_parliament", fits, labels, groups=party)
    return [
        {"method": name, "ours": fit.negative_log_likelihood, "paper": PAPER[name], "active": fit.n_active}
        for name, fit in fits.items()
    ]
