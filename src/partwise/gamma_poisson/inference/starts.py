"""First dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.errors import InvalidInputError

Floats = NDArray[np.float64]


def mean_counts(data: SparseData) -> Floats:
    """Mean of the observed counts of each feature; 0 where none is observed."""
    observed = data.shape[0] - np.bincount(data.missing_indices, minlength=data.shape[1])
    return np.divide(data.column_sums, observed, out=np.zeros(data.shape[1]), where=observed > 0)


def even_dictionary(data: SparseData, shape: Floats, rate: Floats) -> Floats:
    """w_fk = (b_k / a_k) mean_n x_nf / K (GaP, Eq. 51): deterministic, and the same in every component."""
    return np.outer(mean_counts(data), rate / shape) / shape.size


def perturbed_dictionary(key: Key, data: SparseData, shape: Floats, rate: Floats) -> Floats:
    """The even one with exponential noise, each feature's expectation kept: where nothing else breaks the symmetry."""
    noise = key.for_stage("init").generator().exponential(size=(data.shape[1], shape.size)) + 0.1
    noise *= shape.size / noise.sum(axis=1, keepdims=True)
    return even_dictionary(data, shape, rate) * noise


def given_dictionary(components: Any, data: SparseData, n_components: int) -> Floats:
    """A start that the user gives, components x features, checked."""
    array = np.array(components, dtype=np.float64)
    expected = (n_components, data.shape[1])
    if array.shape != expected:
        raise InvalidInputError(f"init must have shape {expected} (components x features), got {array.shape}.")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        k, f = np.argwhere(bad)[0]
        raise InvalidInputError(f"init[{k}, {f}] = {array[k, f]} must be a finite nonnegative number.")
    dead = np.flatnonzero((data.column_sums > 0) & ~np.any(array > 0, axis=0))
    if dead.size:
        raise InvalidInputError(
            f"init has no component that holds feature {dead[0]}, which has counts in X: give it a positive entry."
        )
    return np.ascontiguousarray(array.T)
