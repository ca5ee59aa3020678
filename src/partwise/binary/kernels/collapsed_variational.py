"""Passes of collapsed variational Bayes: each cell's responsibilities, from expected counts without the cell itself."""

import math

import numpy as np

from partwise.binary.kernels.cells import Listed
from partwise.kernels.arrays import Floats, Singles
from partwise.kernels.jit import kernel
from partwise.kernels.sums import sum_of

Pair = tuple[Floats, Floats]
"""Of rows and of columns."""


@kernel
def pass_zero_order(cells: Listed, priors: Pair, shares: Singles, row_counts: Floats, column_counts: Floats) -> float:
    """For each cell: ``r = normalise((concentration + column_counts[f]) * (prior[:, x] + row_counts[n, x]) / total)``.

    CVB0, Eq. 36: ``total = prior.sum(axis=1) + row_counts[n].sum(axis=0)``, ``prior`` holding beta and alpha of each
    component; all counts without the cell's own responsibilities. ``row_counts`` are rows x bit x components. Returns
    the sum of absolute changes.
    """
    (row_starts, codes), (prior, concentration) = cells, priors
    n_components = column_counts.shape[1]
    weights, changes = np.empty(n_components), np.zeros(n_components)
    # One row per bit, so that loads are contiguous; pairs would have to be gathered.
    by_bit = prior.T.copy()
    both = by_bit[0] + by_bit[1]
    for n in range(row_starts.size - 1):
        for p in range(row_starts[n], row_starts[n + 1]):
            x, f = codes[p] & 1, codes[p] >> 1
            for k in range(n_components):
                own = np.float64(shares[p, k])
                left, here = column_counts[f, k] - own, row_counts[n, x, k] - own
                # Rounding may leave a count slightly below what is subtracted from it. max() would also check for NaN.
                left = left if left > 0.0 else 0.0
                here = here if here > 0.0 else 0.0
                whole = both[k] + here + row_counts[n, 1 - x, k]
                weights[k] = (concentration[k] + left) * (by_bit[x, k] + here) / whole
            scale = 1.0 / sum_of(weights)
            for k in range(n_components):
                new = np.float32(weights[k] * scale)
                step = np.float64(new) - np.float64(shares[p, k])
                shares[p, k] = new
                column_counts[f, k] += step
                row_counts[n, x, k] += step
                changes[k] += abs(step)
    return sum_of(changes)


@kernel
def pass_second_order(cells: Listed, priors: Pair, shares: Singles, counts: Pair, variances: Pair) -> float:
    """``log r = E log(concentration + M) + E log(prior[x] + A_x) - E log(alpha + beta + A_0 + A_1)``, up to a constant.

    CVB, Eq. 35 with a sum of expected logarithms, each to second order: ``E log(c + N) = log(c + E N) - Var N / (2 (c +
    E N)**2)``; means and variances (sums of r (1 - r)) without the cell's own. Returns the sum of absolute changes.
    """
    (row_starts, codes), (prior, concentration) = cells, priors
    (row_counts, column_counts), (row_variances, column_variances) = counts, variances
    n_components = column_counts.shape[1]
    weights = np.empty(n_components)
    both = prior[:, 0] + prior[:, 1]
    change = 0.0
    for n in range(row_starts.size - 1):
        for p in range(row_starts[n], row_starts[n + 1]):
            x = codes[p] & 1
            f = codes[p] >> 1
            column, column_variance = column_counts[f], column_variances[f]
            mine, others = row_counts[n, x], row_counts[n, 1 - x]
            mine_variance, others_variance = row_variances[n, x], row_variances[n, 1 - x]
            own = shares[p]
            largest = -math.inf
            for k in range(n_components):
                r = np.float64(own[k])
                spread = r * (1.0 - r)
                left = concentration[k] + max(column[k] - r, 0.0)
                here = max(mine[k] - r, 0.0)
                bit, whole = prior[k, x] + here, both[k] + here + others[k]
                left_spread = max(column_variance[k] - spread, 0.0) / (left * left)
                bit_variance = max(mine_variance[k] - spread, 0.0)
                bit_spread = bit_variance / (bit * bit)
                whole_spread = (bit_variance + others_variance[k]) / (whole * whole)
                weights[k] = math.log(left * bit / whole) - 0.5 * (left_spread + bit_spread - whole_spread)
                largest = max(largest, weights[k])
            total = 0.0
            for k in range(n_components):
                weights[k] = math.exp(weights[k] - largest)
                total += weights[k]
            scale = 1.0 / total
            for k in range(n_components):
                old, new = np.float64(own[k]), np.float64(np.float32(weights[k] * scale))
                own[k] = np.float32(new)
                step, spread_step = new - old, new * (1.0 - new) - old * (1.0 - old)
                column[k] += step
                mine[k] += step
                column_variance[k] += spread_step
                mine_variance[k] += spread_step
                change += abs(step)
    return change
