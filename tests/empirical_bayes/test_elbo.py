"""The ELBO: equal to its definition by quadrature, below the log marginal likelihood, and never falling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from elbo_reference import direct_elbo, log_marginal, support
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.empirical_bayes.inference.component import ComponentSweeps
from partwise.empirical_bayes.inference.rates import EmpiricalBayesState
from partwise.empirical_bayes.inference.starts import FirstState
from partwise.empirical_bayes.inference.sweep import Problem, Settings, Sweeps
from partwise.engines.local import LocalEngine
from partwise.priors.exponential_mixture import ExponentialMixture
from partwise.priors.families import FAMILIES, resolve_family
from partwise.priors.mixture import GammaMixture

Floats = NDArray[np.float64]

ENGINE = LocalEngine()
ONE = np.array([[3.0]])
TWO = np.array([[4.0, 0.0], [1.0, 2.0]])
WIDE = GammaMixture([0.4, 0.6], [0.8, 2.5], [0.3, 2.0])
LEARNT = ["exponential-mixture", "gamma", "two-gamma", "nonparametric"]
POINTS = GammaMixture.points([0.1, 0.9, 2.5], [0.5, 0.3, 0.2])


def fitted(
    X: Any, prior: Any, n_components: int, n_sweeps: int, algorithm: type[Sweeps] = Sweeps, **settings: Any
) -> tuple[CountMatrix, Settings, EmpiricalBayesState, Floats]:
    """Data, settings, the state after some sweeps, and the ELBO at each."""
    data = CountMatrix.build(X, integers=False)
    family = resolve_family(prior)
    chosen = Settings(family, family, **settings)
    rng = np.random.default_rng(5)
    start = (rng.gamma(2.0, 1.0, (data.shape[0], n_components)), rng.gamma(2.0, 1.0, (n_components, data.shape[1])))
    first = FirstState(chosen, n_components, start, ENGINE)
    result = run(algorithm(chosen, first, ENGINE), data, key=Key(0), max_iter=n_sweeps, progress=False)
    return data, chosen, result.state, result.trace["objective"]


def parts(state: EmpiricalBayesState, settings: Settings) -> list[tuple[list[Any], Floats, Floats]]:
    families = settings.activation_family, settings.dictionary_family
    factors = state.activations, state.dictionary
    return [(f.priors(family), f.counts, f.exposure) for f, family in zip(factors, families, strict=True)]


@pytest.mark.parametrize("algorithm", [Sweeps, ComponentSweeps])
@pytest.mark.parametrize("prior", [WIDE, POINTS, *LEARNT], ids=["wide", "points", *LEARNT])
@pytest.mark.parametrize(("X", "n_components"), [(ONE, 1), (ONE, 2), (TWO, 1), (TWO, 2)])
def test_elbo_is_what_it_is_defined_as(X: Floats, n_components: int, prior: Any, algorithm: type[Sweeps]) -> None:
    data, settings, state, _ = fitted(X, prior, n_components, 3, algorithm)
    found = Problem.of(data, settings, n_components, ENGINE).elbo(state)
    activations, dictionary = parts(state, settings)
    assert found == pytest.approx(direct_elbo(X, activations, dictionary), rel=1e-8, abs=1e-8)


def test_the_papers_own_formula_is_seen_to_be_wrong() -> None:
    # Planted: EB's B.2 as printed sums -<l><f> + X log Σ exp(...) over ijk, the second term K times.
    data, settings, state, _ = fitted(TWO, WIDE, 2, 3)
    problem = Problem.of(data, settings, 2, ENGINE)
    rates = state.activations.geometric @ state.dictionary.geometric.T
    printed = problem.elbo(state) + float(xlogy(TWO, rates).sum())
    activations, dictionary = parts(state, settings)
    assert abs(printed - direct_elbo(TWO, activations, dictionary)) > 0.1


@pytest.mark.parametrize(("X", "n_components"), [(ONE, 1), (ONE, 2), (TWO, 1), (TWO, 2)])
def test_elbo_is_below_the_exact_marginal_likelihood(X: Floats, n_components: int) -> None:
    data, settings, state, _ = fitted(X, POINTS, n_components, 100)
    elbo = Problem.of(data, settings, n_components, ENGINE).elbo(state)
    exact = log_marginal(X, [POINTS] * n_components, [POINTS] * n_components)
    assert exact - 3.0 < elbo < exact


def test_elbo_is_below_the_exact_marginal_likelihood_of_gammas() -> None:
    data, settings, state, _ = fitted(ONE, WIDE, 1, 100)
    rates, masses = support(WIDE)
    kept = masses > 1e-14
    rates, masses = rates[kept][::20], masses[kept][::20] * 20
    expected = np.outer(rates, rates)
    exact = np.log(masses @ np.exp(xlogy(3.0, expected) - expected - gammaln(4.0)) @ masses)
    elbo = Problem.of(data, settings, 1, ENGINE).elbo(state)
    assert exact - 1.0 < elbo < exact


def case(number: int) -> tuple[Any, dict[str, Any]]:
    """Data and settings of a fit: with empty rows and columns, missing cells, reals, large counts."""
    rng = np.random.default_rng(number)
    shape = int(rng.integers(1, 15)), int(rng.integers(1, 12))
    rates = rng.gamma(0.4, 5.0, (shape[0], 3)) @ rng.gamma(0.4, 1.0, (3, shape[1]))
    X = rng.poisson(rates * rng.choice([1.0, 1000.0])).astype(np.float64)
    X[0, 0] += 1.0
    if rng.random() < 0.3:
        X *= rng.random(shape)
    if rng.random() < 0.3:
        X[rng.random(shape) < 0.2] = np.nan
        X[0, 0] = 1.0
    scaled = {"size_factors": bool(rng.random() < 0.3), "background": bool(rng.random() < 0.3)}
    return X, {"n_components": int(rng.integers(1, 5)), **scaled}


def worst_fall(number: int) -> tuple[float, str]:
    """The largest relative fall of the ELBO from sweep to sweep of one fit."""
    X, settings = case(number)
    families = list(FAMILIES)
    prior = families[number % len(families)]
    algorithm = (Sweeps, ComponentSweeps)[(number // len(families)) % 2]
    _, _, _, elbo = fitted(X, prior, settings.pop("n_components"), 30, algorithm, **settings)
    assert np.isfinite(elbo).all()
    falls = -np.diff(elbo) / (1.0 + np.abs(elbo[:-1]))
    return float(falls.max()), f"{number}: {prior}, {algorithm.__name__}"


@pytest.mark.parametrize("number", range(21))
def test_elbo_never_falls(number: int) -> None:
    assert worst_fall(number)[0] < 1e-8


@pytest.mark.slow
def test_elbo_never_falls_over_a_hundred_fits() -> None:
    worst = max(worst_fall(number) for number in range(100, 212))
    assert worst[0] < 1e-8, worst


def test_a_grid_made_anew_at_every_sweep_would_be_seen() -> None:
    # Planted: priors that forget where they started.
    class Forgetful:
        def __init__(self) -> None:
            self._family = ExponentialMixture(ratio=6.0)

        def fit(self, counts: Floats, exposure: Floats, start: Any = None) -> Any:
            return self._family.fit(counts, exposure)

        def pack(self, prior: Any) -> Floats:
            return self._family.pack(prior)

        def unpack(self, numbers: Floats) -> Any:
            return self._family.unpack(numbers)

    falls = []
    for number in range(3):
        X, settings = case(number)
        elbo = fitted(X, Forgetful(), settings["n_components"], 15)[-1]
        falls.append(-np.diff(elbo).min(initial=0.0))
    assert max(falls) > 1e-6
