"""Evidence of counts under many components, one column per component."""

import math

import numpy as np

from partwise.kernels.jit import kernel
from partwise.priors.base import Floats
from partwise.priors.kernels.elementary import exp_of_negative
from partwise.priors.kernels.evidence import shape_constants
from partwise.priors.kernels.posterior import gamma_terms

# Rows that are processed at once: all their columns fit into the cache.
_ROWS = 512


@kernel
def rate_extremes(counts: Floats, exposure: Floats) -> tuple[float, float, bool]:
    """``min(r), max(r)`` of the rates ``r = counts / exposure`` that are positive; infinity and 0 where none is.

    And ``any((counts == 0) & (exposure > 0))``.
    """
    smallest, largest, zero = math.inf, 0.0, False
    for i in range(counts.size):
        s = exposure[i] if exposure.size > 1 else exposure[0]
        rate = counts[i] / s if s > 0.0 else 0.0
        zero |= counts[i] == 0.0 and s > 0.0
        if rate > 0.0:
            smallest, largest = min(smallest, rate), max(largest, rate)
    return smallest, largest, zero


@kernel
def all_whole(counts: Floats) -> bool:
    """``(counts == floor(counts)).all()``."""
    i = 0
    while i < counts.size and counts[i] == np.floor(counts[i]):
        i += 1
    return i == counts.size


@kernel
def shape_column(counts: Floats, shape: float, out: Floats) -> None:
    """``out = gammaln(shape + counts) - gammaln(shape) - xlogy(counts, counts) + counts``."""
    constants = shape_constants(shape)
    for i in range(counts.size):
        out[i] = gamma_terms(counts[i], constants)[0]


@kernel
def likelihood_from_logs(columns: Floats, out: Floats) -> None:
    """``out = columns.max(axis=1); columns = exp(columns - out[:, None])``, in place."""
    n_rows, n_columns = columns.shape
    for start in range(0, n_rows, _ROWS):
        length = min(_ROWS, n_rows - start)
        largest = out[start : start + length]
        largest[:] = -math.inf
        for j in range(n_columns):
            column = columns[start : start + length, j]
            for i in range(length):
                largest[i] = max(largest[i], column[i])
        for j in range(n_columns):
            column = columns[start : start + length, j]
            for i in range(length):
                column[i] = exp_of_negative(column[i] - largest[i])


@kernel
def evidence_columns(counts: Floats, exposure: Floats, shapes: Floats, means: Floats, out: Floats) -> None:
    """``out = log_evidence(counts[:, None], exposure[:, None] * means, shapes)``, in Fortran order.

    For shapes up to 1e3, or infinite: below 1e3 the terms in (a, x), (a, s) and x hardly cancel when they are added.
    ``exposure`` has one entry, or as many as ``counts``. Consecutive components of the same shape share the costly
    part.
    """
    log_exposure = np.empty(exposure.size)
    for i in range(exposure.size):
        log_exposure[i] = math.log(exposure[i]) if exposure[i] > 0.0 else 0.0
    shared = np.empty(counts.size)
    previous = -1.0
    for j in range(means.size):
        shape, mean, column = shapes[j], means[j], out[:, j]
        if mean == 0.0:
            for i in range(counts.size):
                column[i] = -math.inf if counts[i] > 0.0 else 0.0
            continue
        if shape != previous:
            previous = shape
            if shape < math.inf:
                shape_column(counts, shape, shared)
            else:
                for i in range(counts.size):
                    x = counts[i]
                    shared[i] = x - x * math.log(x) if x > 0.0 else 0.0
        log_mean = math.log(mean)
        log_shape = math.log(shape) if shape < math.inf else 0.0
        if exposure.size == 1:
            # log of the expected count's share of itself and the shape, and what does not depend on the count
            share, constant = log_exposure[0] + log_mean, exposure[0] * mean
            if shape < math.inf:
                log_sum = math.log(shape + constant)
                share, constant = share - log_sum, shape * (log_sum - log_shape)
            for i in range(counts.size):
                column[i] = shared[i] + (counts[i] * share - constant)
        elif shape < math.inf:
            for i in range(counts.size):
                log_sum = math.log(shape + exposure[i] * mean)
                share = log_exposure[i] + log_mean - log_sum
                column[i] = shared[i] + (counts[i] * share - shape * (log_sum - log_shape))
        else:
            for i in range(counts.size):
                column[i] = shared[i] + (counts[i] * (log_exposure[i] + log_mean) - exposure[i] * mean)
