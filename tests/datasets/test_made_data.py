"""Data that every installation has, and data drawn from a model."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from partwise.core.data import CountMatrix
from partwise.datasets import DIGIT_SHAPE, digits, python_topics, simulate_poisson
from partwise.errors import InvalidInputError
from partwise.poisson.model import PoissonModel


def test_digits_are_counts() -> None:
    table = digits()
    assert table.shape == (1797, 64)
    assert np.prod(DIGIT_SHAPE) == 64
    assert table.matrix.max() == 16
    assert set(table.row_labels) == set("0123456789")
    assert table.column_labels[9] == "row 1 column 1"
    # scikit-learn's own checksum of the set: its total
    assert table.matrix.sum(dtype=np.int64) == 561718


def test_topics_have_names() -> None:
    table = python_topics()
    n_modules, n_words = table.shape
    assert n_modules > 50
    assert n_words > 500
    counts = dict(zip(table.row_labels, table.matrix.toarray(), strict=True))
    socket = table.column_labels.tolist().index("socket")
    assert counts["socket"][socket] > counts["textwrap"][socket] == 0
    assert not {"self", "argument", "the", "and"} & set(table.column_labels)
    assert all(name.partition(".")[0] in sys.stdlib_module_names for name in table.row_labels)
    used_by = (table.matrix > 0).sum(axis=0)
    assert used_by.min() >= 3
    assert used_by.max() <= 0.3 * n_modules


def test_topics_do_not_import_what_they_read() -> None:
    before = set(sys.modules)
    python_topics()
    assert "turtle" not in set(sys.modules) - before


def test_topics_without_sources(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(InvalidInputError, match="sources of Python's standard library are not installed"):
        python_topics()


def test_simulated_counts_follow_the_model() -> None:
    table, activations, dictionary = simulate_poisson(400, 50, 3, mean_total=200.0, random_state=0)
    np.testing.assert_allclose(dictionary.sum(axis=0), 1.0)
    model = PoissonModel(activations, dictionary)
    rates = model.rates()
    # Pearson's statistic over the cells with a rate worth having: mean 1, and variance (2 + 1/rate) / n. Beyond five
    # standard errors once in two million seeds.
    seen = rates > 0.5
    scaled = (table.matrix.toarray()[seen] - rates[seen]) ** 2 / rates[seen]
    error = np.sqrt(np.sum(2 + 1 / rates[seen])) / seen.sum()
    assert abs(scaled.mean() - 1) < 5 * error
    # power: rates that are wrong by a fifth are seen
    wrong = (table.matrix.toarray()[seen] - 1.2 * rates[seen]) ** 2 / (1.2 * rates[seen])
    assert abs(wrong.mean() - 1) > 5 * error
    # the mean total: 400 sums of three gammas of shape 0.5 and mean 200/3, each of standard deviation 200 * sqrt(2/3)
    totals = activations.sum(axis=1)
    assert abs(totals.mean() - 200) < 5 * 200 * np.sqrt(2 / 3) / np.sqrt(400)


def test_simulation_is_its_seed() -> None:
    first, again, other = (simulate_poisson(30, 10, 2, random_state=seed) for seed in (1, 1, 2))
    assert (first.table.matrix != again.table.matrix).nnz == 0
    np.testing.assert_array_equal(first.dictionary, again.dictionary)
    assert (first.table.matrix != other.table.matrix).nnz > 0


def test_missing_cells_change_nothing_else() -> None:
    whole = simulate_poisson(50, 20, 2, random_state=0)
    holed = simulate_poisson(50, 20, 2, missing=0.2, random_state=0)
    assert (whole.table.matrix != holed.table.matrix).nnz == 0
    data = CountMatrix.build(holed.table)
    # 1000 cells: five standard deviations of a binomial share of 0.2
    assert abs(data.n_missing / 1000 - 0.2) < 5 * np.sqrt(0.16 / 1000)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1, got 0"),
        ({"n_components": 0}, "n_components must be at least 1"),
        ({"mean_total": 0.0}, "mean_total must be positive"),
        ({"activation_shape": float("nan")}, "activation_shape must be positive"),
        ({"dictionary_concentration": float("inf")}, "dictionary_concentration must be positive and finite"),
        ({"missing": 1.0}, "missing must be a share"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_sizes_get_a_sentence(arguments, sentence: str) -> None:
    given = {"n_samples": 5, "n_features": 4, "n_components": 2, **arguments}
    with pytest.raises(InvalidInputError, match=sentence):
        simulate_poisson(**given)
