"""Maximum joint likelihood of dictionary and activations (MJLE), the estimator that the marginal one improves on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, aligned
from partwise.errors import AllComponentsPrunedError
from partwise.gamma_poisson.inference.starts import perturbed_dictionary
from partwise.gamma_poisson.model import GammaPoissonModel, column_norms
from partwise.kernels.arrays import Floats
from partwise.passes.kernels import expected_counts
from partwise.passes.side import FLOOR, Side, own_exposure

OBJECTIVE_EVERY = 10
# The joint likelihood is unbounded if all activations of a part go to 0 and its rate to infinity.
LARGEST_RATE = 1e6


@dataclass
class JointState:
    """Dictionary with columns that sum to 1, activations, and the rate of each part's prior."""

    dictionary: Floats
    activations: Any
    rates: Floats


@dataclass(kw_only=True)
class JointEM:
    """EM for log p(X, h | w, b) over all three (GaP, Eq. 3-6): KL-NMF with a penalty on activations.

    With b fixed and w free the problem has no solution, so columns of w sum to 1 and b is free. Shapes must be at least
    1: below 1, the likelihood is unbounded at activations of 0.
    """

    shape: Floats
    rate: Floats
    start: Floats | None
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> JointState:
        """A perturbed start with columns that sum to 1, each sample's total spread evenly."""
        ones = np.ones_like(self.shape)
        dictionary = perturbed_dictionary(key, data, ones, ones) if self.start is None else self.start
        activations = Side(data, self.engine).even_counts(ones.size)
        rates = self._rates(data, data.total / ones.size * ones)
        return JointState(dictionary / dictionary.sum(axis=0), activations, rates)

    def step(self, key: Key, data: SparseData, state: JointState) -> tuple[JointState, Mapping[str, float]]:
        """Update activations, rates and dictionary. Every tenth step reports the joint log-likelihood before it."""
        samples, features = Side(data, self.engine), Side(data.transposed, self.engine)
        due = key.iteration % OBJECTIVE_EVERY == 0
        sums = state.dictionary.sum(axis=0)
        shared = aligned(state.dictionary), sums, self.shape, state.rates, FLOOR / self.shape.size, due
        (objective, totals), (state.activations,) = samples.map_rows(
            _modes, *shared, reads=[samples.place(state.activations)], makes=[Made(self.shape.shape)]
        )
        info = {"objective": objective - float(gammaln(data.values + 1.0).sum())} if due else {}
        state.rates = self._rates(data, totals)
        counts, _ = features.expected_counts(state.dictionary, state.activations)
        state.dictionary = normalised_rates(counts, features.exposure(state.activations, totals=totals))
        if np.all(state.rates >= LARGEST_RATE):
            raise AllComponentsPrunedError(
                f"inference='joint' pruned all {self.shape.size} parts, as X has too few counts per sample"
                f" ({data.total / data.shape[0]:.3g}) for it: use inference='vem', fewer parts or a larger shape."
            )
        return state, {**info, **column_norms(self.model(state).dictionary)}

    def model(self, state: JointState) -> GammaPoissonModel:
        """Dictionary, shapes and rates of a state, on the scale of the requested rates (GaP, Eq. 32)."""
        return GammaPoissonModel(state.dictionary * (self.rate / state.rates), self.shape, self.rate)

    def _rates(self, data: SparseData, totals: Floats) -> Floats:
        """b_k = a_k / mean_n h_nk."""
        return np.asarray(np.minimum(self.shape * data.shape[0] / totals, LARGEST_RATE))


def _modes(
    block: Block,
    activations: Floats,
    out: Floats,
    dictionary: Floats,
    sums: Floats,
    shape: Floats,
    rates: Floats,
    floor: float,
    with_objective: bool,
) -> tuple[float, Floats]:
    """The most likely activations given the allocations, kept above 0; the objective before the update; new sums."""
    before, own = activations[block.rows], out[block.rows]
    logs = expected_counts(block.own_cells, before, dictionary, with_objective, 0, block.n_rows, own)
    exposure = own_exposure(block, dictionary, sums)
    if with_objective:
        prior = shape * np.log(rates) - gammaln(shape) - rates * before
        logs += float((prior + xlogy(shape - 1.0, before) - exposure * before).sum())
    floors = floor * block.data.row_sums[block.rows, None]
    own[...] = np.maximum((shape - 1.0 + own) / (rates + exposure), floors)
    return logs, np.asarray(own.sum(axis=0))


def normalised_rates(counts: Floats, exposure: Floats) -> Floats:
    """Maximise Σ_f counts log w - exposure w over each column with Σ_f w = 1.

    The solution is w = counts / (exposure + λ_k) with λ_k such that the column sums to 1. If all features have the same
    exposure, it is counts divided by their sum.
    """
    totals = counts.sum(axis=0)
    if exposure.shape[0] == 1:
        return np.asarray(np.divide(counts, totals, out=np.full_like(counts, 1.0 / counts.shape[0]), where=totals > 0))
    # The sum decreases in λ. It is above 1 at the lower end, where one feature's share is 1, and at most 1 at the
    # upper.
    low = (counts - exposure).max(axis=0)
    high = totals - exposure.min(axis=0)
    for _ in range(100):
        middle = 0.5 * (low + high)
        above = (counts / np.maximum(exposure + middle, 1e-300)).sum(axis=0) > 1.0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(counts / np.maximum(exposure + high, 1e-300))
