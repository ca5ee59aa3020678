"""Pieces of empirical Bayes sweeps beside plain NumPy: priors that take turns, known scales, parts put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, xlogy

from partwise import EmpiricalBayesPoissonNMF
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.empirical_bayes.inference import sweep as sweep_module
from partwise.empirical_bayes.inference.activations import expected_counts
from partwise.empirical_bayes.inference.component import ComponentSweeps
from partwise.empirical_bayes.inference.rates import EmpiricalBayesState, Factor, _columns, posteriors
from partwise.empirical_bayes.inference.starts import FirstState, _divided, _excess
from partwise.empirical_bayes.inference.sweep import Problem, Settings, Sweeps, sweep, without_collapsed
from partwise.engines.blocks import Block
from partwise.engines.local import LocalEngine
from partwise.passes.side import FLOOR
from partwise.priors.families import resolve_family
from partwise.priors.mixture import GammaMixture

ENGINE = LocalEngine()
GAMMA = resolve_family("gamma")
HIDDEN = np.random.default_rng(5).random((40, 25)) < 0.15


def problem_of(X: np.ndarray, n_components: int, **options: Any) -> tuple[Problem, CountMatrix]:
    data = CountMatrix.build(X)
    return Problem.of(data, Settings(GAMMA, GAMMA, **options), n_components, ENGINE), data


def first_state(problem: Problem, rng: np.random.Generator, n_components: int) -> EmpiricalBayesState:
    n_samples, n_features = problem.samples.data.shape
    factors = [Factor.given(rng.gamma(2.0, size=(size, n_components))) for size in (n_samples, n_features)]
    return sweep(problem, EmpiricalBayesState(*factors, problem.constant(), np.zeros(0)))[0]


def test_priors_take_turns(small_counts: np.ndarray, rng: np.random.Generator) -> None:
    problem, data = problem_of(small_counts, 5)
    state = first_state(problem, rng, 5)
    for turn in (0, 1):
        after, _ = sweep(problem, state, turn)
        for before, now in ((state.activations, after.activations), (state.dictionary, after.dictionary)):
            same = [np.array_equal(*pair) for pair in zip(before.numbers(), now.numbers(), strict=True)]
            assert same == [k % 2 != turn for k in range(5)]
            # every posterior is new, under whichever prior
            assert not np.isclose(before.mean, now.mean, rtol=1e-12).all(axis=0).any()
            mean, geometric, divergence = posteriors(now.counts, now.exposure, now.priors(GAMMA), ENGINE)
            np.testing.assert_allclose(now.mean, mean, rtol=1e-12)
            np.testing.assert_allclose(now.geometric, geometric, rtol=1e-12)
            np.testing.assert_allclose(now.divergence, divergence, rtol=1e-9)
    assert data.total == small_counts.sum()


def test_the_turn_is_the_parity_of_the_iteration(small_counts: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(GAMMA, GAMMA)
    algorithm = Sweeps(settings, FirstState(settings, 2, "random", ENGINE), ENGINE)
    turns: list[Any] = []
    original = sweep_module.sweep

    def watched(problem: Problem, state: EmpiricalBayesState, turn: int | None = None) -> Any:
        turns.append(turn)
        return original(problem, state, turn)

    monkeypatch.setattr(sweep_module, "sweep", watched)
    data = CountMatrix.build(small_counts)
    state = algorithm.init(Key(0), data)
    assert state.n_components == 0
    assert state.activations.mean.size == state.dictionary.mean.size == 0
    for iteration in range(1, 6):
        state, info = algorithm.step(Key(0).at(iteration), data, state)
    assert turns == [1, 0, 1, 0, 1]
    assert info["n_components"] == 2.0


def test_expected_counts_of_sweeps_are_the_data(small_counts: np.ndarray) -> None:
    X = np.where(HIDDEN, np.nan, small_counts)
    settings = Settings(GAMMA, GAMMA, prune=False)
    sweeps = Sweeps(settings, FirstState(settings, 3, "random", ENGINE), ENGINE)
    data, elbos = CountMatrix.build(X), []
    state = sweeps.init(Key(0), data)
    for iteration in range(1, 6):
        state, info = sweeps.step(Key(0).at(iteration), data, state)
        elbos.append(info["objective"])
        np.testing.assert_allclose(state.activations.counts.sum(axis=1), np.nansum(X, axis=1), rtol=1e-9)
        np.testing.assert_allclose(state.dictionary.counts.sum(axis=1), np.nansum(X, axis=0), rtol=1e-9)
        observed = (~HIDDEN).T @ np.asarray(state.activations.mean)
        np.testing.assert_allclose(state.dictionary.exposure, observed, rtol=1e-9)
    assert np.diff(elbos).min() > -1e-6 * abs(elbos[0])


def test_a_sweep_by_components_is_one_problem_of_rank_1_after_the_other(
    small_counts: np.ndarray, rng: np.random.Generator
) -> None:
    X = np.where(HIDDEN, np.nan, small_counts)
    problem, _ = problem_of(X, 3)
    state, seen = first_state(problem, rng, 3), np.nan_to_num(X)
    samples, features = problem.samples, problem.features
    rows = [state.activations.only(np.array([k]), samples.columns) for k in range(3)]
    columns = [state.dictionary.only(np.array([k]), features.columns) for k in range(3)]
    for k in range(3):
        rates = sum(row.geometric @ column.geometric.T for row, column in zip(rows, columns, strict=True))
        shares = seen / rates * (rows[k].geometric @ columns[k].geometric.T)
        by_sample, by_feature = shares.sum(axis=1, keepdims=True), shares.sum(axis=0)[:, None]
        columns[k] = features.solve(by_feature, (~HIDDEN).T @ rows[k].mean, columns[k])
        rows[k] = samples.solve(by_sample, ~HIDDEN @ columns[k].mean, rows[k])
    settings = Settings(GAMMA, GAMMA)
    algorithm = ComponentSweeps(settings, FirstState(settings, 3, "random", ENGINE), ENGINE)
    after, elbo = algorithm.sweep(problem, state, 0)
    for found, parts in ((after.activations, rows), (after.dictionary, columns)):
        for name in ("mean", "geometric", "counts", "exposure"):
            expected = np.concatenate([np.asarray(getattr(part, name)) for part in parts], axis=1)
            np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-6, err_msg=name)
    assert elbo == pytest.approx(problem.elbo(after), rel=1e-12)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("size_factors", "background"), [(True, False), (False, True), (True, True)])
def test_known_scales(small_counts: np.ndarray, hidden: bool, size_factors: bool, background: bool) -> None:
    observed = ~(HIDDEN & hidden)
    X = np.where(observed, small_counts, np.nan)
    problem, data = problem_of(X, 2, size_factors=size_factors, background=background)
    sizes, other = problem.samples.scales, problem.features.scales
    seen, constant = np.nan_to_num(X), -gammaln(np.nan_to_num(X) + 1.0).sum()
    assert (sizes is None, other is None) == (not size_factors, not background)
    if sizes is not None:
        expected = seen.sum(axis=1) / (observed @ (seen.sum(axis=0) / seen.sum()))
        np.testing.assert_allclose(sizes, expected / expected.mean(), rtol=1e-10)
        constant += (seen.sum(axis=1) * np.log(sizes)).sum()
    if other is not None:
        weights = np.ones(40) if sizes is None else sizes
        expected = seen.sum(axis=0) / (observed.T @ weights)
        np.testing.assert_allclose(other, expected / expected.mean(), rtol=1e-10)
        constant += xlogy(seen.sum(axis=0), np.where(other > 0, other, 1.0)).sum()
    assert problem.constant() == pytest.approx(constant, rel=1e-12)
    # Exposures have the known factors of both sides in them.
    mean = np.random.default_rng(0).gamma(1.0, size=(25, 2))
    weighted, totals = problem.features.weighted(mean)
    scaled = mean if other is None else mean * other[:, None]
    np.testing.assert_allclose(weighted, scaled, rtol=1e-12)
    np.testing.assert_allclose(totals, scaled.sum(axis=0), rtol=1e-12)
    exposure = (observed @ scaled) * (1.0 if sizes is None else sizes[:, None])
    found = np.broadcast_to(problem.samples.exposure(weighted, totals), exposure.shape)
    np.testing.assert_allclose(found, exposure, rtol=1e-9)
    assert data.n_missing == (~observed).sum()


def test_scales_without_counts_are_harmless() -> None:
    X = np.array([[3, 0, 1], [0, 0, 0], [2, 0, 5]])
    problem, _ = problem_of(X, 1, size_factors=True, background=True)
    assert problem.samples.scales is not None
    assert problem.samples.scales[1] == 0.0
    assert np.isfinite(problem.constant())
    np.testing.assert_array_equal(_divided(np.ones((3, 1)), problem.samples.scales)[1], 1.0)
    np.testing.assert_allclose(
        _divided(np.ones((3, 1)), problem.samples.scales)[[0, 2], 0], 1.0 / problem.samples.scales[[0, 2]]
    )


def test_factors_are_taken_apart_and_put_together(small_counts: np.ndarray, rng: np.random.Generator) -> None:
    problem, _ = problem_of(small_counts, 4)
    state = first_state(problem, rng, 4)
    parts = [state.dictionary.only(np.array([k]), problem.features.columns) for k in range(4)]
    again = Factor.joined(parts)
    for name in ("mean", "geometric", "counts", "exposure", "divergence", "prior_numbers", "prior_sizes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(state.dictionary, name), err_msg=name)
        if name not in ("prior_numbers",):
            np.testing.assert_array_equal(getattr(parts[2], name)[..., 0], getattr(state.dictionary, name)[..., 2])
    for part, numbers in zip(parts, state.dictionary.numbers(), strict=True):
        np.testing.assert_array_equal(part.prior_numbers, numbers)
    two = problem.only(state, np.array([3, 1]))
    assert two.n_components == 2
    np.testing.assert_array_equal(two.activations.mean, np.asarray(state.activations.mean)[:, [3, 1]])
    np.testing.assert_array_equal(two.dictionary.mean, state.dictionary.mean[:, [3, 1]])


def test_a_component_that_holds_nothing_is_taken_out(small_counts: np.ndarray, rng: np.random.Generator) -> None:
    problem, _ = problem_of(small_counts, 3)
    state = first_state(problem, rng, 3)
    for _ in range(3):
        state, _ = sweep(problem, state)
    empty = problem.only(state, np.array([0, 1, 2, 2]))
    for factor in (empty.activations, empty.dictionary):
        factor.mean[:, 3] = factor.geometric[:, 3] = 1e-12
        factor.divergence[3] = 0.01
    empty.dictionary.counts[:, 3] = 0.4 / 25
    assert without_collapsed(problem, empty).n_components == 3
    empty.dictionary.counts[:, 3] = 0.6 / 25
    assert without_collapsed(problem, empty).n_components == 4, "it holds more than half a count"


def test_excess_is_what_counts_have_beyond_their_expectation(
    small_counts: np.ndarray, rng: np.random.Generator
) -> None:
    problem, _ = problem_of(small_counts, 2, size_factors=True)
    state = first_state(problem, rng, 2)
    assert problem.samples.scales is not None
    rates = (np.asarray(state.activations.mean) * problem.samples.scales[:, None]) @ state.dictionary.mean.T
    expected = np.where(small_counts > 0, np.maximum(small_counts - rates, 0.0), 0.0)
    np.testing.assert_allclose(_excess(problem, state).to_scipy().toarray(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shared", [True, False])
def test_activations_settle_at_a_fixed_point(small_counts: np.ndarray, rng: np.random.Generator, shared: bool) -> None:
    data = CountMatrix.build(small_counts)
    geometric = rng.gamma(1.0, size=(25, 3))
    exposure = rng.gamma(9.0, 3.0, size=(1 if shared else 40, 3))
    priors = [GammaMixture.gamma(shape, 0.4) for shape in (0.5, 1.0, 2.0)]
    counts = expected_counts(data, geometric, exposure, priors, ENGINE, tol=1e-8)
    np.testing.assert_allclose(counts.sum(axis=1), small_counts.sum(axis=1), rtol=1e-9)
    activations = posteriors(counts, exposure, priors, ENGINE)[1]
    again = activations * ((small_counts / (activations @ geometric.T)) @ geometric)
    assert np.abs(again - counts).max() < 1e-6 * small_counts.sum(axis=1).max()


def test_flat_priors_have_the_floors_of_poisson_factorization(small_counts: np.ndarray) -> None:
    data = CountMatrix.build(small_counts)
    flat = resolve_family("flat")
    problem = Problem.of(data, Settings(flat, flat), 4, ENGINE)
    np.testing.assert_allclose(problem.samples.floors, FLOOR / 4 * small_counts.sum(axis=1))
    solved = problem.samples.solve(np.zeros((40, 4)), np.ones((1, 4)), Factor.given(np.ones((40, 4))))
    np.testing.assert_allclose(solved.mean, np.tile(problem.samples.floors[:, None], 4))


def test_columns_that_stay_on_workers(rng: np.random.Generator) -> None:
    """Each block writes the columns that are kept of its own rows, in their order."""
    data, array, kept = CountMatrix.build(np.eye(6, 3)), rng.random((6, 3)), np.array([2, 0])
    out = np.full((6, 2), np.nan)
    for start, stop in ((0, 2), (2, 6)):
        assert _columns(Block(data, start, stop, 0), array, out, kept) == 0.0
    np.testing.assert_array_equal(out, array[:, kept])


@pytest.mark.filterwarnings("ignore:Did not converge")
@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
def test_parts_are_added_to_batches_of_any_shape(shape: tuple[int, int], rng: np.random.Generator) -> None:
    counts, batch = rng.poisson(2.0, size=shape), np.arange(shape[0]) % 2
    model = EmpiricalBayesPoissonNMF(2, init="greedy", prune=False, max_iter=3, random_state=0)
    activations = model.fit_transform(counts, batch=batch)
    np.testing.assert_allclose((activations @ model.components_).sum(), counts.sum(), rtol=0.2)
