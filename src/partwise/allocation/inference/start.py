"""Where fits start from: KL-NMF. From noise, samplers take long to get there, and variational Bayes never does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.kernels.arrays import Floats
from partwise.passes.side import Side
from partwise.poisson.inference.coordinate import CoordinateDescent
from partwise.poisson.inference.state import PoissonState, Start

# More of them lead to no better optima: what is left is for the model's own algorithm.
_ITERATIONS = 20


def kl_factors(
    key: Key, data: SparseData, n_components: int, start: Start, n_iterations: int, engine: Engine
) -> PoissonState:
    """Factors after some iterations of KL-NMF; columns of the dictionary sum to 1."""
    solver = CoordinateDescent(n_components, start, engine)
    factors = solver.init(key, data)
    for iteration in range(1, n_iterations + 1):
        factors, _ = solver.step(key.at(iteration), data, factors)
    return factors


def first_feature_counts(key: Key, data: SparseData, model: AllocationModel, start: Start, engine: Engine) -> Floats:
    """Expected counts, features x components, after a few iterations of KL-NMF."""
    factors = kl_factors(key, data, model.n_components, start, _ITERATIONS, engine)
    counts = factors.dictionary * Side(data, engine).totals(factors.activations)
    if np.ptp(model.activation_concentration) > 0:
        counts = counts[:, best_order(model, np.asarray(factors.activations))]
    return np.ascontiguousarray(counts)


def best_order(model: AllocationModel, sample_counts: Floats) -> NDArray[np.intp]:
    """Components matched to unequal β: of all orders the best, as only Σ log Γ(β_k + S_n+k) depends on it."""
    beta = model.activation_concentration
    if np.ptp(beta) == 0:
        return np.arange(beta.size)
    gains = np.array([gammaln(concentration + sample_counts).sum(axis=0) for concentration in beta])
    return np.asarray(linear_sum_assignment(gains, maximize=True)[1])
