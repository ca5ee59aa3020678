"""Maximum joint likelihood of dictionary and activations (MJLE), the estimator that the marginal one improves on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.rows import Block, Made
from partwise.errors import AllComponentsPrunedError
from partwise.gamma_poisson.inference.starts import perturbed_dictionary
from partwise.gamma_poisson.model import GammaPoissonModel, column_norms
from partwise.poisson.inference.passes import Side
from partwise.poisson.inference.state import Floors, activation_floor

Floats = NDArray[np.float64]

OBJECTIVE_EVERY = 10
# The joint likelihood is unbounded where all activations of a component go to 0 and its rate to infinity.
LARGEST_RATE = 1e6


@dataclass
class JointState:
    """Dictionary with columns that sum to 1, activations, and the rate of each component's prior."""

    dictionary: Floats
    activations: Floats
    rates: Floats


@dataclass
class JointEM:
    """EM for log p(X, h | w, b) over all three (GaP, Eq. 3-6): KL-NMF with a penalty on activations.

    With b fixed and w free the problem has no solution, so columns of w sum to 1 and b is free. Shapes must be at least
    1: below, the likelihood is unbounded at activations of 0.
    """

    shape: Floats
    rate: Floats
    start: Floats | None
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> JointState:
        """A perturbed start with columns that sum to 1, each sample's total spread evenly."""
        ones = np.ones_like(self.shape)
        dictionary = perturbed_dictionary(key, data, ones, ones) if self.start is None else self.start
        activations = np.maximum(Side(data, self.engine).even_counts(ones.size), self._floors(data))
        return JointState(dictionary / dictionary.sum(axis=0), activations, self._rates(activations))

    def step(self, key: Key, data: SparseData, state: JointState) -> tuple[JointState, Mapping[str, float]]:
        """Activations, rates, then dictionary; every tenth reports the joint log-likelihood that it started from."""
        samples, features = Side(data, self.engine), Side(data.transposed, self.engine)
        due = key.iteration % OBJECTIVE_EVERY == 0
        state.activations = samples.place(state.activations)
        counts, logs = samples.expected_counts(state.activations, state.dictionary, with_logs=due)
        exposure = samples.exposure(state.dictionary, stay=True)
        info = {"objective": logs + self._rest_of_objective(data, state, exposure)} if due else {}
        shared = self.shape, state.rates, activation_floor(self.shape.size)
        _, (state.activations,) = self.engine.map_rows(
            _modes, data, samples.blocks, *shared, reads=[counts, exposure], makes=[Made(self.shape.shape)], recut=True
        )
        state.rates = self._rates(state.activations)
        counts, _ = features.expected_counts(state.dictionary, state.activations)
        state.dictionary = normalised_rates(counts, features.exposure(state.activations))
        if np.all(state.rates >= LARGEST_RATE):
            raise AllComponentsPrunedError(
                f"inference='joint' pruned all {self.shape.size} components, as X has too few counts a sample"
                f" ({data.total / data.shape[0]:.3g}) for it: use inference='auto', fewer components or a larger shape."
            )
        return state, {**info, **column_norms(self.model(state).dictionary)}

    def model(self, state: JointState) -> GammaPoissonModel:
        """Dictionary, shapes and rates of a state, on the scale of the rates that were asked for (GaP, Eq. 32)."""
        return GammaPoissonModel(state.dictionary * (self.rate / state.rates), self.shape, self.rate)

    def _rates(self, activations: Floats) -> Floats:
        """b_k = a_k / mean_n h_nk."""
        return np.asarray(np.minimum(self.shape / activations.mean(axis=0), LARGEST_RATE))

    def _floors(self, data: SparseData) -> Floats:
        return Floors.of(data, self.shape.size).activations[:, None]

    def _rest_of_objective(self, data: SparseData, state: JointState, exposure: Floats) -> float:
        prior = self.shape * np.log(state.rates) - gammaln(self.shape) - state.rates * state.activations
        terms = prior + xlogy(self.shape - 1.0, state.activations) - exposure * state.activations
        return float(terms.sum()) - float(gammaln(data.values + 1.0).sum())


def _modes(
    block: Block, counts: Floats, exposure: Floats, out: Floats, shape: Floats, rates: Floats, floor: float
) -> float:
    """The most likely activations given the allocations, which are not quite 0."""
    rows = block.rows
    own = exposure if exposure.shape[0] == 1 else exposure[rows]
    floors = floor * block.data.row_sums[rows, None]
    out[rows] = np.maximum((shape - 1.0 + counts[rows]) / (rates + own), floors)
    return 0.0


def normalised_rates(counts: Floats, exposure: Floats) -> Floats:
    """The maximum of Σ_f counts log w - exposure w over each column with Σ_f w = 1.

    That is w = counts / (exposure + λ_k) with λ_k such that the column sums to 1; where features share their exposure,
    counts over their sum.
    """
    totals = counts.sum(axis=0)
    if exposure.shape[0] == 1:
        even = np.full_like(counts, 1.0 / counts.shape[0])
        return np.asarray(np.divide(counts, totals, out=even, where=totals > 0))
    # The sum falls with λ; it is above 1 at the lower end, where one feature's share is 1, and at most 1 at the upper.
    low = (counts - exposure).max(axis=0)
    high = totals - exposure.min(axis=0)
    for _ in range(100):
        middle = 0.5 * (low + high)
        above = (counts / np.maximum(exposure + middle, 1e-300)).sum(axis=0) > 1.0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(counts / np.maximum(exposure + high, 1e-300))
