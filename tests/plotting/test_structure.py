"""Samples as stacked bars, signatures, norms, scores by rank: what is drawn is what was given."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from partwise import GammaPoissonNMF, PoissonNMF, Table
from partwise.errors import InvalidInputError
from partwise.plotting import (
    part_shares,
    plot_column_norms,
    plot_rank_selection,
    plot_signature_fit,
    plot_signatures,
    plot_structure,
    signature_channels,
)
from partwise.plotting.figures import COLOURS, PART_COLOURS, TINTS, part_colour

ACTIVATIONS = np.array([[6.0, 2.0, 2.0], [1.0, 8.0, 1.0], [0.0, 0.0, 0.0], [9.0, 1.0, 0.0], [2.0, 2.0, 6.0]])


def stacked(ax) -> np.ndarray:
    """Heights of the bars, samples x parts, from the bottom up."""
    return np.column_stack([stairs.get_data().values - stairs.get_data().baseline for stairs in ax.patches])


def legend_of(ax) -> list[str]:
    """From the bottom up."""
    return [text.get_text() for text in ax.get_legend().get_texts()][::-1]


def test_shares_sum_to_one_and_weigh_parts_by_their_components() -> None:
    shares = part_shares(ACTIVATIONS, np.diag([1.0, 3.0, 2.0]))
    np.testing.assert_allclose(shares.sum(axis=1), [1, 1, 0, 1, 1])
    np.testing.assert_allclose(shares[0], np.array([6, 6, 4]) / 16)
    np.testing.assert_allclose(part_shares(ACTIVATIONS)[1], [0.1, 0.8, 0.1])


def test_structure_from_activations_alone() -> None:
    ax = plot_structure(ACTIVATIONS, order="given", parts=[0, 1, 2])
    np.testing.assert_allclose(stacked(ax), part_shares(ACTIVATIONS), atol=1e-12)
    assert legend_of(ax) == ["part 0", "part 1", "part 2"]
    assert ax.get_xlim() == (0, 5)


def test_structure_largest_part_at_the_bottom_and_samples_by_part() -> None:
    ax = plot_structure(ACTIVATIONS[:, [1, 0, 2]])
    assert legend_of(ax) == ["part 1", "part 0", "part 2"]  # columns 0, 1, 2 of ACTIVATIONS
    order = [3, 0, 2, 1, 4]  # by their largest part; the empty sample has no share of any
    np.testing.assert_allclose(stacked(ax), part_shares(ACTIVATIONS)[order], atol=1e-12)


def test_structure_names_its_bars_where_they_fit() -> None:
    names = ["ann", "bob", "eve", "joe", "kim"]
    ax = plot_structure(ACTIVATIONS[:, [1, 0, 2]], names=names)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["joe", "ann", "eve", "bob", "kim"]
    np.testing.assert_allclose(ax.get_xticks(), np.arange(5) + 0.5)
    assert not plot_structure(ACTIVATIONS, names=names, groups=names).get_xticklabels()
    assert not plot_structure(np.ones((41, 2)), names=range(41)).get_xticklabels()


def test_structure_by_groups() -> None:
    ax = plot_structure(ACTIVATIONS, groups=["b", "a", "b", "a", "a"], order="given", parts=[0, 1, 2])
    np.testing.assert_allclose(stacked(ax), part_shares(ACTIVATIONS)[[1, 3, 4, 0, 2]], atol=1e-12)
    assert [text.get_text() for text in ax.texts] == ["a", "b"]
    (line,) = ax.lines
    assert set(line.get_xdata()) == {3}


def test_structure_of_many_samples_is_thinned() -> None:
    activations = np.random.default_rng(0).gamma(0.5, size=(5000, 3))
    ax = Figure().add_subplot()
    assert plot_structure(activations, ax=ax) is ax
    assert stacked(ax).shape == (2000, 3)
    by_likeness = plot_structure(activations[:50], order="cluster")
    assert stacked(by_likeness).shape == (50, 3)


def test_structure_with_names_of_the_model() -> None:
    model = PoissonNMF.from_components(np.eye(3), component_names=["x", "$y$", "z"])
    ax = plot_structure(ACTIVATIONS, model=model, parts=[2, 1])
    assert legend_of(ax) == ["z", r"\$y\$"]


@pytest.mark.parametrize(
    ("activations", "options", "match"),
    [
        ([1.0, 2.0], {}, "samples x parts"),
        ([[1.0, -2.0]], {}, "row 0, column 1"),
        ([[1.0, 2.0]], {"model": np.eye(3)}, "2 columns, but the model has 3 parts"),
        ([[1.0, 2.0]], {"order": "best"}, "order='best'"),
        ([[1.0, 2.0]], {"groups": ["a", "b"]}, "groups has 2"),
        ([[1.0, 2.0]], {"names": ["a", "b"]}, "names has 2"),
    ],
)
def test_structure_refuses(activations, options, match) -> None:
    with pytest.raises(InvalidInputError, match=match):
        plot_structure(activations, **options)


def test_colours_differ_for_20_parts() -> None:
    assert len({part_colour(k) for k in range(20)}) == 20 == len(PART_COLOURS)
    assert set(COLOURS) < set(PART_COLOURS)


def test_neighbouring_parts_differ_for_colour_blind_readers() -> None:
    """Distances in CIELAB, as seen and in simulated prot-, deuter- and tritanopia (Machado et al. 2009)."""
    visions = (
        np.eye(3),
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    )
    rgb = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in PART_COLOURS])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    for vision in visions:
        xyz = np.clip(linear @ np.transpose(vision), 0, 1) @ to_xyz.T / [0.9505, 1.0, 1.089]
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)
        assert np.linalg.norm(lab - np.roll(lab, 1, axis=0), axis=1).min() > 40.0
        gaps = np.linalg.norm(lab[:, None] - lab[None], axis=2)[np.triu_indices(20, 1)]
        assert gaps.min() > 15.0


def test_large_parts_are_named_in_the_picture() -> None:
    shares = np.concatenate([np.tile([0.8, 0.1, 0.1], (50, 1)), np.tile([0.1, 0.8, 0.1], (50, 1))])
    ax = plot_structure(shares, order="given")
    assert {text.get_text() for text in ax.texts} == {"part 0", "part 1"}


@pytest.mark.parametrize("palette", [COLOURS, TINTS])
def test_colours_differ_for_colour_blind_readers(palette) -> None:
    # simulated deuteranopia and protanopia in linear RGB (Viénot, Brettel & Mollon 1999)
    matrices = (
        [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
        [[0.10889, 0.89111, 0.0], [0.10889, 0.89111, 0.0], [0.00447, -0.00447, 1.0]],
    )
    linear = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in palette]) ** 2.2
    for matrix in matrices:
        seen = np.clip(linear @ np.transpose(matrix), 0, 1) ** (1 / 2.2)
        gaps = np.linalg.norm(seen[:, None] - seen[None], axis=2)[np.triu_indices(len(palette), 1)]
        assert gaps.min() > 0.1
    # the test can tell: this red and this green are one colour to them
    confused = np.array([[0.6, 0.0, 0.0], [0.0, 0.402, 0.0]]) ** 2.2 @ np.transpose(matrices[0])
    assert np.linalg.norm(np.diff(np.clip(confused, 0, 1) ** (1 / 2.2), axis=0)) < 0.1


def test_signatures_say_what_they_are_like() -> None:
    rng = np.random.default_rng(0)
    references = Table(rng.dirichlet([0.3] * 96, 3).T, np.array(signature_channels()), np.array(["R1", "R2", "R3"]))
    counts = rng.poisson(rng.gamma(0.5, 200.0, (20, 3)) @ references.matrix.T)
    model = PoissonNMF(3, random_state=0).fit(Table(counts, column_labels=np.array(signature_channels())))
    figure = plot_signatures(model, reference=references)
    words = [ax.texts[-1].get_text() for ax in figure.axes[1:]]
    assert all("of all counts, like R" in text for text in words)
    bare = plot_signatures(references.matrix.T, signature_channels(), reference=references)
    assert [ax.texts[0].get_text() for ax in bare.axes] == [f"like R{k} (1.00)" for k in (1, 2, 3)]


def test_signatures_with_totals() -> None:
    parts = np.random.default_rng(0).dirichlet(np.ones(96), 2)
    figure = plot_signatures(parts, signature_channels(), totals=[1500, 500])
    assert [ax.texts[0].get_text() for ax in figure.axes] == ["1,500 counts (75%)", "500 counts (25%)"]
    with pytest.raises(InvalidInputError, match="one for each of the 2 parts"):
        plot_signatures(parts, signature_channels(), totals=[1500])


def test_signature_fit_is_data_reconstruction_and_residual() -> None:
    rng = np.random.default_rng(0)
    parts, shuffled = rng.dirichlet(np.ones(96), 2), rng.permutation(96)
    names = np.array(signature_channels())[shuffled]
    model = PoissonNMF.from_components(parts, feature_names=names)
    counts = rng.poisson([[300.0, 100.0], [50.0, 500.0]] @ parts)
    figure = plot_signature_fit(model, Table(counts, np.array(["A", "B"]), names), samples=[1])
    usual = np.argsort(shuffled)
    expected = model.inverse_transform(model.transform(Table(counts, None, names)))[1, usual]
    data, fitted, residual = (np.array([bar.get_height() for bar in ax.patches[:96]]) for ax in figure.axes)
    np.testing.assert_allclose(data, counts[1, usual])
    np.testing.assert_allclose(fitted, expected, rtol=1e-5)
    np.testing.assert_allclose(residual, counts[1, usual] - expected, rtol=1e-4, atol=1e-4)
    assert figure.axes[0].get_ylabel() == "B"
    assert figure.axes[0].texts[0].get_text() == f"{counts[1].sum():,} counts"


def test_many_parts_have_one_grey() -> None:
    activations = np.random.default_rng(0).gamma(1.0, size=(6, 86))
    ax = plot_structure(activations, counts=True)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(labels) == 21
    assert labels[0] == "66 other parts"
    tops = np.max([patch.get_data().values for patch in ax.patches], axis=0)
    np.testing.assert_allclose(np.sort(tops), np.sort(activations.sum(axis=1)))


def test_signatures_in_their_usual_order() -> None:
    shuffled = np.random.default_rng(1).permutation(96)
    values = np.arange(1.0, 97.0)
    names = [f"type {name}" for name in np.array(signature_channels())[shuffled]]
    figure = plot_signatures(np.stack([values[shuffled], np.zeros(96)]), names, titles=["SBS1", "SBS2"])
    heights = [patch.get_height() for patch in figure.axes[0].containers[0]]
    np.testing.assert_allclose(heights, values / values.sum())
    assert [text.get_text().strip() for text in figure.axes[0].texts] == ["C>A", "C>G", "C>T", "T>A", "T>C", "T>G"]
    assert [ax.get_ylabel() for ax in figure.axes] == ["SBS1", "SBS2"]
    assert figure.axes[1].get_xticklabels()[0].get_text() == "ACA"


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (None, "no names"),
        (signature_channels()[:95], "95 entries"),
        ([*signature_channels()[:95], "A[C>A]A"], "twice"),
        ([*signature_channels()[:95], "AAA"], "feature 95, 'AAA'"),
    ],
)
def test_signatures_refuse(names, match) -> None:
    with pytest.raises(InvalidInputError, match=match):
        plot_signatures(np.ones((1, 96)), names)


def test_column_norms_of_a_fit() -> None:
    X = np.random.default_rng(0).poisson(2.0, size=(30, 8))
    model = GammaPoissonNMF(3, max_iter=12, tol=0, random_state=0).fit(X)
    ax = plot_column_norms(model)
    found = sorted(line.get_ydata()[-1] for line in ax.lines)
    np.testing.assert_allclose(found, sorted(model.column_norms_[-1]))
    assert ax.get_yscale() == "log"
    with pytest.raises(InvalidInputError, match="PoissonNMF has no column norms"):
        plot_column_norms(PoissonNMF(2, random_state=0).fit(X))
    with pytest.raises(InvalidInputError, match="iterations x parts"):
        plot_column_norms([1.0, 2.0])


TABLE = {
    "model": ["a", "b", "a", "b"],
    "rank": [2, 2, 1, 1],
    "mean": [-1.0, -1.5, -3.0, -2.0],
    "std_error": [0.1, 0.2, 0.3, float("nan")],
}


def test_rank_selection_by_model() -> None:
    ax = plot_rank_selection(TABLE)
    first, second = ax.containers
    np.testing.assert_allclose(first.lines[0].get_ydata(), [-3.0, -1.0])
    np.testing.assert_allclose(np.round(second.lines[0].get_xdata()), [1, 2])
    (bars,) = first.lines[2]
    np.testing.assert_allclose(np.diff(bars.get_segments(), axis=1)[:, 0, 1], [1.2, 0.4])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    ring = ax.lines[-1]
    assert ring.get_ydata()[0] == -1.0
    assert plot_rank_selection(TABLE, chosen=("b", 1)).lines[-1].get_ydata()[0] == -2.0


def test_many_ranks_are_on_a_logarithmic_axis() -> None:
    ranks = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 65, 80]
    ax = plot_rank_selection({"rank": ranks, "mean": [float(rank) for rank in ranks]})
    assert ax.get_xscale() == "log"
    shown = [int(text.get_text()) for text in ax.get_xticklabels()]
    assert shown[0] == 1
    assert set(shown) < set(ranks)
    assert np.all(np.diff(np.log(shown)) > 0.18)
    np.testing.assert_allclose(ax.containers[0].lines[0].get_xdata(), ranks)


def test_rank_selection_of_frames_and_results() -> None:
    pandas = pytest.importorskip("pandas")
    assert len(plot_rank_selection(pandas.DataFrame(TABLE)).containers) == 2
    found = SimpleNamespace(candidates=np.arange(1, 4), scores=np.array([1.0, 3.0, 2.0]), std_errors=np.ones(3))
    ax = plot_rank_selection(found)
    np.testing.assert_allclose(ax.containers[0].lines[0].get_ydata(), [1, 3, 2])
    assert ax.get_legend() is None


def test_rank_selection_of_comparisons() -> None:
    from partwise.selection.comparison import Row

    rows = [
        Row(model, rank, 1, score, 0.1, 0.0, 0.05, 1.0, 1.0, 0.1, 0.9, 0.0, 1.0)
        for model, rank, score in (("a", 1, -2.0), ("a", 2, -1.0), ("b", 1, -1.5))
    ]
    ax = plot_rank_selection(SimpleNamespace(table=lambda: rows, choice=("b", 1), candidates={}))
    np.testing.assert_allclose(ax.containers[0].lines[0].get_ydata(), [-2.0, -1.0])
    assert ax.lines[-1].get_ydata()[0] == -1.5
    (bars,) = ax.containers[0].lines[2]
    np.testing.assert_allclose(np.diff(bars.get_segments(), axis=1)[:, 0, 1], 0.2)  # twice 2 errors of the difference
    untried = SimpleNamespace(table=lambda: rows, choice=("b", 9), recommended=("a", 2))
    assert plot_rank_selection(untried).lines[-1].get_ydata()[0] == -1.0


@pytest.mark.parametrize(
    ("table", "options", "match"),
    [
        ({"mean": [1.0]}, {}, "column 'rank'"),
        ({"rank": [1, 2], "mean": [1.0]}, {}, "one entry for each fit"),
        ({"rank": [1], "mean": [float("nan")]}, {}, "row 0"),
        (TABLE, {"chosen": 9}, "chosen=9"),
    ],
)
def test_rank_selection_refuses(table, options, match) -> None:
    with pytest.raises(InvalidInputError, match=match):
        plot_rank_selection(table, **options)
