"""The two examples of ``partwise demo`` and their picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from partwise import PoissonNMF
from partwise.core.coerce import as_table
from partwise.datasets import DIGIT_SHAPE, digits, python_topics
from partwise.io import Table
from partwise.kernels.arrays import Floats
from partwise.plotting import plot_parts_images, plot_top_features, save_figure, top_features
from partwise.plotting.figures import new_figure
from partwise.plotting.images import draw_picture

_N_STROKES = 16
_N_TOPICS = 15
_WORDS_A_TOPIC = 8
_MODULES_A_TOPIC = 3
_DIGITS_SHOWN = "0358"
_STROKES_A_DIGIT = 4
_WORDS_DRAWN = 6
_GAP = 0.28  # between pictures, in widths of a picture


@dataclass(frozen=True, eq=False)
class Example:
    """Data, a model of them, and the model's parts in order of their share of the counts."""

    title: str
    table: Table
    model: Any
    activations: Floats

    @property
    def shares(self) -> Floats:
        """Share of all counts that each part explains."""
        return np.asarray(self.activations.sum(axis=0) / self.activations.sum())

    @property
    def order(self) -> list[int]:
        """Parts, the one with the largest share first."""
        return [int(k) for k in np.argsort(-self.shares, kind="stable")]

    def heading(self) -> list[str]:
        """What was fitted, and how the fit ended."""
        n_samples, n_features = self.table.shape
        size = f"{n_samples} samples x {n_features} features, {self.model.n_components_} parts"
        return [f"{self.title}: {size}", f"  {self.model.status_}"]

    def part_line(self, k: int) -> str:
        """One part in words."""
        words = " ".join(name for name, _ in top_features(self.model, n=_WORDS_A_TOPIC)[k])
        samples = ", ".join(self.leading_samples(k))
        return f"  part {k:<2} {100 * self.shares[k]:4.1f}%  {words}  ({samples})"

    def leading_samples(self, k: int) -> list[str]:
        """Samples with the most of a part."""
        labels = self.table.row_labels
        leading = np.argsort(-self.activations[:, k], kind="stable")[:_MODULES_A_TOPIC]
        return [str(labels[n]) for n in leading] if labels is not None else []

    def lines(self) -> list[str]:
        """The whole example in words."""
        return [*self.heading(), *(self.part_line(k) for k in self.order)]

    def facts(self) -> dict[str, Any]:
        """The whole example for JSON."""
        n_samples, n_features = self.table.shape
        ranked = top_features(self.model, n=_WORDS_A_TOPIC)
        named = [[name for name, _ in part] for part in ranked]
        parts = [{"part": k, "share": float(self.shares[k]), "top_features": named[k]} for k in self.order]
        size = {"n_samples": n_samples, "n_features": n_features}
        return {"title": self.title, **size, "status": self.model.status_.code, "parts": parts}


class Pictures(Example):
    """Digits: each part is a stroke, described by its position and by the digits that contain it."""

    def part_line(self, k: int) -> str:
        """One stroke in words."""
        written = np.asarray(self.table.row_labels)
        per_digit = [float(self.activations[written == str(digit), k].mean()) for digit in range(10)]
        common = [digit for digit in np.argsort(per_digit)[::-1] if per_digit[digit] > 1.5 * np.mean(per_digit)]
        digits_in_words = ", ".join(str(digit) for digit in common) or "all digits alike"
        place = _place(self.model.components_[k])
        return f"  part {k:<2} {100 * self.shares[k]:4.1f}%  {place:<14} in {digits_in_words}"


def _place(part: Floats) -> str:
    """Where a stroke has most ink."""
    height, width = DIGIT_SHAPE
    row, column = divmod(int(np.argmax(part)), width)
    vertical = ("top", "middle", "bottom")[3 * row // height]
    sideways = ("left", "centre", "right")[3 * column // width]
    return f"{vertical} {sideways}"


def fit_digits(seed: int, **running: Any) -> Example:
    """Strokes of handwritten digits."""
    table = digits()
    model = PoissonNMF(_N_STROKES, random_state=seed, tol=1e-5, **running)
    return Pictures("handwritten digits", table, model, model.fit_transform(table))


def fit_topics(seed: int, **running: Any) -> Example:
    """Topics of the help texts of Python's standard library."""
    table = python_topics()
    model = PoissonNMF(_N_TOPICS, init="nndsvd", random_state=seed, **running)
    return Example("Python's help", table, model, model.fit_transform(table))


def draw(pictures: Example, topics: Example, path: Path) -> None:
    """Draw the strokes, digits as sums of them, and the topics to one file."""
    # The layout is known, so it is set by hand: an automatic layout of so many axes takes a second.
    figure: Any = new_figure(12.0, 10.2, layout=None)
    upper, lower = figure.subfigures(2, 1, height_ratios=[4.2, 6.0])
    left, right = upper.subfigures(1, 2, width_ratios=[4.2, 7.0])
    left.suptitle(f"{len(pictures.order)} strokes of {len(pictures.table)} handwritten digits", fontsize=11)
    titles = [f"{100 * pictures.shares[k]:.0f}%" for k in pictures.order]
    plot_parts_images(pictures.model, DIGIT_SHAPE, parts=pictures.order, titles=titles, n_columns=4, fig=left)
    left.subplots_adjust(left=0.02, right=0.96, bottom=0.02, top=0.88, wspace=0.05, hspace=0.3)
    _draw_sums(right, pictures)
    right.subplots_adjust(left=0.01, right=0.99, bottom=0.02, top=0.91, hspace=0.06)
    lower.suptitle(f"{len(topics.order)} topics of Python's help texts on {len(topics.table)} modules", fontsize=11)
    modules = [topics.leading_samples(k)[0].rpartition(".")[2] for k in topics.order]
    titles = [f"{name}, … ({100 * topics.shares[k]:.0f}%)" for name, k in zip(modules, topics.order, strict=True)]
    plot_top_features(topics.model, n=_WORDS_DRAWN, parts=topics.order, titles=titles, n_columns=5, fig=lower)
    lower.subplots_adjust(left=0.07, right=0.99, bottom=0.04, top=0.89, wspace=0.45, hspace=0.42)
    save_figure(figure, path, dpi=110)


def _draw_sums(figure: Any, example: Example) -> None:
    """A few digits as sums: the digit, its reconstruction, and its largest strokes."""
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
    ax.set(xlim=(-0.02, len(pictures) * (1 + _GAP)), ylim=(-0.02, 1.02))
    ax.set_axis_off()
