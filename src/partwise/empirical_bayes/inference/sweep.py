"""Algorithm 6.1 with q(Z) refreshed once for each factor: two passes over the data a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.empirical_bayes.inference.problem import EmpiricalBayesState, Problem, Settings, bound
from partwise.engines.base import Engine

# Expected counts in all the data below which a component holds nothing.
_NOTHING = 0.5


class First(Protocol):
    """Makes a state to start from."""

    def make(self, key: Key, data: SparseData) -> EmpiricalBayesState:
        """Factors and priors before the first sweep."""


@dataclass
class Sweeps:
    """All activations from one q(Z), then the whole dictionary from the next. With flat priors this is EM.

    The first step makes the start: a run that is resumed need not make it again.
    """

    settings: Settings
    first: First
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> EmpiricalBayesState:
        """Nothing yet."""
        return EmpiricalBayesState.empty()

    def step(
        self, key: Key, data: SparseData, state: EmpiricalBayesState
    ) -> tuple[EmpiricalBayesState, Mapping[str, float]]:
        """One sweep; reports the ELBO that it found, and the number of components."""
        if state.n_components == 0:
            state = self.first.make(key.at(0), data)
        problem = Problem.of(data, self.settings, state.n_components, self.engine)
        state, elbo = self.sweep(problem, state, key.iteration % 2)
        if self.settings.prune:
            state = without_collapsed(problem, state)
        return state, {"objective": elbo, "n_components": float(state.n_components)}

    def sweep(self, problem: Problem, state: EmpiricalBayesState, turn: int) -> tuple[EmpiricalBayesState, float]:
        """Every factor once, and the ELBO between the two.

        Priors take turns, half of them at each sweep: they settle long before the factors do, and to find them is most
        of the work.
        """
        return sweep(problem, state, turn)


def sweep(problem: Problem, state: EmpiricalBayesState, turn: int | None = None) -> tuple[EmpiricalBayesState, float]:
    """Activations, then dictionary; the ELBO is that between the two."""
    samples, features = problem.samples, problem.features
    activations, dictionary = state.activations, state.dictionary
    geometric = samples.passes.place(activations.geometric)
    counts, _ = samples.passes.expected_counts(geometric, dictionary.geometric)
    activations = samples.solve(counts, samples.exposure(*features.weighted(dictionary.mean)), activations, turn)
    counts, logs = features.passes.expected_counts(dictionary.geometric, activations.geometric, with_logs=True)
    exposure = features.exposure(*samples.weighted(activations.mean))
    elbo = bound(logs, float(np.sum(dictionary.mean * exposure)), activations, dictionary, state.constant)
    dictionary = features.solve(counts, exposure, dictionary, turn)
    return EmpiricalBayesState(activations, dictionary, state.constant, state.grown), elbo


def without_collapsed(problem: Problem, state: EmpiricalBayesState) -> EmpiricalBayesState:
    """The state without components that hold less than half a count, unless the ELBO is higher with them."""
    held = state.dictionary.counts.sum(axis=0) >= _NOTHING
    if held.all() or not held.any():
        return state
    kept = problem.only(state, np.flatnonzero(held))
    return kept if problem.elbo(kept) >= problem.elbo(state) else state
