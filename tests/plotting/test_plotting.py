"""Pictures show what they are given, without display or global state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from partwise import PoissonNMF
from partwise.core.result import Trace
from partwise.errors import InvalidInputError, MissingDependencyError
from partwise.plotting import (
    plot_column_norms,
    plot_parts_images,
    plot_top_features,
    plot_trace,
    save_figure,
    top_features,
)
from partwise.plotting.figures import grid

COMPONENTS = np.array([[0.0, 1.0, 3.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0, 0.0, 2.0], [0.0] * 6])
NAMES = ["ape", "bear", "cat", "dog", "eel", "$fox$"]


@pytest.fixture(scope="module")
def model() -> PoissonNMF:
    X = np.random.default_rng(0).poisson(3.0, size=(20, 6))
    return PoissonNMF(2, random_state=0).fit(X)


def test_images_are_the_parts() -> None:
    figure = plot_parts_images(COMPONENTS, (2, 3))
    assert [ax.get_title() for ax in figure.axes] == ["part 0", "part 1", "part 2"]
    for ax, part in zip(figure.axes, COMPONENTS, strict=True):
        (image,) = ax.images
        np.testing.assert_array_equal(image.get_array(), part.reshape(2, 3))
        assert image.get_clim() == (0, part.max() or 1)


def test_images_in_any_order_and_on_one_scale() -> None:
    figure = plot_parts_images(COMPONENTS, (2, 3), parts=[1, 0], titles=["b", "a"], n_columns=1, common_scale=True)
    assert [ax.get_title() for ax in figure.axes] == ["b", "a"]
    assert [ax.images[0].get_clim() for ax in figure.axes] == [(0, 3), (0, 3)]
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), COMPONENTS[1].reshape(2, 3))
    assert figure.axes[0].get_subplotspec().get_gridspec().get_geometry() == (2, 1)


@pytest.mark.parametrize(("n_panels", "geometry"), [(1, (1, 1)), (5, (1, 5)), (6, (2, 3)), (8, (2, 4)), (11, (3, 4))])
def test_rows_of_panels_are_filled_evenly(n_panels: int, geometry: tuple[int, int]) -> None:
    assert grid(n_panels, None, widest=5) == geometry


def test_norms_of_parts_that_died_out_leave_the_picture() -> None:
    assert plot_column_norms([[2.0, 1.0], [4.0, 1e-30]]).get_ylim()[0] == pytest.approx(4e-5)
    assert plot_column_norms([[2.0, 1.0], [4.0, 0.0]]).get_ylim()[0] == pytest.approx(0.5)
    assert len(plot_column_norms([[0.0, 0.0]]).lines) == 2


def test_surplus_panels_are_empty() -> None:
    figure = plot_parts_images(COMPONENTS, (2, 3), n_columns=2)
    assert [ax.axison for ax in figure.axes] == [True, True, True, False]


def test_top_features() -> None:
    assert top_features(COMPONENTS, NAMES, n=5) == [
        [("cat", 0.75), ("bear", 0.25)],
        [("ape", 0.5), ("$fox$", 0.5)],
        [],
    ]
    assert top_features(COMPONENTS, n=1)[0] == [("feature 2", 0.75)]
    assert top_features([[1.0, -2.0, 1.0]]) == [[("feature 0", 0.25), ("feature 2", 0.25)]]


def test_names_are_those_of_the_model() -> None:
    pandas = pytest.importorskip("pandas")
    model = PoissonNMF(1, random_state=0).fit(pandas.DataFrame([[5, 1], [4, 2]], columns=["ape", "bear"]))
    assert [name for name, _ in top_features(model)[0]] == ["ape", "bear"]


def test_bars_are_the_top_features() -> None:
    figure = plot_top_features(COMPONENTS, NAMES, n=2, parts=[1, 0])
    second, first = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["cat", "bear"]
    assert [bar.get_width() for bar in first.patches] == [0.75, 0.25]
    assert [label.get_text() for label in second.get_yticklabels()] == ["ape", r"\$fox\$"]
    # the largest is on top
    assert first.yaxis_inverted()


def test_long_names_are_cut() -> None:
    figure = plot_top_features([[1.0]], ["x" * 100])
    assert len(figure.axes[0].get_yticklabels()[0].get_text()) == 24


def test_trace(model: PoissonNMF) -> None:
    ax = plot_trace(model)
    (line, _) = ax.lines
    iterations, values = model.trace_.evaluated("objective")
    np.testing.assert_array_equal(line.get_xdata(), iterations)
    np.testing.assert_array_equal(line.get_ydata(), values)
    seconds = plot_trace(model.trace_, against="elapsed").lines[0].get_xdata()
    np.testing.assert_array_equal(seconds, model.trace_["elapsed"][iterations - 1])


def test_trace_below_the_best(model: PoissonNMF) -> None:
    ax = plot_trace(model, gap=True)
    values = model.trace_.evaluated("objective")[1]
    distance = values.max() - values
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), distance[distance > 0])
    assert ax.get_yscale() == "log"


def test_given_figures_and_axes_are_used(model: PoissonNMF) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    ax = figure.add_subplot()
    assert plot_trace(model, ax=ax) is ax
    left, right = Figure(layout="constrained").subfigures(1, 2)
    assert plot_top_features(COMPONENTS, fig=left) is left
    assert plot_parts_images(COMPONENTS, (2, 3), fig=right) is right
    assert (len(left.axes), len(right.axes)) == (3, 3)


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_saved_whole(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"parts.{suffix}"
    save_figure(plot_top_features(COMPONENTS, NAMES), path)
    assert path.stat().st_size > 1000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: plot_parts_images(COMPONENTS, (2, 2)), "shape=(2, 2) has 4 pixels, but the parts have 6"),
        (lambda: plot_parts_images(COMPONENTS, (2, 3), parts=[3]), "there are only parts 0 to 2"),
        (lambda: plot_parts_images(COMPONENTS, (2, 3), parts=[]), "parts is empty"),
        (lambda: plot_parts_images(COMPONENTS, (2, 3), titles=["a"]), "titles has 1 entries for 3 parts"),
        (lambda: plot_parts_images(COMPONENTS, (2, 3), n_columns=0), "n_columns must be at least 1"),
        (lambda: plot_parts_images(COMPONENTS[0], (2, 3)), "got shape (6,)"),
        (lambda: plot_parts_images([[np.nan]], (1, 1)), "NaN or infinity"),
        (lambda: plot_top_features(COMPONENTS, ["a"]), "names has 1 entries, but the parts have 6"),
        (lambda: plot_top_features(COMPONENTS, n=0), "n must be at least 1"),
        (lambda: plot_trace(Trace()), "the trace has no values of 'objective'"),
        (lambda: plot_trace(3), "must be a fitted model or a Trace, got int"),
        (lambda: plot_trace(Trace(), column="loss"), "column='loss' is not in the trace"),
        (lambda: plot_trace(Trace(), against="time"), "against='time' is unknown"),
        (lambda: save_figure(plot_top_features(COMPONENTS), "picture.docx"), "no suffix that says its format"),
    ],
)
def test_bad_arguments_get_a_sentence(call, sentence: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert sentence in str(caught.value)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"partwise\[plot\]"):
        plot_parts_images(COMPONENTS, (2, 3))


def test_no_global_state_and_no_display(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from partwise.plotting import plot_parts_images, save_figure\n"
        "assert 'matplotlib' not in sys.modules\n"
        f"save_figure(plot_parts_images([[0, 1, 1, 0]], (2, 2)), {str(tmp_path / 'x.png')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    environment = {"PATH": "/usr/bin", "HOME": str(tmp_path), "MPLBACKEND": "tkagg"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
