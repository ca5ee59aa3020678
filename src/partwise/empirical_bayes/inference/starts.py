"""How a factorization starts: from maximum likelihood, or by adding one part after the other."""

from dataclasses import dataclass, field

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.core.stopping import SmallChange
from partwise.empirical_bayes.inference.component import CellRates
from partwise.empirical_bayes.inference.rates import EmpiricalBayesState, Factor
from partwise.empirical_bayes.inference.sweep import Problem, Settings, Sweeps, sweep
from partwise.engines.base import Engine
from partwise.kernels.arrays import Floats
from partwise.poisson.inference.coordinate import CoordinateDescent
from partwise.poisson.inference.state import PoissonState, Start, start_factors

_TOL, _MOST_ITERATIONS = 1e-5, 200
_GROWTH_SWEEPS = 30


@dataclass(frozen=True)
class FirstState:
    """Builds the state before the first sweep.

    Attributes
    ----------
    n_components
        Number of parts; for a greedy start, the largest number.
    init
        ``"poisson"``: a Poisson factorization by maximum likelihood; ``"greedy"``: add parts while the ELBO rises; or a
        start of Poisson factorization, which is used as it is.
    """

    settings: Settings
    n_components: int
    init: Start
    engine: Engine = field(compare=False)

    def make(self, key: Key, data: SparseData) -> EmpiricalBayesState:
        """The factors of the start, and priors for them."""
        if isinstance(self.init, str) and self.init == "greedy":
            return self._grown(key, data)
        if isinstance(self.init, str) and self.init == "poisson":
            found = maximum_likelihood(key, data, self.n_components, self.engine)
        else:
            found = start_factors(key, data, self.n_components, self.init)
        return self._with_priors(data, found)

    def _grown(self, key: Key, data: SparseData) -> EmpiricalBayesState:
        """Add parts, each from the counts that exceed the expectation of the others, until the ELBO does not rise."""
        state = self._with_priors(data, maximum_likelihood(key, data, 1, self.engine))
        state, elbo = self._swept(key, data, state)
        grown = [elbo]
        while state.n_components < self.n_components:
            problem = Problem.of(data, self.settings, state.n_components, self.engine)
            excess = _excess(problem, state)
            if excess.nnz == 0:
                break
            new = maximum_likelihood(key.at(state.n_components), excess, 1, self.engine)
            activations, dictionary = _without_scales(problem, new)
            more = Factor.joined([state.activations, activations]), Factor.joined([state.dictionary, dictionary])
            joined = EmpiricalBayesState(*more, state.constant, state.grown)
            larger, elbo = self._swept(key, data, joined)
            grown.append(elbo)
            if elbo <= grown[-2]:
                break
            grew = larger.n_components > state.n_components
            state = larger
            if not grew:
                break
        state.grown = np.array(grown)
        return state

    def _with_priors(self, data: SparseData, found: PoissonState) -> EmpiricalBayesState:
        problem = Problem.of(data, self.settings, found.activations.shape[1], self.engine)
        activations, dictionary = _without_scales(problem, found)
        return sweep(problem, EmpiricalBayesState(activations, dictionary, problem.constant(), np.zeros(0)))[0]

    def _swept(self, key: Key, data: SparseData, state: EmpiricalBayesState) -> tuple[EmpiricalBayesState, float]:
        """The state after some sweeps, and its ELBO."""
        algorithm, rule = Sweeps(self.settings, self, self.engine), SmallChange(_TOL, data.total)
        swept: EmpiricalBayesState = run(
            algorithm, data, key=key, max_iter=_GROWTH_SWEEPS, convergence=rule, progress=False, initial_state=state
        ).state
        return swept, Problem.of(data, self.settings, swept.n_components, self.engine).elbo(swept)


def maximum_likelihood(key: Key, data: SparseData, n_components: int, engine: Engine) -> PoissonState:
    """Poisson factorization without priors, accurate enough for a start."""
    algorithm, rule = CoordinateDescent(n_components, "random", engine), SmallChange(_TOL, data.total, patience=2)
    key = key.for_stage("start")
    found = run(algorithm, data, key=key, max_iter=_MOST_ITERATIONS, convergence=rule, progress=False).state
    # In this process, wherever the engine has them.
    return PoissonState(np.asarray(found.activations), found.dictionary)


def _without_scales(problem: Problem, found: PoissonState) -> tuple[Factor, Factor]:
    """Both factors, with the known factors of their rows divided out."""
    return (
        Factor.given(_divided(found.activations, problem.samples.scales)),
        Factor.given(_divided(found.dictionary, problem.features.scales)),
    )


def _divided(values: Floats, scales: Floats | None) -> Floats:
    return values if scales is None else values / np.where(scales > 0, scales, 1.0)[:, None]


def _excess(problem: Problem, state: EmpiricalBayesState) -> SparseData:
    """Counts minus their expectation under a state, where positive."""
    rates = CellRates(problem.samples)
    means = (problem.samples.weighted(state.activations.mean), problem.features.weighted(state.dictionary.mean))
    rates.fill(*(np.asarray(mean) for mean, _ in means))
    data = problem.samples.data
    expected = rates.values
    if data.weights is not None:
        rows = data.weights.groups_of_rows(0, data.shape[0])
        expected = expected * data.weights.values[np.repeat(rows, np.diff(data.indptr)), data.indices]
    excess = data.values - expected
    return data.with_values(excess).only(excess > 0)
