"""The picture of ``partwise demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from partwise.cli.demonstration import Example
from partwise.core.coerce import as_table
from partwise.datasets import DIGIT_SHAPE
from partwise.plotting import plot_parts_images, plot_top_features, save_figure
from partwise.plotting._figures import new_figure
from partwise.plotting.images import draw_picture

_DIGITS_SHOWN = "0358"
_STROKES_A_DIGIT = 4
_WORDS_A_TOPIC = 6
_GAP = 0.28  # between pictures, in widths of a picture


def draw(pictures: Example, topics: Example, path: Path) -> None:
    """Draw the strokes, digits as sums of them, and the topics to one file."""
    # What is drawn is known, so it is arranged by hand: an automatic arrangement of so many axes takes a second.
    figure = new_figure(12.0, 10.2, layout=None)
    upper, lower = _pair(figure, 2, 1, height_ratios=[4.2, 6.0])
    left, right = _pair(upper, 1, 2, width_ratios=[4.2, 7.0])
    _draw_strokes(left, pictures)
    left.subplots_adjust(left=0.02, right=0.96, bottom=0.02, top=0.88, wspace=0.05, hspace=0.3)
    _draw_sums(right, pictures)
    right.subplots_adjust(left=0.01, right=0.99, bottom=0.02, top=0.91, hspace=0.06)
    _draw_topics(lower, topics)
    lower.subplots_adjust(left=0.07, right=0.99, bottom=0.04, top=0.89, wspace=0.45, hspace=0.42)
    save_figure(figure, path, dpi=110)


def _pair(figure: Any, rows: int, columns: int, **settings: Any) -> tuple[Any, Any]:
    first, second = figure.subfigures(rows, columns, **settings)
    return first, second


def _draw_strokes(figure: Any, example: Example) -> None:
    n_samples = example.table.shape[0]
    figure.suptitle(f"{len(example.order)} strokes of {n_samples} handwritten digits", fontsize=11)
    titles = [f"{100 * example.shares[k]:.0f} %" for k in example.order]
    plot_parts_images(example.model, DIGIT_SHAPE, parts=example.order, titles=titles, n_columns=4, fig=figure)


def _draw_sums(figure: Any, example: Example) -> None:
    """A few digits as sums: the digit, what the model makes of it, and the largest strokes in it."""
    figure.suptitle("A digit is a sum of strokes: as written, as the model has it, its largest strokes", fontsize=11)
    counts = as_table(example.table).matrix
    written = np.asarray(example.table.row_labels)
    for ax, digit in zip(figure.subplots(len(_DIGITS_SHOWN), 1), _DIGITS_SHOWN, strict=True):
        n = int(np.flatnonzero(written == digit)[0])
        strokes = example.activations[n][:, None] * example.model.components_
        largest = np.argsort(-example.activations[n], kind="stable")[:_STROKES_A_DIGIT]
        _draw_row(ax, [counts[[n]].toarray(), strokes.sum(axis=0), *strokes[largest]], top=float(counts.max()))


def _draw_row(ax: Any, pictures: list[Any], top: float) -> None:
    """Pictures side by side in one axes, with the signs of a sum between them."""
    from matplotlib.patches import Rectangle

    signs = ["≈", "=", *["+"] * (len(pictures) - 3), "+ …"]
    for at, (pixels, sign) in enumerate(zip(pictures, signs, strict=True)):
        left = at * (1 + _GAP)
        draw_picture(ax, pixels, DIGIT_SHAPE, top=top, extent=(left, left + 1, 0, 1))
        ax.add_patch(Rectangle((left, 0), 1, 1, fill=False, linewidth=0.8))
        ax.text(left + 1 + 0.06, 0.5, sign, ha="left", va="center", fontsize=12)
    ax.set_xlim(-0.02, len(pictures) * (1 + _GAP))
    ax.set_ylim(-0.02, 1.02)
    ax.set_axis_off()


def _draw_topics(figure: Any, example: Example) -> None:
    n_modules = example.table.shape[0]
    figure.suptitle(f"{len(example.order)} topics of Python's help texts on {n_modules} modules", fontsize=11)
    modules = [example.leading_samples(k)[0].rpartition(".")[2] for k in example.order]
    titles = [f"{name}, … ({100 * example.shares[k]:.0f} %)" for name, k in zip(modules, example.order, strict=True)]
    plot_top_features(example.model, n=_WORDS_A_TOPIC, parts=example.order, titles=titles, n_columns=5, fig=figure)
