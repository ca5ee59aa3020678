"""EM for Poisson factorization (Lee and Seung's multiplicative updates): monotone, and slow near the end."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.passes.side import FLOOR, Floors
from partwise.poisson.inference.passes import PoissonSide, step_by_rows
from partwise.poisson.inference.state import PoissonAlgorithm, PoissonState, start_factors
from partwise.priors.flat import FlatPrior

OBJECTIVE_EVERY = 10


@dataclass
class Multiplicative(PoissonAlgorithm):
    """E-step: expected allocations. M-step: the rate count / exposure of a flat prior. Activations come first.

    The log-likelihood is computed every tenth iteration, because a logarithm per nonzero costs as much as a pass.
    """

    def init(self, key: Key, data: SparseData) -> PoissonState:
        """The initial factors."""
        return start_factors(key, data, self.n_components, self.init_factors)

    def step(self, key: Key, data: SparseData, state: PoissonState) -> tuple[PoissonState, Mapping[str, float]]:
        """Update each factor once; report the log-likelihood between the two updates when it is due."""
        due = key.iteration % OBJECTIVE_EVERY == 0
        if data.by_rows:
            state, objective = step_by_rows(data, self.engine, state, max_sweeps=0, with_objective=due)
            return state, {"objective": objective} if due else {}
        samples, features = PoissonSide(data, self.engine), PoissonSide(data.transposed, self.engine)
        floors, before = Floors.of(data, self.n_components), samples.place(state.activations)
        state.activations, totals = samples.em_update(before, state.dictionary, FLOOR / self.n_components)
        counts, logs = features.expected_counts(state.dictionary, state.activations, with_logs=due)
        exposure = features.exposure(state.activations, totals=totals)
        info = {"objective": logs - float(np.sum(state.dictionary * exposure))} if due else {}
        state.dictionary = FlatPrior(floors.dictionary[:, None]).rates(counts, exposure)
        return state, info

    def rebase(self, state: PoissonState, change: float) -> None:
        """Nothing to do: the state stores no objective."""
