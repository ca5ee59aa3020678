"""Kernels of Poisson factorization over one block of rows. On transposed data they update the dictionary.

Throughout, ``factor`` is the side that is updated (rows of the data x components) and ``other`` the side that is held
(columns of the data x components); the rate of a cell is ``factor[n] @ other[f]``.
"""

import math

import numpy as np

from partwise.kernels.arrays import Cells, Floats, Pair
from partwise.kernels.jit import kernel

_CELLS_AT_ONCE = 16
_FRESH_RATES_EVERY = 16
# A count far below anything that matters, which keeps squares of its reciprocal finite.
_SMALLEST_RATE = 1e-100


@kernel
def pass_by_tiles(
    cells: Cells, factor: Floats, other: Floats, tile: int, with_logs: bool, span: tuple[int, int], out: Pair
) -> float:
    """``ratios = X / (factor @ other.T); counts = factor * (ratios @ other); gains += ratios.T @ factor``.

    ``counts, gains = out`` are the expected allocation totals of an E-step, and the factors by which an EM step
    multiplies the other side. An array without rows is not computed. Returns ``(X * log(factor @ other.T)).sum()`` over
    the block if ``with_logs``, else 0. All rows process their cells of the first ``tile`` columns, then those of the
    next. So, with many columns, what is read and written of the other side stays in the cache.
    """
    (indptr, indices, values), (start, stop), (counts, gains) = cells, span, out
    n_columns, n_components = other.shape
    ratio = np.empty(_CELLS_AT_ONCE)
    next_cells = indptr[start:stop].copy()
    counts[start:stop] = 0.0
    total = 0.0
    for edge in range(tile, n_columns + tile, tile):
        for n in range(start, stop):
            row = factor[n]
            first, end = next_cells[n - start], indptr[n + 1]
            while first < end and indices[first] < edge:
                size = 0
                while size < _CELLS_AT_ONCE and first + size < end and indices[first + size] < edge:
                    column = other[indices[first + size]]
                    rate = 0.0
                    for k in range(n_components):
                        rate += row[k] * column[k]
                    ratio[size] = rate
                    size += 1
                if with_logs:
                    for p in range(size):
                        total += values[first + p] * math.log(ratio[p])
                for p in range(size):
                    ratio[p] = values[first + p] / ratio[p]
                if counts.shape[0]:
                    own = counts[n]
                    for p in range(size):
                        column = other[indices[first + p]]
                        for k in range(n_components):
                            own[k] += ratio[p] * column[k]
                if gains.shape[0]:
                    for p in range(size):
                        gain = gains[indices[first + p]]
                        for k in range(n_components):
                            gain[k] += ratio[p] * row[k]
                first += size
            next_cells[n - start] = first
    if counts.shape[0]:
        for n in range(start, stop):
            for k in range(n_components):
                counts[n, k] *= factor[n, k]
    return total


@kernel
def coordinate_descent(
    cells: Cells, held: tuple[Floats, Floats, Floats], rule: tuple[int, float], start: int, stop: int, factor: Floats
) -> float:
    """``factor[n] = argmax over h >= floors[n] of X[n] @ log(other @ h) - exposures[n] @ h``, one h_k at a time.

    If ``exposures`` has a single row, it is used for all rows.

    Each row is swept until a sweep changes no expected count by more than ``tol`` of the row's total, at most
    ``max_sweeps`` times. Returns the objective summed over the block.

    The derivative in h_k is gain(h_k) - exposure_k, where gain is a sum of terms c / (a + h_k), so that 1 / gain is
    concave. So a Newton step on 1 / gain = 1 / exposure never ends above the solution. (Hsieh & Dhillon 2011 use gain =
    exposure, whose steps are shorter upward and longer downward.) A step down may end at 0 or below. Then the
    derivative at 0 decides: either 0 is the maximum, or a step from 0 is safe.
    """
    (indptr, indices, values), (other, exposures, floors), (max_sweeps, tol) = cells, held, rule
    n_components = other.shape[1]
    widest = 0
    for n in range(start, stop):
        widest = max(widest, indptr[n + 1] - indptr[n])
    # The rows of `other` that this row needs, component by component, so that inner loops run over contiguous memory.
    gathered = np.empty((n_components, widest))
    rate = np.empty(widest)
    inverse = np.empty(widest)
    count = np.empty(widest)
    objective = 0.0
    for n in range(start, stop):
        first = indptr[n]
        size = indptr[n + 1] - first
        row = factor[n]
        floor = floors[n]
        exposure = exposures[min(n, exposures.shape[0] - 1)]
        row_total = 0.0
        for p in range(size):
            column = other[indices[first + p]]
            for k in range(n_components):
                gathered[k, p] = column[k]
            count[p] = values[first + p]
            row_total += count[p]
        _row_rates(gathered, row, size, rate, inverse)
        for sweep in range(max_sweeps):
            largest_change = 0.0
            # Rates are updated by differences, which lose digits where a large part of a rate is subtracted.
            stale = sweep % _FRESH_RATES_EVERY == _FRESH_RATES_EVERY - 1
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
                new = old + _reciprocal_step(gain, curvature, exposure[k]) if curvature > 0.0 else 0.0
                if new <= 0.0:
                    gain_at_zero = 0.0
                    curvature = 0.0
                    n_cut = 0
                    for p in range(size):
                        # If only this component explains a count, the derivative at 0 is infinite: limit it.
                        rest = rate[p] - old * weight[p]
                        least = 1e-3 * rate[p]
                        n_cut += rest < least
                        share = weight[p] / max(rest, least)
                        part = count[p] * share
                        gain_at_zero += part
                        curvature += part * share
                    if gain_at_zero > exposure[k]:
                        new = _reciprocal_step(gain_at_zero, curvature, exposure[k])
                    elif n_cut > 0:
                        # Not 0 while counts depend on it alone. The EM step is short, but never overshoots.
                        new = old * gain / exposure[k]
                    else:
                        new = 0.0
                new = max(new, floor)
                change = new - old
                row[k] = new
                for p in range(size):
                    rate[p] = max(rate[p] + change * weight[p], 1e-14 * rate[p], _SMALLEST_RATE)
                    inverse[p] = 1.0 / rate[p]
                stale = stale or new < 1e-4 * old
                largest_change = max(largest_change, abs(change) * exposure[k])
            if stale:
                _row_rates(gathered, row, size, rate, inverse)
            if largest_change <= tol * row_total:
                break
        for p in range(size):
            objective += count[p] * math.log(rate[p])
        for k in range(n_components):
            objective -= row[k] * exposure[k]
    return objective


@kernel
def _row_rates(gathered: Floats, row: Floats, size: int, rate: Floats, inverse: Floats) -> None:
    """``rate[:size] = maximum(row @ gathered[:, :size], smallest); inverse[:size] = 1 / rate[:size]``."""
    for p in range(size):
        rate[p] = 0.0
    for k in range(row.size):
        for p in range(size):
            rate[p] += row[k] * gathered[k, p]
    for p in range(size):
        rate[p] = max(rate[p], _SMALLEST_RATE)
        inverse[p] = 1.0 / rate[p]


@kernel
def _reciprocal_step(gain: float, curvature: float, exposure: float) -> float:
    """``gain / curvature * (gain - exposure) / exposure``: Newton's step on 1 / gain = 1 / exposure."""
    return gain / curvature * ((gain - exposure) / exposure)


@kernel
def kkt_residual(
    cells: Cells, factor: Floats, other: Floats, exposures: Floats, unit: float, start: int, stop: int
) -> float:
    """``abs(minimum(share, gradient)).max()`` with ``gradient = 1 - (X / rates) @ other / exposures``.

    ``share`` is a component's expected count in a row over the row's total (over ``unit`` if that is 0), so neither
    depends on the scale. The value is 0 exactly where the Karush-Kuhn-Tucker conditions hold.
    """
    indptr, indices, values = cells
    n_components = factor.shape[1]
    gain = np.empty(n_components)
    worst = 0.0
    for n in range(start, stop):
        exposure = exposures[min(n, exposures.shape[0] - 1)]
        row = factor[n]
        row_total = 0.0
        for k in range(n_components):
            gain[k] = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            column = other[indices[p]]
            rate = 0.0
            for k in range(n_components):
                rate += row[k] * column[k]
            ratio = values[p] / rate
            row_total += values[p]
            for k in range(n_components):
                gain[k] += ratio * column[k]
        scale = row_total if row_total > 0.0 else unit
        for k in range(n_components):
            if exposure[k] > 0.0:
                share = row[k] * exposure[k] / scale
                worst = max(worst, abs(min(share, 1.0 - gain[k] / exposure[k])))
    return worst
