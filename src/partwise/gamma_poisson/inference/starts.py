"""Initial dictionaries: even, with noise, given by the user, or from a Poisson factorization."""

from typing import Any

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.core.stopping import SmallChange
from partwise.engines.base import Engine
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.passes.side import Side
from partwise.poisson.inference.coordinate import CoordinateDescent

# Poisson factorizations that serve as starts stop at this gain, in nats per count and iteration.
_TOL = 1e-5
# Share of random noise added to a Poisson dictionary, so that its empty entries can grow again.
_MIXED = 0.1


def even_dictionary(data: SparseData, shape: Floats, rate: Floats) -> Floats:
    """w_fk = (b_k / a_k) mean_n x_nf / K (GaP, Eq. 51): deterministic, and the same in every part."""
    observed = data.shape[0] - np.bincount(data.missing_indices, minlength=data.shape[1])
    means = np.divide(data.column_sums, observed, out=np.zeros(data.shape[1]), where=observed > 0)
    return np.outer(means, rate / shape) / shape.size


def perturbed_dictionary(key: Key, data: SparseData, shape: Floats, rate: Floats) -> Floats:
    """The even start with exponential noise, which keeps each feature's expectation: breaks the symmetry."""
    noise = key.for_stage("init").generator().exponential(size=(data.shape[1], shape.size)) + 0.1
    noise *= shape.size / noise.sum(axis=1, keepdims=True)
    return even_dictionary(data, shape, rate) * noise


def given_dictionary(components: Any, data: SparseData, n_components: int) -> Floats:
    """The user's start, parts x features, after checks."""
    array = np.array(components, dtype=np.float64)
    expected = (n_components, data.shape[1])
    if array.shape != expected:
        raise InvalidInputError(f"init must have shape {expected} (parts x features), got {array.shape}.")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        k, f = np.argwhere(bad)[0]
        raise InvalidInputError(f"init[{k}, {f}] = {array[k, f]} must be a finite nonnegative number.")
    dead = np.flatnonzero((data.column_sums > 0) & ~np.any(array > 0, axis=0))
    if dead.size:
        raise InvalidInputError(
            f"init has no part that holds feature {dead[0]}, which has counts in X: give it a positive entry."
        )
    return np.ascontiguousarray(array.T)


def poisson_factors(
    key: Key, data: SparseData, shape: Floats, rate: Floats, engine: Engine, *, max_iter: int = 30
) -> tuple[Floats, Any]:
    """A Poisson factorization from random factors: its dictionary on the scale of the model, and its activations."""
    algorithm, rule = CoordinateDescent(shape.size, "random", engine), SmallChange(_TOL, data.total, patience=2)
    key = key.for_stage("starts")
    state = run(algorithm, data, key=key, max_iter=max_iter, convergence=rule, progress=False).state
    # Columns of its dictionary sum to 1, and activations are expected counts.
    totals = Side(data, engine).totals(state.activations)
    return state.dictionary * ((np.atleast_2d(totals).sum(axis=0) / data.shape[0]) * rate / shape), state.activations


def with_noise(key: Key, data: SparseData, dictionary: Floats, shape: Floats, rate: Floats) -> Floats:
    """A dictionary with noise: maximum likelihood empties entries that the marginal likelihood would fill."""
    noise = perturbed_dictionary(key.for_stage("mixed"), data, shape, rate)
    return np.asarray((1.0 - _MIXED) * dictionary + _MIXED * noise)
