"""Curves that a benchmark measures, drawn to the folder ``out``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.processes import ROOT

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def draw_curves(file: str, panels: Mapping[str, Mapping[str, Curve]], x_label: str, y_label: str) -> None:
    """One panel a data set, both axes logarithmic, each curve labelled at its end."""
    from partwise.plotting import save_figure
    from partwise.plotting.figures import BLUE, ORANGE, new_figure

    figure = new_figure(3.6 * len(panels), 3.0)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, curves) in zip(axes, panels.items(), strict=True):
        for (label, (x, y)), colour, marker in zip(curves.items(), (BLUE, ORANGE), "os", strict=False):
            ax.loglog(x, y, color=colour, marker=marker, markersize=4, linewidth=1.5, label=label)
        ax.set_title(name, fontsize=10)
        ax.set_xlabel(x_label, fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.grid(visible=True, which="major", linewidth=0.3)
    axes[0].set_ylabel(y_label, fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    path = ROOT / "out" / file
    path.parent.mkdir(exist_ok=True)
    save_figure(figure, path, dpi=110)
