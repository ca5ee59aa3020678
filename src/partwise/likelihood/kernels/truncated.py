"""A normal distribution of mixing proportions that is cut off at 0: the posterior of large counts near the edge.

With large counts the likelihood is close to normal in the proportions themselves, and that of an almost absent
component is cut off at 0. In logarithms this would be a long curved tail.
"""

import math
from typing import NamedTuple

import numpy as np

from partwise.kernels.cholesky import solve
from partwise.kernels.continuous import normal_above
from partwise.kernels.jit import inner_kernel
from partwise.kernels.special import log_normal_cdf
from partwise.kernels.streams import Stream
from partwise.likelihood.kernels.mode import Mode, cholesky
from partwise.likelihood.kernels.rows import Floats, Integers, OpenRow, RowBuffers

# Somewhat wider than the likelihood, because a proposal must have the longer tails.
_SPREAD = 1.15
# Added to the precision: no proportion varies by more than about one.
_LEAST_PRECISION = 1.0
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class TruncatedNormal(NamedTuple):
    """Proportions of all components but the largest, which has the rest.

    Attributes
    ----------
    components
        The components in the order of the rows of ``factor``, the largest last.
    centre
        Mean before truncation.
    factor
        Lower Cholesky factor of the precision.
    offsets
        Buffer: proportions minus their mean.
    """

    components: Integers
    centre: Floats
    factor: Floats
    offsets: Floats


def new_truncated_normal(n_components: int) -> TruncatedNormal:
    """Allocate buffers for this many components."""
    centre, offsets = np.zeros((2, n_components))
    return TruncatedNormal(np.zeros(n_components, np.int64), centre, np.zeros((n_components, n_components)), offsets)


@inner_kernel
def fit_truncated_normal(row: RowBuffers, size: OpenRow, mode: Mode, out: TruncatedNormal) -> None:
    """``factor = cholesky((counts / rates**2 * d.T) @ d)``, ``centre = shares + solve(..., d.T @ (counts / rates))``.

    With d_fk = q_fk - q_f,largest and rates at the mode: one Newton step for the likelihood of the proportions.
    """
    n_open = size.n_components
    largest = 0
    for k in range(n_open):
        if mode.shares[k] > mode.shares[largest]:
            largest = k
    n_free = n_open - 1
    for i in range(n_free):
        out.components[i] = i if i < largest else i + 1
        out.centre[i] = 0.0
        for j in range(i):
            out.factor[i, j] = 0.0
        out.factor[i, i] = _LEAST_PRECISION
    out.components[n_free] = largest
    for f in range(size.n_features):
        rate = 0.0
        for k in range(n_open):
            rate += row.weights[f, k] * mode.shares[k]
        scale = row.counts[f] / rate
        for i in range(n_free):
            slope = row.weights[f, out.components[i]] - row.weights[f, largest]
            out.centre[i] += scale * slope
            for j in range(i + 1):
                other = row.weights[f, out.components[j]] - row.weights[f, largest]
                out.factor[i, j] += scale / rate * slope * other
    cholesky(n_free, out.factor)
    solve(out.factor, n_free, out.centre)
    for i in range(n_free):
        out.centre[i] += mode.shares[out.components[i]]


@inner_kernel
def _given_later(i: int, n_free: int, normal: TruncatedNormal) -> float:
    """Mean of proportion i given those after it, whose offsets are known."""
    total = 0.0
    for j in range(i + 1, n_free):
        total += normal.factor[j, i] * normal.offsets[j]
    return float(normal.centre[i] - total / normal.factor[i, i])


@inner_kernel
def draw_truncated_normal(stream: Stream, n_open: int, normal: TruncatedNormal, logs: Floats, lane: int) -> bool:
    """Draw log proportions, one after the other, each cut off at 0 given those drawn; False if their sum is above 1."""
    n_free, rest = n_open - 1, 1.0
    for i in range(n_free - 1, -1, -1):
        mean, spread = _given_later(i, n_free, normal), _SPREAD / normal.factor[i, i]
        value = max(mean + spread * normal_above(stream, -mean / spread), 1e-300)
        normal.offsets[i] = value - normal.centre[i]
        logs[normal.components[i], lane] = math.log(value)
        rest -= value
    logs[normal.components[n_free], lane] = math.log(rest) if rest > 0.0 else 0.0
    return rest > 0.0


@inner_kernel
def log_truncated_normal(n_open: int, normal: TruncatedNormal, logs: Floats, shares: Floats, lane: int) -> float:
    """Log density of what `draw_truncated_normal` draws, in log ratios."""
    n_free = n_open - 1
    value = logs[normal.components[n_free], lane]
    for i in range(n_free - 1, -1, -1):
        mean, spread = _given_later(i, n_free, normal), _SPREAD / normal.factor[i, i]
        share = shares[normal.components[i], lane]
        normal.offsets[i] = share - normal.centre[i]
        distance = (share - mean) / spread
        value += logs[normal.components[i], lane] - 0.5 * distance * distance - _HALF_LOG_TWO_PI
        value -= math.log(spread) + log_normal_cdf(mean / spread)
    return float(value)
