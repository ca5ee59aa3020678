"""Draws docs/images/parts.png, the picture of the README: digits as sums of strokes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import partwise

SHOWN, N_PARTS = (694, 867, 844), 4  # three images that few parts describe well
INK = 16  # the most that a pixel has: one scale for all panels
X = load_digits().data
model = partwise.PoissonNMF(16, random_state=0).fit(X)
counts = model.transform(X)
figure = Figure(figsize=(8.4, 3.9), layout="constrained", dpi=160)
axes = figure.subplots(len(SHOWN), 2 + N_PARTS)
for row, n in zip(axes, SHOWN, strict=True):
    largest = np.argsort(counts[n])[::-1][:N_PARTS]
    panels = [(X[n], "image"), (counts[n] @ model.components_, "all 16 parts")]
    panels += [(counts[n, k] * model.components_[k], f"{counts[n, k]:.0f} × part {k}") for k in largest]
    for place, (ax, (pixels, title)) in enumerate(zip(row, panels, strict=True)):
        ax.imshow(pixels.reshape(8, 8), cmap="Greys" if place < 2 else "BuGn", vmin=0, vmax=INK)
        ax.set_title(title, fontsize=9)
        ax.set_xticks([])
        ax.set_yticks([])
    row[1].text(-0.13, 0.5, "≈", transform=row[1].transAxes, ha="center", va="center", fontsize=16)
    row[2].text(-0.13, 0.5, "=", transform=row[2].transAxes, ha="center", va="center", fontsize=16)
    for ax in row[3:]:
        ax.text(-0.13, 0.5, "+", transform=ax.transAxes, ha="center", va="center", fontsize=16)
    row[-1].text(1.12, 0.5, "+ …", transform=row[-1].transAxes, ha="left", va="center", fontsize=12)
figure.savefig(Path(__file__).with_name("parts.png"))
