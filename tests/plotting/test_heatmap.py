"""Matrices and dictionaries as pictures: what is drawn is what was given, in the order that was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from partwise import BinaryNMF
from partwise.errors import InvalidInputError
from partwise.plotting import cluster_order, group_order, largest_parts, plot_dictionary, plot_matrix
from partwise.plotting.heatmap import MISSING

COMPONENTS = np.array([[0.9, 0.1, 0.8, 0.0], [0.1, 0.8, 0.2, 0.3], [0.0, 0.1, 0.0, 0.7]])
NAMES = ["ape", "bear", "cat", "$dog$"]
GROUPS = ["fur", "claws", "claws", "fur"]


def drawn(ax) -> np.ndarray:
    (image,) = ax.images
    return np.asarray(image.get_array())


def names_of(ax) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def texts_of(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_dictionary_is_features_by_parts_largest_first() -> None:
    ax = plot_dictionary(COMPONENTS, NAMES)
    np.testing.assert_array_equal(drawn(ax), COMPONENTS.T)
    assert names_of(ax) == ["ape", "bear", "cat", r"\$dog\$"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1", "2"]
    shuffled = plot_dictionary(COMPONENTS[[2, 0, 1]], NAMES, n_parts=2)
    np.testing.assert_array_equal(drawn(shuffled), COMPONENTS[:2].T)
    assert largest_parts(COMPONENTS[[2, 0, 1]]) == [1, 2, 0]


def test_dictionary_by_groups_then_names() -> None:
    ax = plot_dictionary(COMPONENTS, NAMES, groups=GROUPS)
    assert names_of(ax) == ["bear", "cat", r"\$dog\$", "ape"]
    np.testing.assert_array_equal(drawn(ax), COMPONENTS.T[[1, 2, 3, 0]])
    assert texts_of(ax) == ["claws", "fur"]
    (line,) = ax.lines
    assert set(line.get_ydata()) == {1.5}


def test_dictionary_by_parts() -> None:
    ax = plot_dictionary(COMPONENTS, NAMES, order="parts", parts=[1, 0])
    assert names_of(ax) == ["bear", r"\$dog\$", "ape", "cat"]
    np.testing.assert_array_equal(drawn(ax), COMPONENTS[[1, 0]].T[[1, 3, 0, 2]])


def test_some_features_without_names() -> None:
    ax = plot_dictionary(COMPONENTS, NAMES, features=[3, 1], show_names=False, titles=["a", "b", "c"])
    np.testing.assert_array_equal(drawn(ax), COMPONENTS.T[[3, 1]])
    assert names_of(ax) == []
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    assert ax.get_xlabel() == ""
    assert plot_dictionary(COMPONENTS, NAMES).get_xlabel() == "part"


def test_names_are_those_of_the_model() -> None:
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.eye(4), columns=NAMES)
    model = BinaryNMF(2, inference="em", random_state=0, max_iter=5, tol=0).fit(X)
    assert names_of(plot_dictionary(model))[:3] == NAMES[:3]


def test_negative_values_have_a_scale_of_their_own() -> None:
    (image,) = plot_dictionary([[-2.0, 3.0]]).images
    assert image.get_clim() == (-2.0, 3.0)
    (image,) = plot_dictionary([[0.2, 0.3]]).images
    assert image.get_clim() == (0.0, 1.0)


def test_matrix_in_any_order_with_missing_cells() -> None:
    votes = np.array([[0.0, 1.0, np.nan], [1.0, 0.0, 0.0]])
    ax = plot_matrix(votes, rows=[1, 0], columns=[2, 0, 1], title="votes", labels=("countries", "calls"))
    np.testing.assert_array_equal(np.ma.getmaskarray(ax.images[0].get_array()), np.isnan(votes)[[1, 0]][:, [2, 0, 1]])
    np.testing.assert_array_equal(drawn(ax)[0], [0.0, 1.0, 0.0])
    assert (ax.get_title(), ax.get_ylabel(), ax.get_xlabel()) == ("votes", "countries", "calls")
    assert ax.images[0].cmap.get_bad() == pytest.approx(to_rgba(MISSING))


def test_matrix_by_groups() -> None:
    ax = plot_matrix(np.eye(4), rows=group_order(GROUPS), row_groups=GROUPS, column_groups=["a", "a", "b", "b"])
    assert texts_of(ax) == ["claws", "fur", "a", "b"]
    np.testing.assert_array_equal(drawn(ax), np.eye(4)[[1, 2, 0, 3]])


def test_all_missing() -> None:
    assert np.ma.getmaskarray(plot_matrix([[np.nan]]).images[0].get_array()).all()


def test_clusters_are_neighbours() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=30)
    matrix = (rng.random((30, 40)) < np.where(kind[:, None] == np.arange(40) % 3, 0.95, 0.05)).astype(float)
    matrix[rng.random(matrix.shape) < 0.1] = np.nan
    ordered = kind[cluster_order(matrix)]
    assert np.count_nonzero(np.diff(ordered)) == 2
    assert cluster_order([[1.0, 0.0]]).tolist() == [0]


def test_given_axes_are_used() -> None:
    left, right = Figure().subplots(1, 2)
    assert plot_dictionary(COMPONENTS, ax=left) is left
    assert plot_matrix(COMPONENTS, ax=right) is right


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: plot_dictionary(COMPONENTS, groups=["a"]), "groups has 1 entries for 4"),
        (lambda: plot_dictionary(COMPONENTS, order="size"), "order='size' is unknown"),
        (lambda: plot_dictionary(COMPONENTS, features=[4]), "features holds 4; give positions from 0 to 3"),
        (lambda: plot_dictionary(COMPONENTS, features=[]), "features is empty"),
        (lambda: plot_matrix([1.0]), "matrix must have rows and columns"),
        (lambda: plot_matrix([[np.inf]]), "matrix holds infinity"),
        (lambda: plot_matrix(COMPONENTS, rows=[-1]), "rows holds -1"),
        (lambda: plot_matrix(COMPONENTS, row_groups=["a"]), "row_groups has 1 entries for 3"),
        (lambda: group_order(["a"], ["b", "c"]), "names has 2 entries for 1 groups"),
    ],
)
def test_bad_arguments_get_a_sentence(call, sentence: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        call()
    assert sentence in str(caught.value)


def test_leaves_are_turned_so_that_neighbours_are_alike() -> None:
    values = np.random.default_rng(0).random((40, 6))

    def length(order: np.ndarray) -> float:
        return float(np.linalg.norm(np.diff(values[order], axis=0), axis=1).sum())

    turned, plain = cluster_order(values), cluster_order(values, optimal=False)
    assert sorted(turned) == sorted(plain) == list(range(40))
    assert length(turned) < length(plain)
    ax = plot_matrix(values, rows="cluster", columns="cluster")
    np.testing.assert_array_equal(drawn(ax), values[np.ix_(turned, cluster_order(values.T))])
    with pytest.raises(InvalidInputError, match="rows='tree'"):
        plot_matrix(values, rows="tree")  # type: ignore[arg-type]


def test_black_is_what_is_asked_for() -> None:
    counts = np.array([[0.0, 4.0], [9.0, 100.0]])
    image = plot_matrix(counts, top=16.0, power=0.5).images[0]
    assert image.get_clim() == (0.0, 16.0)
    np.testing.assert_allclose(np.asarray(image.norm(counts)), [[0.0, 0.5], [0.75, 1.0]])
    assert plot_dictionary(COMPONENTS / 10, NAMES, top=0.09).images[0].get_clim() == (0.0, 0.09)
    with pytest.raises(InvalidInputError, match="top=0"):
        plot_matrix(counts, top=0)
