"""The three exact algorithms against brute force at high precision, and against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from reference import log_probability
from scipy.special import gammaln

from partwise.errors import ImpossibleRowsWarning, InvalidInputError
from partwise.likelihood import auto, exact, exact_cost
from partwise.likelihood.exact import LATTICE

METHODS = ("lattice", "subcount", "quadrature")
ALL_METHODS = ("auto", *METHODS)

# Relative in log p (absolute where |log p| < 1). The algorithms reach a few 1e-15; required are 1e-10.
TOLERANCE = 1e-13


def check(values: Any, wanted: Any) -> None:
    np.testing.assert_allclose(values, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def _case(name: str) -> tuple[Any, Any, Any, Any]:
    """Counts (one row), dictionary, shape and rate; small enough to enumerate."""
    rng = np.random.default_rng(7)
    generic = rng.random((4, 3)) + 0.05
    zeros = np.array([[0.5, 0.0, 0.2], [0.0, 0.7, 0.0], [0.3, 0.1, 0.0], [0.0, 0.0, 0.4]])
    cases = {
        "generic": ([2, 0, 3, 1], generic, [0.7, 1.3, 2.0], [0.5, 1.0, 2.0]),
        "numbers for shape and rate": ([1, 2, 1, 0], generic, 0.4, 3.0),
        "zeros in the dictionary": ([2, 3, 1, 2], zeros, [0.7, 1.3, 2.0], [0.5, 1.0, 2.0]),
        "all tokens settled": ([0, 3, 0, 2], zeros, [0.7, 1.3, 2.0], 1.0),
        "an empty row": ([0, 0, 0, 0], generic, [0.7, 1.3, 2.0], [0.5, 1.0, 2.0]),
        "a single token": ([0, 0, 1, 0], generic, [0.7, 1.3, 2.0], [0.5, 1.0, 2.0]),
        "a single feature": ([0, 9, 0, 0], generic, [0.7, 1.3, 2.0], [0.5, 1.0, 2.0]),
        "one component": ([2, 0, 3, 1], generic[:, :1], 0.7, 0.5),
        "two components": ([4, 0, 5, 3], generic[:, :2], [0.7, 1.3], [0.5, 1.0]),
        "five components": ([1, 0, 2, 1], rng.random((4, 5)), rng.random(5) + 0.2, rng.random(5) + 0.2),
        "six components, zeros": (
            [1, 1, 2, 0],
            rng.random((4, 6)) * (rng.random((4, 6)) < 0.6) + np.eye(4, 6),
            rng.random(6) + 0.2,
            1.0,
        ),
        "more components than tokens": ([1, 0, 1, 0], rng.random((4, 12)), rng.random(12) + 0.2, 1.0),
        "tiny shapes": ([2, 0, 3, 1], generic, 1e-8, [0.5, 1.0, 2.0]),
        "huge shapes": ([2, 0, 3, 1], generic, 1e8, 1e8),
        "huge shapes far from their mean": ([2, 0, 3, 1], generic, 1e8, [0.5, 1.0, 2.0]),
        "shapes of all sizes": ([2, 0, 3, 1], generic, [1e-8, 1.0, 1e8], [1e-8, 1.0, 1e8]),
        "tiny rates": ([2, 0, 3, 1], generic, [0.7, 1.3, 2.0], 1e-12),
        "huge rates": ([2, 0, 3, 1], generic, [0.7, 1.3, 2.0], 1e12),
        "rates of all sizes": ([2, 0, 3, 1], generic, [0.7, 1.3, 2.0], [1e-12, 1.0, 1e12]),
        "entries of all sizes": ([2, 1, 2, 1], generic ** [[60.0], [1.0], [120.0], [1.0]], [0.7, 1.3, 2.0], 1.0),
        "products below the range of doubles": ([1, 0, 2, 1], generic * 1e-200, [0.7, 1.3, 2.0], 1e200),
    }
    counts, dictionary, shape, rate = cases[name]
    return np.array(counts), np.asarray(dictionary), shape, rate


CASES = [
    "generic",
    "numbers for shape and rate",
    "zeros in the dictionary",
    "all tokens settled",
    "an empty row",
    "a single token",
    "a single feature",
    "one component",
    "two components",
    "five components",
    "six components, zeros",
    "more components than tokens",
    "tiny shapes",
    "huge shapes",
    "huge shapes far from their mean",
    "shapes of all sizes",
    "tiny rates",
    "huge rates",
    "rates of all sizes",
    "entries of all sizes",
    "products below the range of doubles",
]


@pytest.mark.parametrize("name", CASES)
def test_equals_enumeration(name: str) -> None:
    counts, dictionary, shape, rate = _case(name)
    wanted = log_probability(counts, dictionary, shape, rate)
    for method in ALL_METHODS:
        result = exact(counts[None], dictionary, shape, rate, method=method)
        check(result.values, [wanted])
        assert result.std_errors == [0.0]
        assert result.ess == [np.inf]


@given(
    seed=st.integers(0, 2**32),
    n_features=st.integers(1, 6),
    n_components=st.integers(1, 6),
    density=st.sampled_from([0.3, 0.7, 1.0]),
    spread=st.sampled_from([1.0, 8.0]),
)
def test_methods_agree(seed: int, n_features: int, n_components: int, density: float, spread: float) -> None:
    rng = np.random.default_rng(seed)
    dictionary = rng.random((n_features, n_components)) * (rng.random((n_features, n_components)) < density)
    counts = rng.integers(0, 4, (3, n_features))
    shape = 10.0 ** rng.uniform(-spread, spread, n_components)
    rate = 10.0 ** rng.uniform(-spread, spread, n_components)
    values = [exact(counts, dictionary, shape, rate, method=method).values for method in METHODS]
    possible = (counts == 0).T | (dictionary > 0).any(axis=1)[:, None]
    np.testing.assert_array_equal(np.isfinite(values[0]), possible.all(axis=0))
    for other in values[1:]:
        np.testing.assert_allclose(other, values[0], rtol=1e-12, atol=1e-12)


def test_rows_do_not_depend_on_each_other() -> None:
    rng = np.random.default_rng(3)
    dictionary = rng.random((8, 4)) * (rng.random((8, 4)) < 0.7) + 0.01 * np.eye(8, 4)
    dictionary[dictionary.sum(axis=1) == 0] = 0.5
    counts = rng.poisson(rng.gamma(1.0, 1.0, (30, 1)) * 3.0, (30, 8))
    # Rows of one length share their rules, also where one has more features than another.
    counts = np.vstack((counts, [[60, 0, 0, 0, 0, 0, 0, 4], [8] * 8, [30, 30, 4, 0, 0, 0, 0, 0]]))
    together = exact(counts, dictionary, 0.6, 0.4)
    for n in range(counts.shape[0]):
        assert exact(counts[[n]], dictionary, 0.6, 0.4).values[0] == together.values[n]
    threaded = exact(sp.csr_array(counts), dictionary, 0.6, 0.4, n_jobs=3)
    np.testing.assert_array_equal(threaded.values, together.values)
    for method in METHODS:
        cheap = np.flatnonzero(exact_cost(counts, dictionary).costs[:, METHODS.index(method)] < 1e7)
        together = exact(counts[cheap], dictionary, 0.6, 0.4, method=method)
        for n in range(cheap.size):
            assert exact(counts[cheap[[n]]], dictionary, 0.6, 0.4, method=method).values[0] == together.values[n]


def test_one_component_is_negative_multinomial() -> None:
    counts = np.array([[3, 0, 40], [0, 0, 0], [1, 1, 2000]])
    weights, shape, rate = np.array([0.2, 0.5, 3.0]), 0.7, 1.9
    total = counts.sum(axis=1)
    wanted = (
        gammaln(shape + total)
        - gammaln(shape)
        - gammaln(counts + 1.0).sum(axis=1)
        + shape * np.log(rate / (rate + weights.sum()))
        + counts @ np.log(weights / (rate + weights.sum()))
    )
    for method in METHODS:
        np.testing.assert_allclose(
            exact(counts, weights[:, None], shape, rate, method=method).values, wanted, rtol=1e-12
        )


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_sum_to_one(method: str) -> None:
    # Means of a few hundredths: beyond counts of 9 there is less than 1e-13.
    grid = np.array([[i, j, k] for i in range(10) for j in range(10) for k in range(10)])
    dictionary = np.array([[0.5, 0.1], [0.3, 0.0], [0.2, 0.6]])
    values = exact(grid, dictionary, [0.4, 1.5], [30.0, 60.0], method=method, max_cost=1e12).values
    assert abs(np.exp(values).sum() - 1.0) < 1e-12


def test_scale_moves_between_dictionary_and_rate() -> None:
    rng = np.random.default_rng(5)
    dictionary, scale = rng.random((6, 3)), np.array([0.1, 7.0, 1e3])
    counts, rate = rng.integers(0, 5, (4, 6)), np.array([0.3, 1.0, 2.0])
    for method in METHODS:
        values = exact(counts, dictionary, 0.8, rate, method=method).values
        check(exact(counts, dictionary * scale, 0.8, rate * scale, method=method).values, values)


def test_order_of_features_and_components_does_not_matter() -> None:
    rng = np.random.default_rng(6)
    dictionary, shape, rate = rng.random((6, 4)), rng.random(4) + 0.2, rng.random(4) + 0.2
    counts = rng.integers(0, 4, (3, 6))
    features, components = rng.permutation(6), rng.permutation(4)
    for method in METHODS:
        values = exact(counts, dictionary, shape, rate, method=method).values
        moved = exact(
            counts[:, features], dictionary[features][:, components], shape[components], rate[components], method=method
        )
        check(moved.values, values)


@pytest.mark.parametrize("method", ALL_METHODS)
def test_missing_cells_are_dropped_columns(method: str) -> None:
    rng = np.random.default_rng(8)
    dictionary = rng.random((5, 3)) * np.array([[1e6], [1.0], [1.0], [1.0], [1e-6]])
    counts = rng.integers(0, 4, (4, 5)).astype(float)
    missing = np.array([[1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], dtype=bool)
    # So small a rate that what cancels in exposures would show.
    for rate in (1.0, 1e-20):
        values = exact(np.where(missing, np.nan, counts), dictionary, 0.5, rate, method=method).values
        for n in range(4):
            seen = ~missing[n]
            if seen.any():
                check(values[[n]], exact(counts[[n]][:, seen], dictionary[seen], 0.5, rate, method=method).values)
            else:
                assert values[n] == 0.0


def test_impossible_counts_have_probability_zero() -> None:
    dictionary = np.array([[0.5, 0.1], [0.0, 0.0], [0.2, 0.7]])
    labels = pd.DataFrame([[1, 0, 2], [1, 1, 2], [0, 4, 0]], columns=["a", "b", "c"])
    result = exact(labels, dictionary, 1.0, 1.0)
    assert (result.values[1:] == -np.inf).all()
    assert np.isfinite(result.values[0])
    with pytest.warns(
        ImpossibleRowsWarning, match=r"^Row 1 of X \(one of 2 such rows\) has a count of feature 'b', which"
    ):
        np.testing.assert_allclose(auto(labels, dictionary, 1.0, 1.0).values, result.values)


def test_rates_far_below_the_dictionary() -> None:
    # exposure / rate is beyond the largest double here.
    value = exact([[1, 0]], np.array([[1e10, 1e9], [1e8, 1e10]]), 1.0, 1e-300).values[0]
    assert value == pytest.approx(log_probability([1, 0], [[1e10, 1e9], [1e8, 1e10]], 1.0, 1e-300), rel=1e-13)


def test_too_expensive_rows_are_named_with_their_cost() -> None:
    rng = np.random.default_rng(9)
    counts = np.array([[1] * 40, [40] * 40, [60] * 40])
    dictionary = rng.random((40, 8))
    costs = exact_cost(counts, dictionary)
    wanted = rf"Row 1 of X \(1600 tokens among 8 parts\) would take {costs.cheapest[1]:.2g} multiply-adds by "
    with pytest.raises(
        InvalidInputError, match=wanted.replace("+", r"\+") + r".*raise max_cost, or estimate with .*smc"
    ):
        exact(counts, dictionary, 1.0, 1.0, max_cost=1e12)
    with pytest.raises(InvalidInputError, match=r"Row 0 of X .* by lattice, above max_cost = 5e\+06"):
        exact(counts, dictionary, 1.0, 1.0, method="lattice", max_cost=5e6)
    with pytest.raises(InvalidInputError, match=r"Row 2 of X .* is beyond the memory or the range .* of lattice"):
        exact(counts[[0, 0, 1]], dictionary, 1.0, 1.0, method="lattice", max_cost=1e300)
    with pytest.raises(
        InvalidInputError, match="method must be 'auto', 'lattice', 'subcount', 'quadrature', got 'fast'"
    ):
        exact(counts, dictionary, 1.0, 1.0, method="fast")


def test_costs_grow_with_what_is_counted_and_never_wrap() -> None:
    dictionary = np.random.default_rng(1).random((300, 50))
    counts = np.zeros((4, 300), dtype=np.int64)
    counts[1, 0] = 1
    counts[2, :10] = 1
    counts[3] = 2**40
    costs = exact_cost(counts, dictionary)
    assert costs.cheapest[0] == 0.0
    assert (costs.costs[1:] >= costs.costs[:-1]).all()
    assert (costs.costs[3] == np.inf).all()
    # Many components, few tokens: only the recurrence over sub-counts is affordable.
    assert costs.methods[2] == "subcount"
    assert costs.costs[2, 1] < 1e6 < 1e12 < costs.costs[2, [0, 2]].min()


def test_lattice_cost_is_the_number_of_multiply_adds() -> None:
    # L C(L+K-1, K-1) multiply-adds, and overhead that vanishes for long rows.
    cost = exact_cost([[500, 500]], np.random.default_rng(0).random((2, 3))).costs[0, LATTICE]
    assert cost == pytest.approx(1000 * 1002 * 1001 / 2, rel=0.02)


def test_settled_tokens_cost_nothing() -> None:
    # Features of a single component decide nothing: what is left is a row of three tokens.
    dictionary = np.array([[0.5, 0.2, 0.1], [0.4, 0.0, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 0.6]])
    short, long = exact_cost([[3, 0, 0, 0], [3, 500, 700, 900]], dictionary).costs
    np.testing.assert_array_equal(short[:2], long[:2])
