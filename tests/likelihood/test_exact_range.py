"""Long rows and extreme parameters: nothing underflows, or it is noticed and mended."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from reference import log_probability, log_probability_of_two

from partwise.errors import InvalidInputError
from partwise.likelihood import exact
from partwise.likelihood.kernels import lattice
from partwise.likelihood.kernels.lattice import wide_lattice_rows
from partwise.likelihood.kernels.lattice_walk import make_walk, nothing_lost, nothing_lost_on_the_way, present_states
from partwise.likelihood.kernels.rows import OpenRow, row_buffers
from partwise.likelihood.kernels.tokens import in_turn, interleave
from partwise.likelihood.problem import LikelihoodProblem

TOLERANCE = 1e-13


def _weights_as_model(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Dictionary and rates with w_fk / (b_k + w_+k) = q_fk."""
    return q, 1.0 - q.sum(axis=0)


@pytest.fixture(scope="module")
def grouped() -> tuple[np.ndarray, Any]:
    """The example of MATH 1.1: with one feature's tokens after the other's, far states vanish and matter later.

    In this order, the state that wins falls behind the leading one by 528 nats on the way, and by three times that with
    three times the counts, more than doubles can span.
    """
    q = np.array([[0.6 / math.e, 0.6], [0.6, 0.0006]])
    dictionary, rate = _weights_as_model(q)
    return np.array([1690, 910]), (dictionary, 1.0, rate)


def test_features_one_after_the_other(grouped: tuple[np.ndarray, Any]) -> None:
    for times in (1, 3):
        counts, model = times * grouped[0], grouped[1]
        wanted = log_probability_of_two(counts, *model)
        for method in ("lattice", "quadrature", "auto"):
            np.testing.assert_allclose(exact([counts], *model, method=method).values, [wanted], rtol=TOLERANCE)
            dictionary, shape, rate = model
            swapped = exact([counts[::-1]], dictionary[::-1], shape, rate, method=method)
            np.testing.assert_allclose(swapped.values, [wanted], rtol=TOLERANCE)


def _run(
    counts: np.ndarray, dictionary: np.ndarray, shape: float, rate: Any, *, mixed: bool
) -> tuple[float, bool, bool]:
    """The fast lattice by hand: log-likelihood, and whether either check vouches for it."""
    problem = LikelihoodProblem.build([counts], dictionary, shape, rate)
    weights = dictionary * problem.inverse_rates
    largest = weights.max(axis=1)
    weights = weights / largest[:, None]
    shapes, n_tokens, n_components = problem.shape, int(counts.sum()), dictionary.shape[1]
    walk = make_walk(n_components, n_tokens)
    states = np.zeros(math.comb(n_tokens + n_components - 1, n_components - 1) + 2)
    if mixed:
        interleave(weights, counts, counts.size, n_components, 0, walk.order)
    else:
        in_turn(counts, counts.size, walk.order)
    log_sum = -math.inf
    row = row_buffers(np.array([0, counts.size]), np.array([0]), n_components, np.zeros(1, np.bool_))
    row = row._replace(weights=weights, counts=counts, shapes=shapes)
    size = OpenRow(counts.size, n_components, n_tokens, 0.0, shapes.sum())
    if lattice.run_lattice(row, size, 0, n_tokens, walk, states):
        first, number = present_states(walk, size, n_tokens)
        log_sum = math.log(states[first : first + number].sum()) - walk.scales[n_tokens] * math.log(2.0)
    rising = math.lgamma(shapes.sum() + n_tokens) - math.lgamma(shapes.sum())
    value = log_sum + rising + float(counts @ np.log(largest)) + float(problem.constants[0])
    at_once = nothing_lost(size, walk, log_sum)
    on_the_way = nothing_lost_on_the_way(row, size, walk, log_sum)
    return value, at_once, on_the_way


def test_lost_states_are_noticed(grouped: tuple[np.ndarray, Any]) -> None:
    counts, model = 3 * grouped[0], grouped[1]
    wanted = log_probability_of_two(counts, *model)
    value, at_once, on_the_way = _run(counts, *model, mixed=True)
    assert value == pytest.approx(wanted, rel=1e-12)
    assert on_the_way
    # In turn, the same recursion is many nats off, and both checks say so.
    value, at_once, on_the_way = _run(counts, *model, mixed=False)
    assert abs(value - wanted) > 10.0
    assert not at_once
    assert not on_the_way


@pytest.mark.parametrize("shape", [1e-3, 1.0, 1e2, 1e4, 1e8])
def test_long_rows_need_no_logarithms(shape: float) -> None:
    # Whether the evidence or the prior rules, one of the bounds of the check is tight: else such rows would be slow.
    rng = np.random.default_rng(12)
    dictionary = np.column_stack((rng.random(300) ** 3 + 1e-3, np.full(300, 0.05)))
    counts = rng.multinomial(6000, rng.dirichlet(np.ones(300)))
    _, at_once, on_the_way = _run(counts, dictionary, shape, 1.0, mixed=True)
    assert on_the_way
    assert not at_once


def test_logarithms_take_over_where_states_are_lost(grouped: tuple[np.ndarray, Any], monkeypatch: Any) -> None:
    counts, model = 3 * grouped[0], grouped[1]
    problem = LikelihoodProblem.build([counts], *model)
    arrays = problem.model
    out = np.zeros(1)
    # The Python version of the kernel, with tokens kept in turn: it must not answer.
    monkeypatch.setattr(lattice, "interleave", lambda w, c, n, k, first, order: in_turn(c, n, order))
    rows, n_tokens = np.array([0]), int(counts.sum())
    lattice.lattice_rows.py_func(arrays, rows, n_tokens, n_tokens + 1, out)  # type: ignore[attr-defined]
    assert np.isnan(out[0])
    wide_lattice_rows(arrays, rows, n_tokens, n_tokens + 1, out)
    wanted = log_probability_of_two(counts, *model)
    assert out[0] + problem.constants[0] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("n_components", [2, 3, 4, 5, 6])
def test_logarithms_give_the_same(n_components: int) -> None:
    rng = np.random.default_rng(n_components)
    dictionary = rng.random((5, n_components)) * (rng.random((5, n_components)) < 0.8) + 0.01 * np.eye(5, n_components)
    problem = LikelihoodProblem.build(rng.integers(0, 4, (6, 5)), dictionary, rng.random(n_components) + 0.1, 1.0)
    rows = np.arange(6)
    fast, wide = np.zeros(6), np.zeros(6)
    sizes = 15, math.comb(15 + n_components - 1, n_components - 1)
    lattice.lattice_rows(problem.model, rows, *sizes, fast)
    wide_lattice_rows(problem.model, rows, *sizes, wide)
    np.testing.assert_allclose(wide, fast, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n_features", [2, 40])
def test_three_thousand_tokens_of_two_components(n_features: int) -> None:
    rng = np.random.default_rng(n_features)
    dictionary = rng.random((n_features, 2)) ** 4 + 1e-6
    counts = np.bincount(rng.integers(0, n_features, 3000), minlength=n_features)
    shape, rate = [0.7, 1.6], [0.5, 30.0]
    wanted = log_probability_of_two(counts, dictionary, shape, rate)
    for method in ("lattice", "quadrature", "auto"):
        values = exact([counts], dictionary, shape, rate, method=method).values
        np.testing.assert_allclose(values, [wanted], rtol=TOLERANCE)


def test_three_thousand_tokens_of_one_feature() -> None:
    dictionary, shape, rate = np.array([[0.3, 2.0], [0.5, 0.1]]), [0.7, 1.6], [0.5, 3.0]
    wanted = log_probability_of_two([3000, 0], dictionary, shape, rate)
    for method in ("lattice", "subcount", "quadrature"):
        values = exact([[3000, 0]], dictionary, shape, rate, method=method).values
        np.testing.assert_allclose(values, [wanted], rtol=TOLERANCE)


@pytest.mark.parametrize("shape", [1e-8, 1e-3, 1.0, 1e3, 1e8])
def test_long_rows_with_shapes_of_all_sizes(shape: float) -> None:
    rng = np.random.default_rng(11)
    dictionary = np.exp(rng.normal(0.0, 3.0, (30, 3)))
    counts = rng.multinomial(400, rng.dirichlet(np.ones(30)))[None]
    by_lattice = exact(counts, dictionary, shape, shape, method="lattice").values
    by_quadrature = exact(counts, dictionary, shape, shape, method="quadrature").values
    np.testing.assert_allclose(by_quadrature, by_lattice, rtol=1e-12)
    few = counts * (np.arange(30) < 2)
    by_lattice = exact(few, dictionary, shape, shape, method="lattice").values
    np.testing.assert_allclose(exact(few, dictionary, shape, shape, method="subcount").values, by_lattice, rtol=1e-12)


@pytest.mark.parametrize("shape", [1e-8, 1.0])
def test_evidence_that_turns(shape: float) -> None:
    # 2,000 features of one token each, the first half for one component, the second half for the other: in this order,
    # the state that wins in the end would have vanished half-way.
    # And a single token of each of 2,000 features is what interleaving can do least about.
    strength = np.where(np.arange(2000) < 1000, 1e-3, 1e3)
    dictionary = np.column_stack((np.ones(2000), strength)) / 1e6
    counts = np.ones((1, 2000), dtype=int)
    by_lattice = exact(counts, dictionary, shape, 1.0, method="lattice").values
    by_quadrature = exact(counts, dictionary, shape, 1.0, method="quadrature").values
    np.testing.assert_allclose(by_lattice, by_quadrature, rtol=1e-12)


def test_ratios_as_wide_as_doubles() -> None:
    # Every q_fk matters, down to 1e-300 of the largest: two tokens that no component explains well.
    dictionary = np.array([[1.0, 1e-300, 1e-150], [1e-300, 1.0, 1e-140], [1e-150, 1e-150, 1e-300]])
    for counts in ([1, 1, 0], [2, 0, 1], [3, 3, 2]):
        wanted = log_probability(counts, dictionary, [1e-9, 0.3, 2.0], 1.0)
        for method in ("lattice", "subcount", "quadrature"):
            values = exact([counts], dictionary, [1e-9, 0.3, 2.0], 1.0, method=method).values
            np.testing.assert_allclose(values, [wanted], rtol=1e-12)


def test_parameters_as_wide_as_doubles() -> None:
    rng = np.random.default_rng(13)
    for spread in (30, 280):
        for _ in range(40):
            dictionary, shape, rate = (10.0 ** rng.uniform(-spread, spread, size) for size in ((3, 3), 3, 3))
            counts = rng.integers(0, 5, (1, 3))
            by_lattice = exact(counts, dictionary, shape, rate, method="lattice").values
            np.testing.assert_allclose(
                exact(counts, dictionary, shape, rate, method="subcount").values, by_lattice, rtol=1e-12, atol=1e-12
            )
            assert np.isfinite(by_lattice).all()
            if spread == 30:
                by_quadrature = exact(counts, dictionary, shape, rate, method="quadrature").values
                np.testing.assert_allclose(by_quadrature, by_lattice, rtol=1e-12, atol=1e-12)
    with pytest.raises(InvalidInputError, match=r"Row 0 of X .* range of numbers of quadrature: let method be 'auto'"):
        exact([[2, 1]], [[0.5, 0.1], [0.2, 0.4]], [1e-80, 1.0], 1.0, method="quadrature")


def test_a_thousand_tokens_of_three_components() -> None:
    rng = np.random.default_rng(4)
    dictionary = rng.dirichlet(np.full(120, 0.1), 3).T + 1e-9
    counts = rng.poisson(rng.gamma(1.0, 400.0, (1, 3)) @ dictionary.T)
    values = [exact(counts, dictionary, 0.5, 0.01, method=method).values for method in ("lattice", "quadrature")]
    assert counts.sum() > 800
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)
