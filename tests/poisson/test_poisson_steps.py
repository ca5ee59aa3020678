"""Pieces of the Poisson solver beside plain NumPy: sizes of data, extrapolation, batches, errors, passes over rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partwise import CountMatrix, on_disk
from partwise.core.keys import Key
from partwise.core.weights import CellWeights
from partwise.engines import resolve_engine
from partwise.passes.side import FLOOR
from partwise.poisson.inference import online
from partwise.poisson.inference.coordinate import CoordinateDescent, _extrapolate
from partwise.poisson.inference.multiplicative import Multiplicative
from partwise.poisson.inference.online import OnlineStatistics, absorb
from partwise.poisson.inference.passes import PoissonSide, finish_by_rows, standard_errors, step_by_rows
from partwise.poisson.inference.state import PoissonState, rows_of_usual_size, start_factors, usual_size
from partwise.poisson.kernels import pass_by_tiles

ENGINE = resolve_engine()
RNG = np.random.default_rng(2)
DICTIONARY = RNG.dirichlet(np.full(9, 0.5), size=3).T
ACTIVATIONS = RNG.gamma(1.0, 15.0, size=(14, 3))
X = RNG.poisson(ACTIVATIONS @ DICTIONARY.T)
X[:, 0] += 1
HIDDEN = RNG.random(X.shape) < 0.2
HIDDEN[:, 0] = False


# Sizes.


@pytest.mark.parametrize("factor", [1.0, 1e-5, 1e-300, 1e300])
def test_data_of_extreme_size_are_divided_by_a_power_of_2(factor: float) -> None:
    data = CountMatrix.build((X + 0.25) * factor, integers=False)
    moved, exponent = usual_size(data)
    assert (exponent == 0) == (1e-60 < factor < 1e60)
    np.testing.assert_array_equal(np.ldexp(moved.values, exponent), data.values)
    assert exponent == 0 or 0.25 < moved.total / moved.nnz < 2.0
    counts, none = usual_size(CountMatrix.build(X))
    assert none == 0
    np.testing.assert_array_equal(counts.to_scipy().toarray(), X)


def test_values_that_are_nothing_beside_the_others_are_left_out() -> None:
    moved, _ = usual_size(CountMatrix.build([[1.5, 1e-99], [1e-101, 2.5]], integers=False))
    np.testing.assert_array_equal(moved.to_scipy().toarray(), [[1.5, 1e-99], [0.0, 2.5]])


def test_rows_of_extreme_size_are_divided_by_powers_of_their_own() -> None:
    scales = np.ones(14)
    scales[[1, 5]] = 1e-200, 1e250
    values = (X + 0.5) * scales[:, None]
    moved, exponents = rows_of_usual_size(CountMatrix.build(values, integers=False))
    np.testing.assert_array_equal(np.flatnonzero(exponents), [1, 5])
    dense = moved.to_scipy().toarray()
    np.testing.assert_array_equal(np.ldexp(dense, exponents[:, None]), values)
    assert np.all((dense.sum(axis=1) >= 0.5) & (dense.sum(axis=1) < 1e6))
    same, none = rows_of_usual_size(CountMatrix.build(X + 0.5, integers=False))
    assert not none.any()
    np.testing.assert_array_equal(same.to_scipy().toarray(), X + 0.5)


# Starts and steps.


def test_random_starts_follow_the_features() -> None:
    data = CountMatrix.build(np.column_stack((X, np.zeros(14))))
    drawn = np.array([start_factors(Key(seed), data, 4, "random").dictionary for seed in range(200)])
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)
    sums = np.append(X.sum(axis=0), 0.0)
    expected = (sums + 1e-3 * sums.sum() / 10) / (sums.sum() * 1.001)
    # 800 columns: means to five standard errors or so, whose spread is about that of an exponential number
    np.testing.assert_allclose(drawn.mean(axis=(0, 2)), expected, rtol=0.2)
    start = start_factors(Key(0), data, 4, "random")
    np.testing.assert_allclose(start.activations, np.repeat(X.sum(axis=1, keepdims=True) / 4, 4, axis=1))


def test_extrapolation_keeps_a_tenth_and_the_floor(rng: np.random.Generator) -> None:
    old, new = rng.gamma(1.0, size=(2, 2500, 3))  # more rows than are worked on at once
    floors = rng.random(2500) * 0.01
    found = new.copy()
    _extrapolate(old, found, 0.8, floors)
    expected = np.maximum(new + 0.8 * (new - old), np.maximum(0.1 * new, floors[:, None]))
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("missing", [False, True])
def test_an_em_update_is_count_over_exposure(missing: bool) -> None:
    observed = ~(HIDDEN & missing)
    data = CountMatrix.build(np.where(observed, X, np.nan))
    side, seen = PoissonSide(data, ENGINE), X * observed
    found, totals = side.em_update(ACTIVATIONS, DICTIONARY, 1e-10)
    expected = ACTIVATIONS * ((seen / (ACTIVATIONS @ DICTIONARY.T)) @ DICTIONARY) / (observed @ DICTIONARY)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(totals, expected.sum(axis=0), rtol=1e-10)
    raised, _ = side.em_update(ACTIVATIONS, DICTIONARY, 0.3)
    np.testing.assert_allclose(raised, np.maximum(expected, 0.3 * seen.sum(axis=1, keepdims=True)), rtol=1e-10)


def test_rejected_steps_shorten_the_stride() -> None:
    data, algorithm = CountMatrix.build(X), CoordinateDescent(3, "random", ENGINE)
    state = algorithm.init(Key(0), data)
    for iteration in range(1, 13):
        state, info = algorithm.step(Key(0).at(iteration), data, state)
    assert info["objective"] == state.objective
    reached, stride, limit = state.objective, state.stride, state.stride_limit
    state.objective = np.inf
    before = state.dictionary.copy()
    rejected, info = algorithm.step(Key(0).at(13), data, state)
    assert info == {}
    assert (rejected.rejections, rejected.stride) == (1, 0.5 * stride)
    assert rejected.stride_limit == max(0.1, 0.75 * stride) <= limit
    np.testing.assert_array_equal(rejected.dictionary, before)
    np.testing.assert_array_equal(rejected.dictionary_ahead, before)
    rejected.objective = reached
    accepted, info = algorithm.step(Key(0).at(14), data, rejected)
    assert info["objective"] >= reached
    assert accepted.rejections == 0
    assert accepted.stride_limit == min(1.0, 1.05 * rejected.stride_limit)
    assert accepted.stride == min(accepted.stride_limit, 1.1 * max(rejected.stride, 0.1))


# Batches.


@pytest.mark.parametrize("n_seen", [0, 28])
def test_a_batch_moves_averages_by_its_weight(n_seen: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "_PASSES", 2)
    data = CountMatrix.build(X)
    start = OnlineStatistics.of_dictionary(DICTIONARY, np.array([3.0, 5.0, 9.0]), n_seen)
    np.testing.assert_allclose(start.dictionary, DICTIONARY, rtol=1e-8)
    np.testing.assert_allclose(start.allocations.sum(axis=0), [3.0, 5.0, 9.0])
    moved = absorb(start, data, ENGINE)
    weight = (1.0 + n_seen / 14) ** -0.7
    assert moved.n_samples == n_seen + 14
    expected = (1.0 - weight) * start.allocations.sum(axis=1) + weight * X.mean(axis=0)
    np.testing.assert_allclose(moved.allocations.sum(axis=1), expected, rtol=1e-9)
    # nothing is missing, so all features have the exposure of the mean activations
    np.testing.assert_allclose(moved.exposure, np.broadcast_to(moved.exposure[:1], (9, 3)))
    scaled = moved.allocations / moved.exposure
    np.testing.assert_allclose(moved.dictionary, scaled / scaled.sum(axis=0), rtol=1e-7, atol=1e-9)


def test_a_component_without_allocations_is_even() -> None:
    statistics = OnlineStatistics(np.array([[1.0, 0.0], [0.0, 0.0], [3.0, 0.0]]), np.full((3, 2), 2.0), 5)
    np.testing.assert_allclose(statistics.dictionary[:, 1], 1 / 3)
    np.testing.assert_allclose(statistics.dictionary[:, 0], [0.25, 0.75 * FLOOR, 0.75], rtol=1e-6)


# Errors.


@pytest.mark.parametrize("missing", [False, True])
def test_errors_are_roots_of_the_inverse_information(missing: bool) -> None:
    observed = ~(HIDDEN & missing)
    data = CountMatrix.build(np.where(observed, X, np.nan))
    activations = ACTIVATIONS.copy()
    activations[2, 1] = 0.0  # taken where it has one expected count
    found = standard_errors(data, activations, DICTIONARY, ENGINE)
    for n in range(14):
        seen = DICTIONARY[observed[n]]
        rates = seen @ np.maximum(activations[n], 1.0 / seen.sum(axis=0))
        information = seen.T @ (seen / rates[:, None])
        np.testing.assert_allclose(found[n], np.sqrt(np.diag(np.linalg.inv(information))), rtol=1e-8)


def test_errors_of_what_cannot_be_told_are_infinite() -> None:
    dictionary = np.array([[0.5, 0.5, 0.0, 0.2], [0.5, 0.5, 0.0, 0.8], [0.0, 0.0, 0.0, 0.3]])
    data = CountMatrix.build([[3, 2, 1], [np.nan, np.nan, 4]])
    found = standard_errors(data, np.ones((2, 4)), dictionary, ENGINE)
    np.testing.assert_array_equal(np.isinf(found), [[True, True, True, False], [True, True, True, False]])


# Rows on disk.


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("max_sweeps", [0, 2])
def test_a_pass_by_rows_is_its_formulas(missing: bool, max_sweeps: int, tmp_path: Path) -> None:
    observed = ~(HIDDEN & missing)
    data = on_disk(np.where(observed, X, np.nan), tmp_path / "counts")
    start = PoissonState(ACTIVATIONS.copy(), DICTIONARY.copy())
    state, objective = step_by_rows(data, ENGINE, start, max_sweeps=max_sweeps, with_objective=True)
    activations, seen = np.asarray(state.activations), X * observed
    rates = activations @ DICTIONARY.T
    assert objective == pytest.approx(np.sum(seen * np.log(rates)) - np.sum(rates * observed), rel=1e-10)
    expected = DICTIONARY * ((seen / rates).T @ activations) / (observed.T @ activations)
    np.testing.assert_allclose(state.dictionary, expected, rtol=1e-7, atol=1e-12)
    without = PoissonState(ACTIVATIONS.copy(), DICTIONARY.copy())
    assert np.isnan(step_by_rows(data, ENGINE, without, max_sweeps=max_sweeps, with_objective=False)[1])


@pytest.mark.parametrize("missing", [False, True])
def test_the_end_of_a_fit_by_rows(missing: bool, tmp_path: Path) -> None:
    observed = ~(HIDDEN & missing)
    data = on_disk(np.where(observed, X, np.nan), tmp_path / "counts")
    scales = np.array([0.5, 2.0, 4.0])
    state = PoissonState(ACTIVATIONS / scales, DICTIONARY * scales)
    dictionary, totals, worst = finish_by_rows(data, ENGINE, state)
    np.testing.assert_allclose(dictionary, np.maximum(DICTIONARY, 0.0), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(totals, ACTIVATIONS.sum(axis=0), rtol=1e-7)
    seen = X * observed
    ratios = seen / (ACTIVATIONS @ DICTIONARY.T)
    by_row, by_column = observed @ DICTIONARY, observed.T @ ACTIVATIONS
    rows = np.minimum(ACTIVATIONS * by_row / seen.sum(axis=1, keepdims=True), 1 - ratios @ DICTIONARY / by_row)
    columns = DICTIONARY * by_column / seen.sum(axis=0)[:, None]
    columns = np.minimum(columns, 1 - (ratios.T @ ACTIVATIONS) / by_column)
    assert worst == pytest.approx(max(np.abs(rows).max(), np.abs(columns).max()), rel=1e-5)


@pytest.mark.parametrize("with_logs", [False, True])
@pytest.mark.parametrize("tile", [1, 7, 60, 1000])
def test_a_pass_by_tiles(with_logs: bool, tile: int, rng: np.random.Generator) -> None:
    counts = rng.poisson(1.0, size=(6, 60))  # rows of more cells than a batch
    counts[2] = 0
    data = CountMatrix.build(counts)
    factor, other = rng.gamma(1.0, size=(6, 3)), rng.gamma(1.0, size=(60, 3))
    cells, nothing = (data.indptr, data.indices, data.values), np.zeros((0, 0))
    ratios = (counts / (factor @ other.T))[1:5]
    for which in ([0], [1], [0, 1]):
        totals, gains = np.full((6, 3), -1.0), np.ones((60, 3))
        wanted = (totals if 0 in which else nothing, gains if 1 in which else nothing)
        logs = pass_by_tiles(cells, factor, other, tile, with_logs, (1, 5), wanted)
        assert logs == pytest.approx(np.sum(counts[1:5] * np.log((factor @ other.T)[1:5])) if with_logs else 0.0)
        if 0 in which:
            np.testing.assert_allclose(totals[1:5], factor[1:5] * (ratios @ other), rtol=1e-11)
            np.testing.assert_array_equal(totals[[0, 5]], -1.0)
        if 1 in which:
            np.testing.assert_allclose(gains - 1.0, ratios.T @ factor[1:5], rtol=1e-11, atol=1e-12)


def test_expected_totals_of_batches(rng: np.random.Generator) -> None:
    """Σ over the samples of a batch of Σ_k h_nk w_fk, of both algorithms."""
    data = CountMatrix.build(rng.poisson(3.0, (9, 5))).weighted(
        CellWeights(np.ones((2, 5)), np.arange(9, dtype=np.int32) % 2)
    )
    for algorithm in (CoordinateDescent(2, "random", ENGINE), Multiplicative(2, "random", ENGINE)):
        state = algorithm.init(Key(0), data)
        expected = np.asarray(state.activations) @ state.dictionary.T
        found = algorithm.expected_in_groups(data, state)
        np.testing.assert_allclose(found, np.stack([expected[group::2].sum(axis=0) for group in range(2)]), rtol=1e-10)
