"""Sweeps against what they must equal: EM, variational GaP, the two problems of rank 1; kernels against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import psi

from partwise import ebpm
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.empirical_bayes import kernels
from partwise.empirical_bayes.inference.rates import EmpiricalBayesState, Factor
from partwise.empirical_bayes.inference.starts import FirstState
from partwise.empirical_bayes.inference.sweep import Problem, Settings, Sweeps, sweep, without_collapsed
from partwise.empirical_bayes.model import EmpiricalBayesModel
from partwise.engines.local import LocalEngine
from partwise.gamma_poisson.inference.m_steps import conditional_step
from partwise.gamma_poisson.inference.vem import GammaPosterior, MeanField, VariationalEM
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.passes.side import Side
from partwise.poisson.inference.multiplicative import Multiplicative
from partwise.priors.families import FAMILIES, resolve_family
from partwise.priors.mixture import GammaMixture

Floats = NDArray[np.float64]
ENGINE = LocalEngine()


def start_of(X: np.ndarray, n_components: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(3)
    return rng.gamma(2.0, 1.0, (X.shape[0], n_components)), rng.gamma(2.0, 1.0, (n_components, X.shape[1]))


@pytest.mark.parametrize("hidden", [False, True])
def test_flat_priors_give_the_em_step_of_poisson_factorization_to_the_bit(
    hidden: bool, small_counts: np.ndarray, small_missing: np.ndarray
) -> None:
    data = CountMatrix.build(np.where(small_missing & hidden, np.nan, small_counts), integers=False)
    start = start_of(small_counts, 4)
    em = Multiplicative(4, start, ENGINE)
    state = em.init(Key(0), data)
    settings = Settings(FAMILIES["flat"], FAMILIES["flat"])
    sweeps = Sweeps(settings, FirstState(settings, 4, start, ENGINE), ENGINE)
    ours = sweeps.init(Key(0), data)
    # The start takes the first sweep.
    state, _ = em.step(Key(0).at(1), data, state)
    for iteration in range(1, 4):
        state, _ = em.step(Key(0).at(1), data, state)
        ours, _ = sweeps.step(Key(0).at(iteration), data, ours)
        for mine, its in ((ours.activations, state.activations), (ours.dictionary, state.dictionary)):
            np.testing.assert_array_equal(mine.mean, its)
            np.testing.assert_array_equal(mine.geometric, its)


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES if kind != "flat"])
def test_rank_one_is_two_problems_of_poisson_means(kind: str, small_counts: np.ndarray) -> None:
    data = CountMatrix.build(small_counts)
    family = resolve_family(kind)
    settings = Settings(family, family, ease=0.0)
    first = FirstState(settings, 1, start_of(small_counts, 1), ENGINE)
    result = run(Sweeps(settings, first, ENGINE), data, key=Key(0), max_iter=40, progress=False)
    state = result.state
    for factor, sums in ((state.activations, data.row_sums), (state.dictionary, data.column_sums)):
        np.testing.assert_allclose(factor.counts[:, 0], sums, rtol=1e-12)
        assert factor.exposure.shape == (1, 1)
        alone = ebpm(sums, factor.exposure[0], kind)
        # The same grid only where both began at the same exposure: fixed grids depend on it.
        if kind in ("gamma", "point-gamma", "two-gamma"):
            np.testing.assert_allclose(factor.mean[:, 0], alone.mean, rtol=1e-4)
        (prior,) = factor.priors(family)
        given = ebpm(sums, factor.exposure[0], prior)
        np.testing.assert_allclose(factor.mean[:, 0], given.mean, rtol=1e-12)
        np.testing.assert_allclose(factor.geometric[:, 0], np.exp(given.mean_log), rtol=1e-11)
    np.testing.assert_allclose(state.dictionary.exposure[0, 0], state.activations.mean.sum(), rtol=1e-12)
    # EB, 5.3: where the family is closed under scaling, one pass of Algorithm 5.1 is the end.
    if kind == "gamma":
        objective = result.trace["objective"]
        assert abs(objective[-1] - objective[1]) < 1e-6


def geometric_means(posterior: GammaPosterior) -> np.ndarray:
    return np.asarray(np.exp(psi(posterior.prior + posterior.counts) - np.log(posterior.rate)))


@pytest.mark.parametrize("hidden", [False, True])
def test_fixed_gamma_activations_with_a_flat_dictionary_are_variational_gap(
    hidden: bool, small_counts: np.ndarray, small_missing: np.ndarray
) -> None:
    data = CountMatrix.build(np.where(small_missing & hidden, np.nan, small_counts), integers=False)
    shape, rate = 0.7, 0.3
    model = GammaPoissonModel(start_of(small_counts, 3)[1].T.copy(), np.full(3, shape), np.full(3, rate))
    mean_field = MeanField(data, ENGINE)
    theirs = GammaPosterior(np.full((data.shape[0], 3), 1.3), np.full(3, shape), np.ones((1, 3)))
    activations = Factor.given(mean_field.means(theirs)[0])
    activations.geometric = geometric_means(theirs)
    settings = Settings(resolve_family(GammaMixture.gamma(shape, rate)), FAMILIES["flat"], prune=False)
    problem = Problem.of(data, settings, 3, ENGINE)
    state = EmpiricalBayesState(activations, Factor.given(model.dictionary), problem.constant(), np.zeros(0))
    state, elbo = sweep(problem, state)
    theirs, _, _ = mean_field.update(model, theirs)
    _, bound, _ = mean_field.update(model, theirs, with_bound=True)
    assert elbo == pytest.approx(bound, rel=1e-12)
    means, totals = mean_field.means(theirs)
    np.testing.assert_allclose(state.activations.mean, means, rtol=1e-12)
    np.testing.assert_allclose(state.activations.geometric, geometric_means(theirs), rtol=1e-11)
    exposure = Side(data.transposed, ENGINE).exposure(means, totals=totals)
    dictionary = conditional_step(mean_field.feature_counts(model, theirs)[0], exposure)
    held = dictionary > 1e-8
    np.testing.assert_allclose(state.dictionary.mean[held], dictionary[held], rtol=1e-10)


def test_variational_em_ends_where_sweeps_end(small_counts: np.ndarray) -> None:
    # Its steps are longer, as it moves the dictionary and the rates of the posterior together.
    data = CountMatrix.build(small_counts)
    shape, rate = np.full(2, 0.7), np.full(2, 1.0)
    start = start_of(small_counts, 2)[1].T.copy()
    vem = VariationalEM(shape=shape, rate=rate, start=start, engine=ENGINE)
    gap = run(vem, data, key=Key(0), max_iter=2000, progress=False)
    settings = Settings(resolve_family(GammaMixture.gamma(0.7, 1.0)), FAMILIES["flat"], prune=False)
    activations, _ = MeanField(data, ENGINE).means(gap.state.posterior)
    first = FirstState(settings, 2, (activations, gap.state.dictionary.T), ENGINE)
    ours = run(Sweeps(settings, first, ENGINE), data, key=Key(0), max_iter=2000, progress=False)
    found, theirs = ours.trace["objective"][-1], gap.trace["objective"][-1]
    assert found == pytest.approx(theirs, abs=1e-4)
    large = gap.state.dictionary > 1e-3
    np.testing.assert_allclose(ours.state.dictionary.mean[large], gap.state.dictionary[large], rtol=1e-2)


def test_kernels_are_their_numpy_lines(small_counts: np.ndarray, rng: np.random.Generator) -> None:
    data = CountMatrix.build(small_counts)
    X = small_counts.astype(np.float64)
    rows, columns = np.nonzero(X)
    factor, other = rng.gamma(1.0, 1.0, (40, 3)), rng.gamma(1.0, 1.0, (25, 3))
    rates = np.empty(data.nnz)
    kernels.cell_rates(data.indptr, data.indices, factor, other, 0, 40, rates)
    dense = factor @ other.T
    np.testing.assert_allclose(rates, dense[rows, columns], rtol=1e-13)
    out = np.empty(40)
    row, column = factor[:, 0].copy(), other[:, 0].copy()
    kernels.component_counts((data.indptr, data.indices, data.values), rates, row, column, 0, 40, out)
    np.testing.assert_allclose(out, row * ((X / dense) @ column), rtol=1e-12)
    new_row, new_column = rng.gamma(1.0, 1.0, 40), rng.gamma(1.0, 1.0, 25)
    kernels.replace_component(data.indptr, data.indices, (row, column), (new_row, new_column), 0, 40, rates)
    changed = dense + np.outer(new_row, new_column) - np.outer(row, column)
    np.testing.assert_allclose(rates, changed[rows, columns], rtol=1e-10)


def test_a_component_that_holds_nothing_is_taken_out(small_counts: np.ndarray) -> None:
    data = CountMatrix.build(small_counts)
    settings = Settings(FAMILIES["gamma"], FAMILIES["gamma"])
    activations, components = start_of(small_counts, 3)
    activations[:, 1] *= 1e-9
    first = FirstState(settings, 3, (activations, components), ENGINE)
    state = first.make(Key(0), data)
    problem = Problem.of(data, settings, 3, ENGINE)
    pruned = without_collapsed(problem, state)
    assert pruned.n_components == 2
    assert problem.elbo(pruned) >= problem.elbo(state)
    np.testing.assert_array_equal(pruned.activations.mean, state.activations.mean[:, [0, 2]])
    numbers = state.dictionary.numbers()
    np.testing.assert_array_equal(pruned.dictionary.prior_numbers, np.concatenate([numbers[0], numbers[2]]))


def test_model_simulates_from_its_priors() -> None:
    sparse = GammaMixture([0.5, 0.5], [np.inf, 4.0], [0.0, 2.0])
    model = EmpiricalBayesModel((sparse, GammaMixture.gamma(2.0, 1.0)), (sparse, sparse))
    counts, factors = model.simulate(Key(4), 4000, 6)
    assert isinstance(counts, sp.csr_array)
    assert counts.shape == (4000, 6)
    # Half of the first component is 0, to 5 binomial errors; means to 5 standard errors.
    assert abs(np.mean(factors.activations[:, 0] == 0) - 0.5) < 5 * 0.5 / np.sqrt(4000)
    assert abs(factors.activations[:, 1].mean() - 2.0) < 5 * np.sqrt(2.0 / 4000)
    total = factors.rates().sum()
    assert abs(counts.sum() - total) < 5 * np.sqrt(total)


def run_with(X: Any, threads: int, **parameters: Any) -> Any:
    from partwise import EmpiricalBayesPoissonNMF

    return EmpiricalBayesPoissonNMF(4, random_state=3, max_iter=15, tol=0.0, n_jobs=threads, **parameters).fit(X)


@pytest.mark.parametrize("inference", ["sweep", "component"])
def test_same_bits_for_any_number_of_threads(inference: str) -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.poisson(rng.gamma(0.3, 2.0, (900, 4)) @ rng.gamma(0.3, 1.0, (4, 500))))
    X[3, 5] = 7
    one, four = run_with(X, 1, inference=inference), run_with(X, 4, inference=inference)
    np.testing.assert_array_equal(one.components_, four.components_)
    np.testing.assert_array_equal(one.trace_["objective"], four.trace_["objective"])
    np.testing.assert_array_equal(one.transform(X[:50]), four.transform(X[:50]))
