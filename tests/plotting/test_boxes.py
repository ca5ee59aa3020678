"""Boxes show the quartiles of what they are given."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from partwise.errors import InvalidInputError
from partwise.plotting import plot_box_panels, plot_boxes

VALUES = {"gibbs": [1.0, 2.0, 3.0, 4.0, 5.0], "vb": [2.0, 2.0, 2.0], "$em$": [40.0, 50.0, 60.0]}


def test_boxes_are_quartiles() -> None:
    ax = plot_boxes(VALUES, reference=2.5)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["gibbs", "vb", r"\$em\$"]
    heights = ax.patches[0].get_path().vertices[:, 1]
    assert (heights.min(), heights.max()) == (2.0, 4.0)
    assert any(np.array_equal(line.get_ydata(), [2.5, 2.5]) for line in ax.lines)
    assert any(np.array_equal(line.get_ydata(), VALUES["gibbs"]) for line in ax.lines)


def test_boxes_above_the_top_are_arrows() -> None:
    ax = plot_boxes(VALUES, top=6.0, highlight=["vb"])
    assert len(ax.patches) == 2
    assert [patch.get_hatch() for patch in ax.patches] == [None, "///"]
    assert [text.get_text() for text in ax.texts] == ["50↑"]
    assert ax.get_ylim()[1] == 6.0
    assert len(plot_boxes(VALUES, top=0.5).texts) == 3


def test_panels() -> None:
    figure = plot_box_panels(
        {"votes": VALUES, "fossils": {"vb": [1.0, 2.0]}}, highlight=["gibbs"], tops={"votes": 6.0}, references={}
    )
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["votes", "fossils"]
    assert figure.axes[0].get_ylim()[1] == 6.0


def test_given_figures_and_axes_are_used() -> None:
    ax = Figure().add_subplot()
    assert plot_boxes(VALUES, ax=ax) is ax
    left, _ = Figure(layout="constrained").subfigures(1, 2)
    assert plot_box_panels({"a": VALUES}, fig=left) is left


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: plot_boxes({}), "values is empty"),
        (lambda: plot_boxes({"a": []}), "values['a'] must be a list of finite numbers"),
        (lambda: plot_boxes({"a": [np.nan]}), "values['a'] must be a list of finite numbers"),
        (lambda: plot_boxes(VALUES, highlight=["x"]), "highlight holds 'x'"),
        (lambda: plot_box_panels({}), "values is empty"),
    ],
)
def test_bad_arguments_get_a_sentence(call, sentence: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert sentence in str(caught.value)
