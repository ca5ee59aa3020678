"""The permanent of a small matrix: a sum over all orders of the components."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.arrays import Floats
from partwise.kernels.jit import kernel


@kernel
def log_permanent(logs: Floats) -> float:
    """``logsumexp([logs[range(n), order].sum() for order in permutations(range(n))])``, 0 for n = 0.

    By subsets of the columns, each having the sum over all ways in which the first rows can take them: n 2^n steps.
    """
    n = logs.shape[0]
    sums = np.full(1 << n, -math.inf)
    sums[0] = 0.0
    for taken in range(1, 1 << n):
        row = -1
        for j in range(n):
            row += (taken >> j) & 1
        top = -math.inf
        for j in range(n):
            if (taken >> j) & 1:
                top = max(top, sums[taken ^ (1 << j)] + logs[row, j])
        if top > -math.inf:
            total = 0.0
            for j in range(n):
                if (taken >> j) & 1:
                    total += math.exp(sums[taken ^ (1 << j)] + logs[row, j] - top)
            sums[taken] = top + math.log(total)
    return float(sums[-1])
