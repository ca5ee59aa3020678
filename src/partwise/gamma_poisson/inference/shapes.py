"""The shape of each component's gamma prior, estimated from draws of its allocation totals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import psi

from partwise.engines.stacked import column_values

Floats = NDArray[np.float64]

# Where all totals are 0 the likelihood has its maximum at 0, and where they vary less than Poisson counts at infinity.
SMALLEST, LARGEST = 1e-3, 1e3


def profile_shapes(totals: Floats, shape: Floats) -> Floats:
    """The maximum over a_k of the likelihood of draws of the totals L_nk, with w = (b / a) mean c (MATH 1.2).

    The profile log-likelihood Σ_n E[logΓ(a + L_n) - logΓ(a)] + N a log(a / (a + L̄)) - N L̄ log(a + L̄) has the
    derivative N (E[ψ(a + L) - ψ(a)] - log(1 + L̄ / a)), which has one root at most. Averages go over samples and over
    draws: the mean of L in place of its draws would hide how much L varies.

    Parameters
    ----------
    totals
        Draws x samples x components.
    shape
        The present values, kept for components without allocations.
    """
    found = shape.copy()
    found_values = column_values(totals)
    for k in range(shape.size):
        values, times = found_values[k]
        weights = times / times.sum()
        mean = float(weights @ values)
        if mean > 0:
            found[k] = _root(values, weights, mean)
    return found


def _root(values: Floats, weights: Floats, mean: float) -> float:
    def slope(log_shape: float) -> float:
        a = np.exp(log_shape)
        return float(weights @ psi(a + values) - psi(a) - np.log1p(mean / a))

    low, high = np.log(SMALLEST), np.log(LARGEST)
    if slope(low) <= 0:
        return SMALLEST
    if slope(high) >= 0:
        return LARGEST
    return float(np.exp(brentq(slope, low, high, xtol=1e-10)))


def shape_of_mean_log(target: Floats) -> Floats:
    """The root of ψ(a) = target, by bisection: where E[log h], and not draws of L, is what is known."""
    low, high = np.full_like(target, np.log(SMALLEST)), np.full_like(target, np.log(LARGEST))
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = psi(np.exp(middle)) > target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.exp(0.5 * (low + high))
