"""EM with an exact E-step, for small problems: the reference for all Monte Carlo variants."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.gamma_poisson.inference import m_steps
from partwise.gamma_poisson.inference.starts import perturbed_dictionary
from partwise.gamma_poisson.model import GammaPoissonModel, MarginalEM, column_norms
from partwise.kernels.arrays import Floats
from partwise.likelihood.exact import LATTICE, SUBCOUNT, exact_cost
from partwise.likelihood.moments import posterior_moments

# Multiply-adds for the likelihoods of all data: a few milliseconds. An E-step takes a few times as long.
_CHEAP = 1e7


def is_cheap(data: SparseData, model: GammaPoissonModel, n_jobs: int | None) -> bool:
    """Whether an exact E-step costs almost nothing."""
    cost = exact_cost(data, model.dictionary, model.shape, model.rate, n_jobs=n_jobs)
    return bool(cost.costs[:, [LATTICE, SUBCOUNT]].min(axis=1).sum() <= _CHEAP)


@dataclass
class ExactState:
    """Dictionary and shapes."""

    dictionary: Floats
    shape: Floats


@dataclass(kw_only=True)
class ExactEM(MarginalEM):
    """EM-C (GaP, Eq. 37) with exact expected allocations, from the lattice.

    If shapes are estimated, updates of the dictionary and of the shapes alternate: each increases the likelihood, but
    both at once might not.
    """

    n_jobs: int | None = field(compare=False)

    def init(self, key: Key, data: SparseData) -> ExactState:
        """A perturbed start: the even one is a stationary point."""
        dictionary = perturbed_dictionary(key, data, self.shape, self.rate) if self.start is None else self.start.copy()
        return ExactState(dictionary, self.shape.copy())

    def step(self, key: Key, data: SparseData, state: ExactState) -> tuple[ExactState, Mapping[str, float]]:
        """One update; reports the exact log-likelihood before it."""
        moments = posterior_moments(data, state.dictionary, state.shape, self.rate, n_jobs=self.n_jobs)
        if self.estimate_shape and key.iteration % 2 == 0:
            state.shape = m_steps.shape_of_mean_log(np.log(self.rate) + moments.log_activations.mean(axis=0))
        else:
            counts = np.empty_like(state.dictionary)
            for k in range(self.shape.size):
                counts[:, k] = np.bincount(data.indices, weights=moments.allocations[:, k], minlength=data.shape[1])
            counts += m_steps.expected_missing(data, state.dictionary, moments.activations, self.engine)
            state.dictionary = m_steps.marginal_step(counts, data.shape[0], state.shape, self.rate)
        return state, {"objective": float(moments.log_likelihood.sum()), **column_norms(state.dictionary)}
