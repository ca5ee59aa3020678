"""The relaxed problem without the form of Eq. 14: every S_nfk is free, for small dense data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from partwise.allocation.model import AllocationModel

Floats = NDArray[np.float64]


def unrestricted(model: AllocationModel, allocations: Floats, *, n_iterations: int = 500) -> float:
    """Log p(S) of a local maximum over nonnegative S with the same sums over k, from a given S.

    Exponentiated gradient steps, S ← S exp(η ∂l/∂S) with each cell's sum restored, η halved until l does not fall.
    """
    counts = allocations.sum(axis=2, keepdims=True)
    reached, step = model.log_allocation(allocations), 0.5
    for _ in range(n_iterations):
        by_feature, by_sample = allocations.sum(axis=0), allocations.sum(axis=1)
        gradient = digamma(model.dictionary_posterior(by_feature))[None] - digamma(allocations + 1.0)
        gradient = gradient + digamma(model.activation_posterior(by_sample))[:, None]
        gradient = gradient - digamma(model.dictionary_concentration.sum() + by_feature.sum(axis=0))
        while step > 1e-6:
            moved = np.maximum(allocations, 1e-12) * np.exp(step * (gradient - gradient.max(axis=2, keepdims=True)))
            moved *= counts / moved.sum(axis=2, keepdims=True)
            value = model.log_allocation(moved)
            if value >= reached:
                break
            step *= 0.5
        else:
            break
        allocations, reached, step = moved, value, min(1.0, 1.5 * step)
    return float(reached)
