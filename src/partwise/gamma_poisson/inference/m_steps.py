"""What the M-steps share: dictionaries from allocations, and the shapes of the priors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import psi

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import Block
from partwise.kernels.arrays import Floats
from partwise.passes.side import Side
from partwise.priors.flat import FlatPrior

# The dictionary entry of a feature with counts never rounds to 0: expected allocations divide by rates.
SMALLEST_ENTRY = 1e-100


def marginal_step(feature_counts: Floats, n_samples: int, shape: Floats, rate: Floats) -> Floats:
    """w_fk = (b_k / a_k) (1/N) Σ_n c_nfk (GaP, Eq. 48), with activations integrated out."""
    return feature_counts * (rate / (shape * n_samples))


def conditional_step(feature_counts: Floats, exposure: Floats) -> Floats:
    """w_fk = Σ_n c_nfk / Σ_n h_nk (GaP, Eq. 41 and, with expected counts, 42), the sums over observed cells."""
    return FlatPrior().rates(feature_counts, exposure)


def expected_missing(data: SparseData, dictionary: Floats, activations: Any, engine: Engine) -> Floats | float:
    """Σ of w_fk E[h_nk] over the samples in which f is missing: what missing cells add to the allocations."""
    if not data.n_missing:
        return 0.0
    totals = Side(data, engine).totals(activations)
    hidden = totals - Side(data.transposed, engine).exposure(activations, totals=totals)
    return np.asarray(dictionary * np.maximum(hidden, 0.0))


def unweighted_counts(data: SparseData, feature_counts: Floats, activations: Any, engine: Engine) -> Floats:
    """The allocations that the same dictionary would give if all cells were observed with weight 1."""
    totals = Side(data, engine).totals(activations)
    exposure = Side(data.transposed, engine).exposure(activations, totals=totals)
    return np.asarray(conditional_step(feature_counts, exposure) * totals.sum(axis=0))


# The shape of each part's gamma prior, estimated from draws of its allocation totals.

# If all totals are 0, the likelihood is largest at 0; if they vary less than Poisson counts, at infinity.
SMALLEST, LARGEST = 1e-3, 1e3


class ValueCounts:
    """Distinct values in order, and how often each occurs. The sum of two counts has the values of both.

    Parameters
    ----------
    values
        Any values.
    times
        How often each value occurs; None = once.
    """

    def __init__(self, values: NDArray[Any], times: NDArray[Any] | None = None) -> None:
        self.values, places = np.unique(values, return_inverse=True)
        self.times = np.bincount(places, times)

    def __add__(self, other: ValueCounts) -> ValueCounts:
        return ValueCounts(np.concatenate((self.values, other.values)), np.concatenate((self.times, other.times)))


def moved_shapes(samples: Side, totals: Sequence[Any], shape: Floats, weight: float) -> Floats:
    """Move shapes by a weight towards those that fit draws of totals; unchanged if nothing was drawn.

    The move is in logarithms, because shapes are positive. With weight 1 the result is the new value.
    """
    if not totals:
        return shape
    drawn, _ = samples.map_rows(_drawn_totals, reads=totals)
    return np.asarray(shape ** (1.0 - weight) * profile_shapes(drawn, shape) ** weight)


def _drawn_totals(block: Block, *totals: Floats) -> tuple[ValueCounts, ...]:
    """The totals L_nk of some draws (each samples x parts), for each part."""
    return tuple(map(ValueCounts, np.concatenate([draw[block.rows] for draw in totals]).T))


def profile_shapes(totals: Sequence[ValueCounts], shape: Floats) -> Floats:
    """The maximum over a_k of the likelihood of draws of the totals L_nk, with w = (b / a) mean c.

    The profile log-likelihood Σ_n E[logΓ(a + L_n) - logΓ(a)] + N a log(a / (a + L̄)) - N L̄ log(a + L̄) has the
    derivative N (E[ψ(a + L) - ψ(a)] - log(1 + L̄ / a)). It has at most one root. Averages are over samples and
    draws: the mean of L instead of its draws would hide how much L varies.

    Parameters
    ----------
    totals
        The totals of each part in all samples and draws.
    shape
        The current values, kept for parts without allocations.
    """
    found = shape.copy()
    for k, drawn in enumerate(totals):
        weights = drawn.times / drawn.times.sum()
        mean = float(weights @ drawn.values)
        if mean > 0:
            found[k] = _root(drawn.values, weights, mean)
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
    """The root of ψ(a) = target, by bisection: used if E[log h] is known instead of draws of L."""
    low, high = np.full_like(target, np.log(SMALLEST)), np.full_like(target, np.log(LARGEST))
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = psi(np.exp(middle)) > target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.exp(0.5 * (low + high))
