"""Collapsed variational Bayes of order zero: every nonzero keeps its responsibilities."""

from __future__ import annotations

import numpy as np

from partwise.kernels.arrays import Floats, Indices, Numbers, Singles, Starts
from partwise.kernels.jit import kernel
from partwise.kernels.sums import sum_of


@kernel
def sweep_responsibilities(
    indptr: Starts,
    indices: Indices,
    values: Numbers,
    dictionary_concentration: Floats,
    activation_concentration: Floats,
    responsibilities: Singles,
    sample_counts: Floats,
    feature_counts: Floats,
    component_counts: Floats,
) -> float:
    """``r = normalise((α_f + S_fk - r) / (α_+ + S_k - r) * (β_k + S_nk - r))`` for each nonzero in turn, in place.

    Counts are expected ones, without one token's own responsibility; the tokens of a cell share theirs. Returns the sum
    of absolute changes, a token at a time.
    """
    n_components = activation_concentration.size
    whole = sum_of(dictionary_concentration)
    fresh = np.empty(n_components)
    change = 0.0
    for n in range(indptr.size - 1):
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            for k in range(n_components):
                own = responsibilities[p, k]
                fresh[k] = (
                    max(dictionary_concentration[f] + feature_counts[f, k] - own, 1e-300)
                    / (whole + component_counts[k] - own)
                    * max(activation_concentration[k] + sample_counts[n, k] - own, 1e-300)
                )
            total = sum_of(fresh)
            for k in range(n_components):
                new = np.float32(fresh[k] / total)
                difference = values[p] * (float(new) - float(responsibilities[p, k]))
                responsibilities[p, k] = new
                sample_counts[n, k] += difference
                feature_counts[f, k] += difference
                component_counts[k] += difference
                change += abs(difference)
    return change
