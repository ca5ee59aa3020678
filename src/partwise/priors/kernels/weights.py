"""Weights of a mixture of given components, by Newton's method on a few components at a time."""

import math

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.jit import kernel
from partwise.priors.base import Floats
from partwise.priors.kernels.elementary import log_beside_one
from partwise.priors.kernels.near import ROWS, add_products, not_negligible
from partwise.priors.kernels.quadratic import nonnegative_minimum

# How many components enter at a time, in addition to those that have weight.
_MOST_NEW = 30
_MOST_ITERATIONS = 300
_SHORTEST_STEP = 1e-4
_NOTHING = 1e-14
_HIDDEN = 1e-15


@kernel
def mixed_columns(columns: Floats, maxima: Floats, weights: Floats, out: Floats) -> None:
    """``out = columns @ weights``, without columns of weight 0 and blocks that are 0."""
    out[:] = 0.0
    for b in range(maxima.shape[0]):
        some = out[b * ROWS : (b + 1) * ROWS]
        for j in range(weights.size):
            if weights[j] != 0.0 and maxima[b, j] > 0.0:
                column, weight = columns[b * ROWS : (b + 1) * ROWS, j], weights[j]
                for i in range(some.size):
                    some[i] += weight * column[i]


@kernel
def summed_columns(columns: Floats, maxima: Floats, ratio: Floats, out: Floats) -> None:
    """``out = ratio @ columns``, without blocks that are 0. Loops over slices vectorise, those over parts do not."""
    out[:] = 0.0
    for b in range(maxima.shape[0]):
        some = ratio[b * ROWS : (b + 1) * ROWS]
        for j in range(out.size):
            if maxima[b, j] > 0.0:
                column, total = columns[b * ROWS : (b + 1) * ROWS, j], 0.0
                for i in range(some.size):
                    total += column[i] * some[i]
                out[j] += total


@kernel
def log_mean(share: Floats, mixed: Floats) -> float:
    """``share @ log(mixed)``."""
    total = 0.0
    for i in range(mixed.size):
        total += share[i] * log_beside_one(mixed[i], mixed[i] - 1.0)
    return total


@kernel
def block_maxima(columns: Floats, out: Floats) -> None:
    """``out[b] = columns[128 * b : 128 * (b + 1)].max(axis=0)``."""
    for b in range(out.shape[0]):
        for j in range(columns.shape[1]):
            column, largest = columns[b * ROWS : (b + 1) * ROWS, j], 0.0
            for i in range(column.size):
                largest = max(largest, column[i])
            out[b, j] = largest


@kernel
def gram(columns: Floats, maxima: Floats, working: NDArray[np.int64], factor: Floats, out: Floats) -> None:
    """``S.T @ S`` with ``S = factor[:, None] * columns[:, working]``, without columns that are negligible in a block.

    If rows are sorted by their rates and components are narrow, few columns per block are left. This affects only
    Newton's direction, not the solution: the gradient and the value are exact.
    """
    scaled = np.empty((working.size, ROWS))
    inside, ranges = np.empty(working.size, dtype=np.int64), np.empty((working.size, 2), dtype=np.int64)
    out[:] = 0.0
    for b in range(maxima.shape[0]):
        some = factor[b * ROWS : (b + 1) * ROWS]
        n_inside = 0
        for a in range(working.size):
            column = columns[b * ROWS : (b + 1) * ROWS, working[a]]
            if maxima[b, working[a]] > _NOTHING and not_negligible(column, _NOTHING, ranges[n_inside]):
                for i in range(some.size):
                    scaled[n_inside, i] = some[i] * column[i]
                inside[n_inside] = a
                n_inside += 1
        add_products(scaled, ranges, inside[:n_inside], out)


@kernel
def make_feasible(columns: Floats, maxima: Floats, share: Floats, weights: Floats, mixed: Floats) -> None:
    """``mixed = columns @ weights``; rows where that is too small first get weight on their best column.

    Under the best weights no row, whose best column is 1, has less than its share. From less, Newton's steps would only
    double it.
    """
    mixed_columns(columns, maxima, weights, mixed)
    extra = np.zeros(weights.size)
    total = 1.0
    for i in range(mixed.size):
        if mixed[i] < 0.5 * share[i]:
            best = 0
            for j in range(weights.size):
                if columns[i, j] > columns[i, best]:
                    best = j
            extra[best] += share[i]
            total += share[i]
    if total > 1.0:
        for j in range(weights.size):
            weights[j] = (weights[j] + extra[j]) / total
        mixed_columns(columns, maxima, weights, mixed)


@kernel
def working_set(weights: Floats, gradient: Floats, out: NDArray[np.int64]) -> int:
    """Components with weight, and those where the gradient is above 1 and at least as large as at both neighbours.

    At most thirty of the latter, those with the highest gradient. Written to the start of ``out``; returns how many.
    """
    size = weights.size
    height = np.empty(size)
    for j in range(size):
        left = j == 0 or gradient[j] >= gradient[j - 1]
        right = j == size - 1 or gradient[j] >= gradient[j + 1]
        height[j] = gradient[j] if weights[j] == 0.0 and left and right else 0.0
    number = 0
    for j in range(size):
        if weights[j] == 0.0:
            if height[j] <= 1.0:
                continue
            n_higher = 0
            for other in range(size):
                n_higher += height[other] > height[j]
            if n_higher >= _MOST_NEW:
                continue
        out[number] = j
        number += 1
    return number


@kernel
def line_search(
    share: Floats, value: float, aimed: Floats, aim: Floats, weights: Floats, mixed: Floats, trial: Floats
) -> float:
    """Take the longest of halved steps towards ``aimed`` that raises ``share @ log(mixed)``, and return the new value.

    ``aim = columns @ aimed``. If no step helps, ``weights`` and ``mixed`` stay as they are, and -inf is returned. A
    full step may lose an amount that rounding hides: near the maximum the gradient is informative, but the value is
    not. No observation may lose more than nine tenths of its likelihood at once. With few such observations the sum
    hardly shows it, and an observation whose likelihood is nearly 0 recovers very slowly.
    """
    step = 1.0
    for i in range(mixed.size):
        if not aim[i] > 0.1 * mixed[i]:
            step = 0.9
    while step > _SHORTEST_STEP:
        total = 0.0
        for j in range(weights.size):
            total += step * aimed[j] + (1.0 - step) * weights[j]
        lowest = math.inf
        for i in range(mixed.size):
            trial[i] = (step * aim[i] + (1.0 - step) * mixed[i]) / total
            lowest = min(lowest, trial[i])
        if total > 0.0 and lowest > 0.0:
            new_value = log_mean(share, trial)
            if new_value > value or (step == 1.0 and new_value > value - _HIDDEN * (1.0 + abs(value))):
                for j in range(weights.size):
                    weights[j] = (step * aimed[j] + (1.0 - step) * weights[j]) / total
                for i in range(mixed.size):
                    mixed[i] = trial[i]
                return new_value
        step *= 0.5
    return -math.inf


@kernel
def best_weights(columns: Floats, share: Floats, tol: float, weights: Floats, out: Floats) -> None:
    """``weights = argmax of share @ log(columns @ weights)`` over the simplex, from ``weights`` on.

    ``out`` is the value, the gap (it is at most this far below the maximum), and the number of iterations.
    """
    maxima = np.empty(((columns.shape[0] + ROWS - 1) // ROWS, weights.size))
    block_maxima(columns, maxima)
    best_near_weights(columns, maxima, share, tol, weights, out)


@kernel
def best_near_weights(columns: Floats, maxima: Floats, share: Floats, tol: float, weights: Floats, out: Floats) -> None:
    """`best_weights` with the `block_maxima` of the columns, which are not looked at where these are 0."""
    n_rows, size = columns.shape
    mixed, aim, ratio = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows)
    gradient, aimed = np.empty(size), np.empty(size)
    working = np.empty(size, dtype=np.int64)
    make_feasible(columns, maxima, share, weights, mixed)
    value = log_mean(share, mixed)
    for iteration in range(_MOST_ITERATIONS):
        for i in range(n_rows):
            ratio[i] = share[i] / mixed[i]
        summed_columns(columns, maxima, ratio, gradient)
        out[1], out[2] = math.log(max(1.0, gradient.max())), iteration
        if out[1] <= tol or iteration == _MOST_ITERATIONS - 1:
            break
        chosen = working[: working_set(weights, gradient, working)]
        for i in range(n_rows):
            ratio[i] = math.sqrt(share[i]) / mixed[i]
        hessian = np.empty((chosen.size, chosen.size))
        gram(columns, maxima, chosen, ratio, hessian)
        target = np.empty(chosen.size)
        nonnegative_minimum(hessian, 2.0 * gradient[chosen] - 1.0, weights[chosen] > 0.0, target)
        aimed[:] = 0.0
        aimed[chosen] = target
        mixed_columns(columns, maxima, aimed, aim)
        new_value = line_search(share, value, aimed, aim, weights, mixed, ratio)
        if new_value == -math.inf:
            # Newton's step makes no progress (rounding), but an EM step always does.
            weights *= gradient
            weights /= weights.sum()
            mixed_columns(columns, maxima, weights, mixed)
            new_value = log_mean(share, mixed)
        value = new_value
    out[0] = value
