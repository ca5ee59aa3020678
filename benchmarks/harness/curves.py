"""Curves that a benchmark measures, drawn to the folder ``out``, with their numbers beside them.

``python -m benchmarks.harness.curves out/likelihood_error.json`` draws them again, without measuring.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.processes import ROOT

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def draw_curves(file: str, panels: Mapping[str, Mapping[str, Curve]], x_label: str, y_label: str) -> None:
    """Write the numbers, and draw them."""
    path = (ROOT / "out" / file).with_suffix(".json")
    path.parent.mkdir(exist_ok=True)
    kept = {
        name: {label: [[float(f"{value:.6g}") for value in axis] for axis in curve] for label, curve in curves.items()}
        for name, curves in panels.items()
    }
    path.write_text(json.dumps({"panels": kept, "x_label": x_label, "y_label": y_label}) + "\n", "utf-8")
    draw_kept(path)


def draw_kept(path: Path) -> None:
    """One panel per data set, both axes logarithmic."""
    from PIL import Image

    from partwise.plotting import save_figure
    from partwise.plotting.figures import BLUE, ORANGE, new_figure

    kept = json.loads(path.read_text("utf-8"))
    panels = kept["panels"]
    figure = new_figure(3.6 * len(panels), 3.0)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, curves) in zip(axes, panels.items(), strict=True):
        for (label, (x, y)), colour, marker in zip(curves.items(), (BLUE, ORANGE), "os", strict=False):
            ax.loglog(x, y, color=colour, marker=marker, markersize=4, linewidth=1.5, label=label)
        ax.set_title(name, fontsize=10)
        ax.set_xlabel(kept["x_label"], fontsize=9)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
        ax.grid(visible=True, which="major", linewidth=0.3)
    axes[0].set_ylabel(kept["y_label"], fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    picture = path.with_suffix(".png")
    save_figure(figure, picture, dpi=110)
    Image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)


if __name__ == "__main__":
    draw_kept(Path(sys.argv[1]))
