"""Where fits start from: KL-NMF. From noise, samplers take long to get there, and variational Bayes never does.

Large data start from some of their rows. All of them would take longer than the sweeps that they save.
"""

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
from partwise.poisson.inference.coordinate import CoordinateDescent, with_columns
from partwise.poisson.inference.multiplicative import Multiplicative
from partwise.poisson.inference.state import PoissonState, Start

# More of them lead to no better optima: what is left is for the model's own algorithm.
_ITERATIONS = 20
# From this many nonzeros times components on, EM alone: in equal time, coordinate descent gets a sampler no further.
_LARGE_WORK = 2**24
# Thirty iterations for 100 components; with 1,000 of them, thirty gain little over ten and cost ten sweeps.
_EM_ITERATIONS, _FEWEST, _MOST = 3000, 10, 30
# Nonzeros of the rows that stand for data of more than twice as many.
_NONZEROS = 2**19
_ROWS_PER_COMPONENT = 4


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
    """Expected counts, features x components, after some iterations of KL-NMF on the data, or on a part of the rows."""
    n_components, total = model.n_components, data.total
    large = data.nnz * n_components > _LARGE_WORK
    chosen = chosen_rows(key, data, n_components) if large else None
    if chosen is not None:
        start = (start[0][chosen], start[1]) if isinstance(start, tuple) else start
        data, engine = data.take(chosen), engine.here
    data, engine = with_columns(data, engine)
    if not large:
        factors = kl_factors(key, data, n_components, start, _ITERATIONS, engine)
    else:
        solver = Multiplicative(n_components, start, engine)
        factors = solver.init(key, data)
        for iteration in range(1, min(max(_EM_ITERATIONS // n_components, _FEWEST), _MOST) + 1):
            factors, _ = solver.step(key.at(iteration), data, factors)
    counts = factors.dictionary * Side(data, engine).totals(factors.activations) * (total / max(data.total, 1.0))
    if np.ptp(model.activation_concentration) > 0:
        counts = counts[:, best_order(model, np.asarray(factors.activations))]
    return np.ascontiguousarray(counts)


def chosen_rows(key: Key, data: SparseData, n_components: int) -> NDArray[np.intp] | None:
    """Rows that stand for large data, in order, drawn at random; None for all rows."""
    if data.nnz <= 2 * _NONZEROS:
        return None
    order = key.for_stage("rows").generator().permutation(data.shape[0])
    enough = int(np.searchsorted(np.cumsum(np.diff(data.indptr)[order]), _NONZEROS)) + 1
    return np.sort(order[: max(enough, _ROWS_PER_COMPONENT * n_components)])


def best_order(model: AllocationModel, sample_counts: Floats) -> NDArray[np.intp]:
    """Components matched to unequal β: of all orders the best, as only Σ log Γ(β_k + S_n+k) depends on it."""
    beta = model.activation_concentration
    if np.ptp(beta) == 0:
        return np.arange(beta.size)
    gains = np.array([gammaln(concentration + sample_counts).sum(axis=0) for concentration in beta])
    return np.asarray(linear_sum_assignment(gains, maximize=True)[1])
