"""The minimum of a quadratic over nonnegative numbers: the step for the weights of a mixture."""

import math

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.jit import kernel
from partwise.priors.base import Floats

# Rounds that exchange a whole active set, before variables change one at a time.
_MOST_PIVOTS = 20


@kernel
def solve(matrix: Floats, jitter: float, vector: Floats, inside: NDArray[np.int64], lower: Floats, out: Floats) -> None:
    """``out = solve((matrix + jitter * diag(diag(matrix)))[ix_(inside, inside)], vector[inside])``, by Cholesky."""
    size = inside.size
    # Components far apart share no observation: entries before the first nonzero of a row stay 0.
    first = np.zeros(size, dtype=np.int64)
    for a in range(size):
        while first[a] < a and matrix[inside[a], inside[first[a]]] == 0.0:
            first[a] += 1
        for c in range(first[a], a + 1):
            total = matrix[inside[a], inside[c]]
            start = max(first[a], first[c])
            left, right = lower[a, start:c], lower[c, start:c]
            for i in range(left.size):
                total -= left[i] * right[i]
            if a == c:
                least = jitter * matrix[inside[a], inside[a]] + 1e-300
                lower[a, a] = math.sqrt(max(total + least, 0.01 * least))
            else:
                lower[a, c] = total / lower[c, c]
    for a in range(size):
        total = vector[inside[a]]
        left, right = lower[a, first[a] : a], out[first[a] : a]
        for i in range(left.size):
            total -= left[i] * right[i]
        out[a] = total / lower[a, a]
    for a in range(size - 1, -1, -1):
        out[a] /= lower[a, a]
        left, right = lower[a, first[a] : a], out[first[a] : a]
        for i in range(left.size):
            right[i] -= left[i] * out[a]


@kernel
def pivoted_minimum(
    matrix: Floats, vector: Floats, jitter: float, tol: float, free: NDArray[np.bool_], lower: Floats, out: Floats
) -> bool:
    """`nonnegative_minimum` in which all variables on the wrong side change sides at once; True if that ended.

    Portugal, Judice & Vicente 1994. It usually ends after a few solutions, but may cycle.
    """
    size = vector.size
    inside, solution = np.empty(size, dtype=np.int64), np.empty(size)
    for _ in range(_MOST_PIVOTS):
        n_inside = 0
        for a in range(size):
            if free[a]:
                inside[n_inside] = a
                n_inside += 1
        solve(matrix, jitter, vector, inside[:n_inside], lower, solution)
        out[:] = 0.0
        n_wrong = 0
        for a in range(n_inside):
            out[inside[a]] = solution[a]
        for a in range(size):
            if free[a]:
                wrong = out[a] <= 0.0
            else:
                slope = vector[a]
                for c in range(n_inside):
                    slope -= matrix[a, inside[c]] * solution[c]
                wrong = slope > tol
            free[a] = free[a] != wrong
            n_wrong += wrong
        if n_wrong == 0:
            return True
    return False


@kernel
def nonnegative_minimum(matrix: Floats, vector: Floats, free: NDArray[np.bool_], out: Floats) -> None:
    """``out = nnls`` of a quadratic: the y >= 0 of least y'Ay/2 - b'y, by active sets, starting from ``free``.

    Lawson & Hanson 1974; Bro & de Jong 1997. ``matrix`` is positive semidefinite; ``free`` is changed.
    """
    size = vector.size
    largest = 0.0
    for a in range(size):
        largest = max(largest, abs(vector[a]))
    # Relative to the curvature of each: rare and frequent components differ by many orders of magnitude.
    jitter = 1e-13 * size
    tol = 1e-12 * largest
    inside = np.empty(size, dtype=np.int64)
    solution = np.empty(size)
    lower = np.empty((size, size))
    if pivoted_minimum(matrix, vector, jitter, tol, free, lower, out):
        return
    out[:] = 0.0
    for _ in range(3 * size + 10):
        while True:
            n_inside = 0
            for a in range(size):
                if free[a]:
                    inside[n_inside] = a
                    n_inside += 1
            if n_inside == 0:
                break
            solve(matrix, jitter, vector, inside[:n_inside], lower, solution)
            # Go towards the solution until something would become negative; variables that end at 0 are no longer free.
            step = 1.0
            for a in range(n_inside):
                if solution[a] <= 0.0:
                    old = out[inside[a]]
                    step = min(step, old / max(old - solution[a], 1e-300))
            crossed = step < 1.0
            top = 0.0
            for a in range(n_inside):
                at = inside[a]
                if solution[a] <= 0.0:
                    crossed = True
                out[at] += step * (solution[a] - out[at])
                top = max(top, out[at])
            if not crossed:
                break
            for a in range(n_inside):
                at = inside[a]
                if solution[a] <= 0.0 and out[at] <= 1e-15 * max(top, 1e-300):
                    free[at] = False
                    out[at] = 0.0
        best = -1
        highest = tol
        for a in range(size):
            if not free[a]:
                slope = vector[a]
                for c in range(size):
                    slope -= matrix[a, c] * out[c]
                if slope > highest:
                    highest = slope
                    best = a
        if best < 0:
            break
        free[best] = True
