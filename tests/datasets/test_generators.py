"""Data drawn from each model are those of the model, and every data set has a name."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.datasets import (
    BINARY,
    COUNTS,
    describe_datasets,
    load_dataset,
    simulate_allocation,
    simulate_beta_gamma,
    simulate_binary,
    simulate_empirical_bayes,
    simulate_gamma_poisson,
    simulate_logistic,
)
from partwise.errors import InvalidInputError

COUNT_GENERATORS = [simulate_gamma_poisson, simulate_beta_gamma, simulate_allocation, simulate_empirical_bayes]
GENERATORS = [*COUNT_GENERATORS, simulate_binary, simulate_logistic]


@pytest.mark.parametrize("generate", GENERATORS)
def test_sizes_names_seed_and_missing_cells(generate) -> None:
    one, two, other = (generate(40, 25, 3, missing=0.2, random_state=seed) for seed in (1, 1, 2))
    assert one.table.shape == (40, 25)
    assert (one.activations.shape, one.dictionary.shape) == ((40, 3), (25, 3))
    assert (one.table.row_labels[-1], one.table.column_labels[-1]) == ("sample39", "feature24")
    np.testing.assert_array_equal(one.table.matrix.toarray(), two.table.matrix.toarray())
    assert np.any(one.table.matrix.toarray() != other.table.matrix.toarray())
    # 1,000 cells: a standard error of 0.013, so 5 of them are 0.065
    assert abs(one.table.missing.sum() / 1000 - 0.2) < 0.065


@pytest.mark.parametrize("generate", COUNT_GENERATORS)
def test_counts_have_the_mean_of_their_factors_and_about_100_tokens(generate) -> None:
    table, activations, dictionary = generate(2000, 30, 3, random_state=0)
    expected = activations @ dictionary.T
    # a sum of Poisson counts: 5 of its standard errors
    assert abs(table.matrix.sum() - expected.sum()) < 5 * np.sqrt(expected.sum())
    per_row = table.matrix.sum() / 2000
    assert 40 < per_row < 250  # 100, or near it where the dictionary is random too
    if generate is not simulate_empirical_bayes:
        np.testing.assert_allclose(dictionary.sum(axis=0), 1.0)
        assert abs(per_row - 100) < 12


def test_shapes_of_activations() -> None:
    activations = simulate_gamma_poisson(20000, 5, 2, shape=[0.3, 3.0], random_state=0).activations
    # mean squared over variance is the shape; its relative error at 20,000 draws is about 3%
    found = activations.mean(axis=0) ** 2 / activations.var(axis=0)
    np.testing.assert_allclose(found, [0.3, 3.0], rtol=0.15)


@pytest.mark.parametrize("model", ["beta-dir", "dir-beta", "dir-dir"])
def test_bits_follow_the_probabilities_of_their_factors(model) -> None:
    table, activations, dictionary = simulate_binary(300, 60, 4, model=model, random_state=0)
    probability = activations @ dictionary.T
    assert probability.max() <= 1 + 1e-12
    bits = table.matrix.toarray()
    assert set(np.unique(bits)) == {0, 1}
    spread = np.sqrt((probability * (1 - probability)).sum())
    assert abs(bits.sum() - probability.sum()) < 5 * spread


def test_every_data_set_has_a_line_and_made_ones_load() -> None:
    described = describe_datasets()
    assert {*COUNTS, *BINARY, "digits", "swimmer", "python-topics", "simulated-binary", "nips100"} <= set(described)
    assert all(line.strip() for line in described.values())
    for name in described:
        if name.startswith("simulated-"):
            assert load_dataset(name, n_samples=12, random_state=0).shape == (12, 60)
    assert load_dataset("swimmer").shape == (256, 1024)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_dataset("enron"), "no data set called 'enron'; there are digits"),
        (lambda: load_dataset("digits", n_samples=3), "takes no 'n_samples'"),
        (lambda: simulate_binary(3, 3, 2, model="beta-beta"), "model must be one of beta-dir"),
        (lambda: simulate_binary(3, 3, 2, beta_prior=(0.0, 1.0)), "alpha must be positive"),
        (lambda: simulate_allocation(3, 0, 2), "n_features must be at least 1"),
        (lambda: simulate_logistic(3, 3, 2, missing=1.0), "missing must be a share"),
        (lambda: simulate_gamma_poisson(3, 3, 2, mean_total=-1.0), "mean_total must be positive"),
    ],
)
def test_refused(call, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
