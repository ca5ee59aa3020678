"""Likelihoods of counts under the points near each: rows of a matrix that is 0 elsewhere, and its products."""

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.jit import kernel
from partwise.priors.base import Floats
from partwise.priors.kernels.directional import Observed
from partwise.priors.kernels.elementary import exp_of_negative
from partwise.priors.kernels.near import beyond_rate, point_loss

Bands = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The first rate that is near each observation, and where its likelihoods start (one more entry: where all end)."""


@kernel
def near_likelihoods(counts: Floats, inverse: Floats, rates: Floats, bands: Bands, out: Floats) -> None:
    """``out[starts[i] : starts[i + 1]] = exp(log_likelihood_column(rates))`` of observation i, from ``lows[i]`` on."""
    lows, starts = bands
    for i in range(counts.size):
        for e in range(starts[i], starts[i + 1]):
            rate = rates[lows[i] + e - starts[i]]
            out[e] = exp_of_negative(point_loss(counts[i], inverse[i] * rate, beyond_rate(inverse[i], rate)))


@kernel
def near_slopes(
    observed: Observed, rates: Floats, weights: Floats, bands: Bands, likelihoods: Floats, sums: Floats
) -> None:
    """``sums = (share / (p @ weights)) @ [p, p * (counts - e), p * e, p * e**2]``, ``p`` of `near_likelihoods`.

    ``e = counts * inverse * rates``, the expected counts. A mixture of no likelihood, or less, has that of 1e-300.
    """
    (counts, inverse, share), (lows, starts) = observed, bands
    sums[:] = 0.0
    for i in range(counts.size):
        first, last = lows[i], lows[i] + starts[i + 1] - starts[i]
        near, weight, rate = likelihoods[starts[i] : starts[i + 1]], weights[first:last], rates[first:last]
        mixed = 0.0
        for e in range(near.size):
            mixed += near[e] * weight[e]
        ratio = share[i] / max(mixed, 1e-300)
        out = sums[:, first:last]
        for e in range(near.size):
            part, expected = ratio * near[e], counts[i] * inverse[i] * rate[e]
            out[0, e] += part
            out[1, e] += part * (counts[i] - expected)
            out[2, e] += part * expected
            out[3, e] += part * expected * expected
