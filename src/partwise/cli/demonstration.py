"""The two examples of ``partwise demo``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise import PoissonNMF
from partwise.datasets import DIGIT_SHAPE, digits, python_topics
from partwise.io import Table
from partwise.plotting import top_features

Floats = NDArray[np.float64]

_N_STROKES = 16
_N_TOPICS = 15
_WORDS_A_TOPIC = 8
_MODULES_A_TOPIC = 3


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
        shares: Floats = self.activations.sum(axis=0) / self.activations.sum()
        return shares

    @property
    def order(self) -> list[int]:
        """Parts, the one with the largest share first."""
        return [int(k) for k in np.argsort(-self.shares, kind="stable")]

    def heading(self) -> list[str]:
        """What was fitted, and how it went."""
        n_samples, n_features = self.table.shape
        return [
            f"{self.title}: {n_samples} samples x {n_features} features, {self.model.n_components_} parts",
            f"  {self.model.status_}",
        ]

    def part_line(self, k: int) -> str:
        """One part in words."""
        words = " ".join(name for name, _ in top_features(self.model, n=_WORDS_A_TOPIC)[k])
        samples = ", ".join(self.leading_samples(k))
        return f"  part {k:<2} {100 * self.shares[k]:4.1f} %  {words}  ({samples})"

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
        parts = [
            {"part": k, "share": float(self.shares[k]), "top_features": [name for name, _ in ranked[k]]}
            for k in self.order
        ]
        size = {"n_samples": n_samples, "n_features": n_features}
        return {"title": self.title, **size, "status": self.model.status_.code, "parts": parts}


class Pictures(Example):
    """Digits: a part is a stroke, told by where it lies and by the digits that have it."""

    def part_line(self, k: int) -> str:
        """One stroke in words."""
        written = np.asarray(self.table.row_labels)
        per_digit = [float(self.activations[written == str(digit), k].mean()) for digit in range(10)]
        common = [digit for digit in np.argsort(per_digit)[::-1] if per_digit[digit] > 1.5 * np.mean(per_digit)]
        digits_in_words = ", ".join(str(digit) for digit in common) or "all digits alike"
        return (
            f"  part {k:<2} {100 * self.shares[k]:4.1f} %  {_place(self.model.components_[k]):<14} in {digits_in_words}"
        )


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
