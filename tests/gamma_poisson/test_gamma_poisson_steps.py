"""The pieces of Monte Carlo EM beside plain NumPy: M-steps, shapes, gains with their errors, averages over draws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, psi, xlogy

from partwise import CountMatrix, on_disk
from partwise.core.keys import Key
from partwise.core.weights import CellWeights
from partwise.engines import resolve_engine
from partwise.gamma_poisson import GammaPoissonModel
from partwise.gamma_poisson.inference import m_steps
from partwise.gamma_poisson.inference.gibbs import Averages, Chain, Drift, GainLedger, GibbsEStep, expected_gain
from partwise.gamma_poisson.inference.joint import normalised_rates
from partwise.gamma_poisson.inference.mcem import MonteCarloEM, StochasticApproximationEM
from partwise.gamma_poisson.inference.online import OnlineEM
from partwise.gamma_poisson.inference.starts import even_dictionary, perturbed_dictionary
from partwise.gamma_poisson.inference.sweeps import GibbsSweeps
from partwise.gamma_poisson.inference.thorough import Thorough, _due
from partwise.likelihood.moments import posterior_moments
from partwise.passes.side import Side

RNG = np.random.default_rng(8)
ENGINE = resolve_engine()
SHAPE, RATE = np.array([0.6, 2.5, 1.2]), np.array([0.5, 3.0, 1.0])
OLD = GammaPoissonModel(RNG.gamma(1.0, 2.0, size=(5, 3)), SHAPE, RATE)
NEW = GammaPoissonModel(OLD.dictionary * RNG.gamma(9.0, 0.1, size=(5, 3)), SHAPE * [1.3, 0.8, 1.1], RATE)
X = OLD.simulate(Key(3), 40).toarray()
HIDDEN = RNG.random(X.shape) < 0.25
WITH_HOLES = CountMatrix.build(np.where(HIDDEN, np.nan, X))


# What an update gains.


def log_allocations(model: GammaPoissonModel, allocations: np.ndarray, observed: np.ndarray) -> float:
    """Log p(C) of the observed cells, sample by sample and component by component."""
    total = 0.0
    for n, k in np.ndindex(allocations.shape[0], 3):
        cells = observed[n]
        shape, rate, weights = model.shape[k], model.rate[k], model.dictionary[cells, k]
        counts, whole = allocations[n, cells, k], weights.sum() + rate  # a negative multinomial (Theorem 1)
        total += gammaln(shape + counts.sum()) - gammaln(shape) - gammaln(counts + 1.0).sum()
        total += xlogy(counts, weights / whole).sum() + shape * np.log(rate / whole)
    return total


@pytest.mark.parametrize("new_shapes", [False, True])
def test_gains_are_those_of_the_allocations(rng: np.random.Generator, new_shapes: bool) -> None:
    new = NEW if new_shapes else GammaPoissonModel(NEW.dictionary, SHAPE, RATE)
    draws = rng.poisson(2.0, size=(2, 40, 5, 3))
    everywhere = np.ones(X.shape, bool)
    gains = [log_allocations(new, c, everywhere) - log_allocations(OLD, c, everywhere) for c in draws]
    totals = [c.sum(axis=1).astype(float) for c in draws] if new_shapes else []
    mean = draws.mean(axis=0)
    averages = Averages(mean.sum(axis=0), mean.sum(axis=1), None, totals)
    found = expected_gain(CountMatrix.build(X), ENGINE, OLD, new, averages)
    assert found == pytest.approx(np.mean(gains), rel=1e-9)


def test_gains_are_of_observed_cells(rng: np.random.Generator) -> None:
    new = GammaPoissonModel(NEW.dictionary, SHAPE, RATE)
    allocations = rng.poisson(2.0, size=(40, 5, 3)) * ~HIDDEN[:, :, None]
    gain = log_allocations(new, allocations, ~HIDDEN) - log_allocations(OLD, allocations, ~HIDDEN)
    averages = Averages(allocations.sum(axis=0) * 1.0, allocations.sum(axis=1) * 1.0, None, [])
    assert expected_gain(WITH_HOLES, ENGINE, OLD, new, averages) == pytest.approx(gain, rel=1e-9)


def test_a_ledger_adds_up_means_of_bounds_and_squares_of_half_their_distances(rng: np.random.Generator) -> None:
    lower, upper = rng.normal(size=(2, 6))
    ledger = GainLedger(-100.0)
    ledger.close(5.0)
    assert ledger.info == {"objective": -100.0, "objective_error": 0.0}, "there was no update before"
    for low, high in zip(lower, upper, strict=True):
        ledger.lower = low
        ledger.close(high)
    assert ledger.info["objective"] == pytest.approx(-100.0 + 0.5 * (lower + upper).sum())
    assert ledger.info["objective_error"] == pytest.approx(0.5 * np.sqrt(np.square(upper - lower).sum()))


def test_drift_is_a_mean_with_its_standard_error(rng: np.random.Generator) -> None:
    statistic = np.array([[2.0, 0.0], [5.0, 1.0]])
    left, right = statistic + rng.normal(size=(2, 7, 2, 2)) * (statistic > 0)
    held = statistic > 0
    gains = ((left - statistic) * (right - statistic))[:, held] @ (0.5 / statistic[held])
    noises = np.square(left - right)[:, held] @ (0.125 / statistic[held])
    drift = Drift()
    for n, pair in enumerate(zip(left, right, strict=True), start=1):
        drift.add(statistic, *pair, 100)
        assert drift.gain == pytest.approx(gains[:n].mean())
        assert drift.noise == pytest.approx(noises[:n].mean())
        assert drift.latest_noise == pytest.approx(noises[n - 1])
        assert drift.error == pytest.approx(np.std(gains[:n]) / np.sqrt(max(n - 1, 1)))
    short = Drift()
    for pair in zip(left, right, strict=True):
        short.add(statistic, *pair, 2)
    # the latest has weight 1/2, the one before 1/4, and so on, and the first two together what is left
    weights = 0.5 ** np.array([6, 6, 5, 4, 3, 2, 1])
    assert short.gain == pytest.approx(weights @ gains)
    assert short.noise == pytest.approx(weights @ noises)


def test_more_iterations_are_averaged_while_noise_costs_more_than_a_step_gains() -> None:
    assert Drift(gain=1.0, noise=10.1).averaged(10) == 11
    assert Drift(gain=1.0, noise=9.9).averaged(10) == 10
    assert Drift(gain=3.0, error=0.4, noise=10.0).averaged(10) == 9
    assert Drift(gain=3.0, error=0.6, noise=10.0).averaged(10) == 10
    assert Drift(gain=3.0, noise=0.0).averaged(1) == 1


# Shapes and dictionaries.


def test_values_are_counted(rng: np.random.Generator) -> None:
    values, times = rng.integers(5, size=30), rng.integers(1, 4, size=30)
    counted = m_steps.ValueCounts(values, times)
    np.testing.assert_array_equal(
        np.repeat(counted.values, counted.times.astype(int)), np.sort(np.repeat(values, times))
    )
    both = m_steps.ValueCounts(values) + m_steps.ValueCounts(times)
    np.testing.assert_array_equal(np.repeat(both.values, both.times.astype(int)), np.sort([*values, *times]))


def test_totals_of_draws_are_counted_by_component(rng: np.random.Generator) -> None:
    draws = [rng.poisson(3.0, size=(40, 3)).astype(float) for _ in range(2)]
    found, _ = Side(CountMatrix.build(X), ENGINE).map_rows(m_steps._drawn_totals, reads=draws)
    for k in range(3):
        values, times = np.unique(np.concatenate(draws)[:, k], return_counts=True)
        np.testing.assert_array_equal(found[k].values, values)
        np.testing.assert_array_equal(found[k].times, times)


def test_shapes_maximise_the_profile_likelihood(rng: np.random.Generator) -> None:
    totals = [rng.negative_binomial(a, 0.1, size=300) for a in (0.5, 2.0, 8.0)]
    found = m_steps.profile_shapes([*map(m_steps.ValueCounts, totals), m_steps.ValueCounts(np.zeros(9))], np.ones(4))
    for drawn, shape in zip(totals, found, strict=False):
        mean = drawn.mean()

        def loss(log_shape: float, drawn: np.ndarray = drawn, mean: float = mean) -> float:
            a = np.exp(log_shape)
            logs = gammaln(a + drawn) - gammaln(a) + a * np.log(a / (a + mean)) - mean * np.log(a + mean)
            return -float(logs.sum())

        assert shape == pytest.approx(np.exp(minimize_scalar(loss, bounds=(-5, 5)).x), rel=1e-3)
    assert found[3] == 1.0, "a component without counts keeps its shape"
    limits = [m_steps.ValueCounts(values) for values in (np.full(50, 4.0), np.array([0.0] * 10_000 + [1e9]))]
    np.testing.assert_array_equal(m_steps.profile_shapes(limits, np.ones(2)), [m_steps.LARGEST, m_steps.SMALLEST])


def test_shapes_have_the_mean_logarithm() -> None:
    shapes = np.geomspace(0.01, 100.0, 9)
    np.testing.assert_allclose(m_steps.shape_of_mean_log(psi(shapes)), shapes, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_columns_that_sum_to_1_are_stationary(rng: np.random.Generator, scale: float) -> None:
    counts, exposure = rng.gamma(1.0, scale, size=(6, 3)), rng.gamma(5.0, scale, size=(6, 3))
    rates = normalised_rates(counts, exposure)
    np.testing.assert_allclose(rates.sum(axis=0), 1.0, rtol=1e-8)
    multipliers = counts / rates - exposure
    np.testing.assert_allclose(multipliers, np.broadcast_to(multipliers[:1], (6, 3)), rtol=1e-6, atol=1e-6 * scale)
    shared = normalised_rates(counts, exposure[:1])
    np.testing.assert_allclose(shared, counts / counts.sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(normalised_rates(np.zeros((4, 1)), exposure[:1, :1]), 0.25)


def test_first_dictionaries_have_the_means_of_the_data() -> None:
    means = np.nanmean(np.where(HIDDEN, np.nan, X), axis=0)
    even = even_dictionary(WITH_HOLES, SHAPE, RATE)
    perturbed = perturbed_dictionary(Key(1), WITH_HOLES, SHAPE, RATE)
    np.testing.assert_allclose(even, np.outer(means, RATE / SHAPE) / 3, rtol=1e-12)
    np.testing.assert_allclose(perturbed @ (SHAPE / RATE), means, rtol=1e-12)
    assert np.abs(perturbed / even - 1.0).min() > 0.01, "all entries have noise"


def test_missing_cells_add_their_expectation(rng: np.random.Generator) -> None:
    activations = rng.gamma(1.0, size=(40, 3))
    expected = OLD.dictionary * (HIDDEN.T @ activations)
    found = m_steps.expected_missing(WITH_HOLES, OLD.dictionary, activations, ENGINE)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# Averages over draws.


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("expected", [False, True])
@pytest.mark.parametrize("smooth", [False, True])
def test_averages_are_those_of_sweeps_one_by_one(missing: bool, expected: bool, smooth: bool) -> None:
    data, observed = (WITH_HOLES, ~HIDDEN) if missing else (CountMatrix.build(X), np.ones(X.shape, bool))
    key, burn_in, n_draws = Key(5).at(7), 3, 4
    sampler = GibbsEStep(data, ENGINE, expected=expected, smooth=smooth, with_activations=True, with_totals=True)
    averages = sampler.run(key, Chain(Side(data, ENGINE).even_counts(3)), OLD, n_draws=n_draws, burn_in=burn_in)
    sweeps, inverse = GibbsSweeps(data, ENGINE), 1.0 / (RATE + observed @ OLD.dictionary)
    seen = np.where(observed, X, 0)
    counts = np.repeat(seen.sum(axis=1, keepdims=True) / 3, 3, axis=1)
    by_sample, by_feature, means = [], [], []
    for number in range(burn_in + n_draws):
        at = key.at((7 << 24) + number)
        activations = np.asarray(sweeps.activations(at, counts, SHAPE, inverse))
        counts, drawn = sweeps.allocations(at, activations, OLD.dictionary)
        by_sample.append(counts)
        ratios = seen / (activations @ OLD.dictionary.T)
        by_feature.append(OLD.dictionary * (ratios.T @ activations) if expected else drawn)
        means.append((SHAPE + counts) * inverse if smooth else activations)
    np.testing.assert_allclose(averages.sample_counts, np.mean(by_sample[burn_in:], axis=0), rtol=1e-10)
    np.testing.assert_allclose(averages.feature_counts, np.mean(by_feature[burn_in:], axis=0), rtol=1e-8)
    np.testing.assert_allclose(averages.activations, np.mean(means[burn_in:], axis=0), rtol=1e-8)
    assert len(averages.totals) == n_draws
    if not missing:
        np.testing.assert_allclose(averages.totals, by_sample[burn_in:])
    assert averages.before is not None
    np.testing.assert_allclose(averages.before.sample_counts, np.mean(by_sample[burn_in // 2 : burn_in], axis=0))


def test_missing_cells_are_in_the_totals_on_average() -> None:
    sampler = GibbsEStep(WITH_HOLES, ENGINE, with_totals=True)
    chain, gained = Chain(Side(WITH_HOLES, ENGINE).even_counts(3)), []
    for number in range(1000):
        averages = sampler.run(Key(2).at(number), chain, OLD, n_draws=1, burn_in=0)
        gained.append((np.asarray(averages.totals[0]) - np.asarray(averages.sample_counts)).sum(axis=0))
    moments = posterior_moments(WITH_HOLES, OLD.dictionary, SHAPE, RATE)
    expected = (moments.activations * (HIDDEN @ OLD.dictionary)).sum(axis=0)
    # Five standard errors, draws of a chain counting for a quarter of independent ones: false alarms in 1e-6 of seeds.
    errors = 2.0 * np.std(gained, axis=0) / np.sqrt(len(gained))
    assert np.abs((np.mean(gained, axis=0) - expected) / errors).max() < 5.0
    assert np.abs(expected / errors).min() > 20.0, "no draws at all would be seen"


def test_taken_rows_are_rows() -> None:
    data = replace(WITH_HOLES, row_labels=np.array([f"row {n}" for n in range(40)]))
    rows = np.array([7, 0, 39, 7])
    taken, dense = data.take(rows), np.where(HIDDEN, 0, X)
    np.testing.assert_array_equal(taken.to_scipy().toarray(), dense[rows])
    for place, n in enumerate(rows):
        missing = taken.missing_indices[taken.missing_indptr[place] : taken.missing_indptr[place + 1]]
        np.testing.assert_array_equal(missing, np.flatnonzero(HIDDEN[n]))
    assert list(taken.row_labels) == ["row 7", "row 0", "row 39", "row 7"]


# Iterations.


def online(**changes: int) -> OnlineEM:
    settings = {"batch_size": 15, "draws": 2, "burn_in": 1, **changes}
    return OnlineEM(shape=SHAPE, rate=RATE, estimate_shape=False, start=None, engine=ENGINE, **settings)


def test_online_em_expects_the_totals_of_every_group() -> None:
    """With factors of 1 these are the totals of the data, but for the noise of two draws and the pull of the prior."""
    groups = np.repeat([0, 1], [30, 10]).astype(np.int32)
    data, algorithm = CountMatrix.build(X).weighted(CellWeights(np.ones((2, 5)), groups)), online(draws=20)
    state = algorithm.init(Key(0), data)
    algorithm.absorb(Key(0), data, state)
    found, totals = algorithm.expected_in_groups(data, state), np.stack([X[:30].sum(axis=0), X[30:].sum(axis=0)])
    np.testing.assert_allclose(found, totals, rtol=0.2)


@pytest.mark.parametrize("by_rows", [False, True])
def test_a_pass_of_online_em_takes_every_sample_once(by_rows: bool, tmp_path: Path) -> None:
    data, algorithm = CountMatrix.build(X), online()
    stored = on_disk(X, tmp_path / "rows") if by_rows else data
    state = algorithm.init(Key(0), stored)
    means = X.mean(axis=0)
    # A Poisson factorization after 30 iterations has nearly the means of the features.
    np.testing.assert_allclose(state.statistic.sum(axis=1), means, rtol=1e-3)
    np.testing.assert_allclose(algorithm.model(state).mean(), state.statistic.sum(axis=1), rtol=1e-10)
    taken: list[np.ndarray] = []
    absorb = algorithm.absorb

    def watched(key: Key, batch: CountMatrix, own: object) -> float:
        dense = batch.to_scipy().toarray()
        before, seen = state.statistic.sum(axis=1), state.n_seen
        bound = absorb(key, batch, state)
        weight = (1.0 + seen / len(dense)) ** -0.7
        expected = (1.0 - weight) * before + weight * dense.mean(axis=0)
        np.testing.assert_allclose(state.statistic.sum(axis=1), expected, rtol=1e-9)
        taken.append(dense)
        return bound

    algorithm.absorb = watched  # type: ignore[method-assign]
    for number in range(2):
        taken.clear()
        for batch in range(3):
            state, info = algorithm.step(Key(0).at(3 * number + batch + 1), stored, state)
            assert np.isfinite(info["objective"])
        assert {len(dense) for dense in taken} <= {13, 14}
        assert sorted(np.concatenate(taken).tolist()) == sorted(X.tolist())
    assert state.n_seen == 80


def test_weights_of_draws() -> None:
    settings = {"shape": SHAPE, "rate": RATE, "estimate_shape": False, "start": None, "engine": ENGINE}
    steps = {"m_step": "c", "e_step": "sampled", "draws": 1, "burn_in": 0}
    assert MonteCarloEM(**settings, **steps)._weight(9) == 1.0
    averaging = StochasticApproximationEM(**settings, **steps, exploration=4, decay=0.6)
    weights = [averaging._weight(iteration) for iteration in range(1, 9)]
    np.testing.assert_allclose(weights, [1, 1, 1, 1, 1, 2**-0.6, 3**-0.6, 4**-0.6])


def test_auto_begins_to_average_with_what_its_dictionary_stands_for() -> None:
    data = CountMatrix.build(X)
    algorithm = Thorough(
        shape=SHAPE, rate=RATE, estimate_shape=False, start=None, n_starts=2, tol=0.0, n_jobs=1, engine=ENGINE
    )
    state = algorithm.init(Key(0), data)
    bounds = []
    for iteration in (1, 2):
        assert state.phase == "starts"
        state, info = algorithm.step(Key(0).at(iteration), data, state)
        bounds.append(info["objective"])
    assert bounds[1] >= bounds[0]
    assert state.phase == "sampling"
    again = m_steps.marginal_step(state.statistic, 40, state.shape, RATE)
    np.testing.assert_allclose(again, state.dictionary, rtol=1e-12)
    np.testing.assert_array_equal(state.old_dictionary, state.dictionary)
    # The gain of an update of stochastic EM keeps the means: rows of the statistic sum to those of the data.
    for iteration in (3, 4, 5):
        state, _ = algorithm.step(Key(0).at(iteration), data, state)
        again = m_steps.marginal_step(state.statistic, 40, state.shape, RATE)
        np.testing.assert_allclose(again, state.dictionary, rtol=1e-12)


def test_pauses_grow_fourfold() -> None:
    assert [n for n in range(2000) if _due(n, 20)] == [20, 80, 320, 1280]
