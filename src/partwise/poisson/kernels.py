"""Kernels of Poisson factorization over one block of rows. Called on transposed data, they serve the dictionary's side.

Throughout, ``factor`` is the side that is updated (rows of the data x components) and ``other`` the side that is held
(columns of the data x components); the rate of a cell is ``factor[n] @ other[f]``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.jit import kernel

Floats = NDArray[np.float64]
Pointer = NDArray[np.int64]
Index = NDArray[np.int32]
Values = NDArray[Any]


@kernel
def expected_counts(
    indptr: Pointer,
    indices: Index,
    values: Values,
    factor: Floats,
    other: Floats,
    with_logs: bool,
    start: int,
    stop: int,
    out: Floats,
) -> float:
    """``out = factor * ((X / (factor @ other.T)) @ other)``, the expected allocation totals of an E-step.

    Returns ``(X * log(factor @ other.T)).sum()`` over the block if ``with_logs``, else 0.
    """
    n_components = factor.shape[1]
    total = 0.0
    for n in range(start, stop):
        row = factor[n]
        counts = out[n]
        for k in range(n_components):
            counts[k] = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            column = other[indices[p]]
            rate = 0.0
            for k in range(n_components):
                rate += row[k] * column[k]
            ratio = values[p] / rate
            for k in range(n_components):
                counts[k] += ratio * column[k]
            if with_logs:
                total += values[p] * math.log(rate)
        for k in range(n_components):
            counts[k] *= row[k]
    return total


@kernel
def row_exposure(missing: Index, totals: Floats, other: Floats, out: Floats) -> None:
    """``out = other[observed].sum(axis=0)``: what each component is exposed to in a row with missing columns.

    ``totals`` is ``other.sum(axis=0)``. The missing columns are subtracted from it where that keeps at least half of
    the digits; otherwise the observed ones are summed, so that a row without observed columns is exposed to exactly 0.
    """
    n_columns, n_components = other.shape
    if 2 * missing.size <= n_columns:
        accurate = True
        for k in range(n_components):
            out[k] = totals[k]
        for f in missing:
            for k in range(n_components):
                out[k] -= other[f, k]
        for k in range(n_components):
            accurate = accurate and out[k] >= 1e-8 * totals[k]
        if accurate:
            return
    for k in range(n_components):
        out[k] = 0.0
    next_missing = 0
    for f in range(n_columns):
        if next_missing < missing.size and missing[next_missing] == f:
            next_missing += 1
            continue
        for k in range(n_components):
            out[k] += other[f, k]


@kernel
def exposures(
    missing_indptr: Pointer, missing_indices: Index, totals: Floats, other: Floats, start: int, stop: int, out: Floats
) -> None:
    """``out[n] = other[observed[n]].sum(axis=0)`` for each row of the block."""
    for n in range(start, stop):
        row_exposure(missing_indices[missing_indptr[n] : missing_indptr[n + 1]], totals, other, out[n])


@kernel
def coordinate_descent(
    indptr: Pointer,
    indices: Index,
    values: Values,
    missing_indptr: Pointer,
    missing_indices: Index,
    other: Floats,
    totals: Floats,
    floor: float,
    max_sweeps: int,
    tol: float,
    start: int,
    stop: int,
    factor: Floats,
) -> float:
    """``factor[n] = argmax over h >= floor of X[n] @ log(other @ h) - exposure[n] @ h``, by coordinate descent.

    Newton steps on one h_k at a time (Hsieh & Dhillon 2011). Each row is swept until a sweep changes no expected count
    by more than ``tol`` of the row's total, at most ``max_sweeps`` times. Returns the objective summed over the block.

    The objective is concave in h_k and its derivative convex: a Newton step upward never overshoots, and one downward
    may. Where it would leave h_k <= 0, the derivative at 0 decides: 0 is the maximum, or a step up from 0 is safe.
    """
    n_components = other.shape[1]
    widest = 0
    for n in range(start, stop):
        widest = max(widest, indptr[n + 1] - indptr[n])
    # The row's part of `other`, component by component: all inner loops below run over contiguous memory.
    gathered = np.empty((n_components, widest))
    rate = np.empty(widest)
    inverse = np.empty(widest)
    count = np.empty(widest)
    exposure = np.empty(n_components)
    objective = 0.0
    for n in range(start, stop):
        first = indptr[n]
        size = indptr[n + 1] - first
        row = factor[n]
        row_exposure(missing_indices[missing_indptr[n] : missing_indptr[n + 1]], totals, other, exposure)
        row_total = 0.0
        for p in range(size):
            column = other[indices[first + p]]
            total = 0.0
            for k in range(n_components):
                gathered[k, p] = column[k]
                total += column[k] * row[k]
            rate[p] = total
            inverse[p] = 1.0 / total
            count[p] = values[first + p]
            row_total += count[p]
        for _ in range(max_sweeps):
            largest_change = 0.0
            for k in range(n_components):
                weight = gathered[k]
                gain = 0.0
                curvature = 0.0
                for p in range(size):
                    share = weight[p] * inverse[p]
                    part = count[p] * share
                    gain += part
                    curvature += part * share
                old = row[k]
                if gain <= exposure[k] and old <= floor:
                    continue
                new = old + (gain - exposure[k]) / curvature if curvature > 0.0 else 0.0
                if new <= 0.0:
                    gain = 0.0
                    curvature = 0.0
                    for p in range(size):
                        # Where this component alone explains a count, the derivative at 0 is infinite: cut it short.
                        share = weight[p] / max(rate[p] - old * weight[p], 1e-3 * rate[p])
                        part = count[p] * share
                        gain += part
                        curvature += part * share
                    new = (gain - exposure[k]) / curvature if gain > exposure[k] else 0.0
                new = max(new, floor)
                change = new - old
                row[k] = new
                for p in range(size):
                    # Never to 0 or below by cancellation; the next pass computes the rates anew.
                    rate[p] = max(rate[p] + change * weight[p], 1e-14 * rate[p])
                    inverse[p] = 1.0 / rate[p]
                largest_change = max(largest_change, abs(change) * exposure[k])
            if largest_change <= tol * row_total:
                break
        for p in range(size):
            objective += count[p] * math.log(rate[p])
        for k in range(n_components):
            objective -= row[k] * exposure[k]
    return objective


@kernel
def kkt_residual(
    indptr: Pointer,
    indices: Index,
    values: Values,
    missing_indptr: Pointer,
    missing_indices: Index,
    factor: Floats,
    other: Floats,
    totals: Floats,
    start: int,
    stop: int,
) -> float:
    """``abs(minimum(share, gradient)).max()`` with ``gradient = 1 - (X / rates) @ other / exposure``.

    ``share`` is the part of the row's expected counts that a component holds, so both are free of scale. The value is 0
    just where the Karush-Kuhn-Tucker conditions hold.
    """
    n_components = factor.shape[1]
    exposure = np.empty(n_components)
    gain = np.empty(n_components)
    worst = 0.0
    for n in range(start, stop):
        row_exposure(missing_indices[missing_indptr[n] : missing_indptr[n + 1]], totals, other, exposure)
        row = factor[n]
        expected = 0.0
        for k in range(n_components):
            gain[k] = 0.0
            expected += row[k] * exposure[k]
        for p in range(indptr[n], indptr[n + 1]):
            column = other[indices[p]]
            rate = 0.0
            for k in range(n_components):
                rate += row[k] * column[k]
            ratio = values[p] / rate
            for k in range(n_components):
                gain[k] += ratio * column[k]
        for k in range(n_components):
            if exposure[k] > 0.0 and expected > 0.0:
                share = row[k] * exposure[k] / expected
                worst = max(worst, abs(min(share, 1.0 - gain[k] / exposure[k])))
    return worst
