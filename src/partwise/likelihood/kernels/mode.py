"""The mode of a row's posterior in logarithms of the mixing proportions, and how narrow the posterior is there.

With proportions θ of the open components, T[Π_f (q_f·y)^x_f] = Γ(A + L) / Π Γ(a_k) ∫ Π θ_k^a_k Π_f (q_f·θ)^x_f du. The
integral is over log ratios u of the θ_k, and the Jacobian is the one θ_k more that the power has. The integrand has a
single mode: wherever its gradient a_k + N_k - (A + L) θ_k vanishes, with N_k the expected tokens of component k, minus
its second derivative is (A + L) times a variance, so positive.
"""

import math
from typing import NamedTuple

import numpy as np

from partwise.kernels.cholesky import solve
from partwise.kernels.jit import inner_kernel
from partwise.likelihood.kernels.rows import Floats, OpenRow, RowBuffers

# EM steps, each of which raises the density, lead to where Newton's method converges.
_FIRST_STEPS = 6
_MOST_STEPS = 60
_MOST_HALVINGS = 12
# Half of what a Newton step would still gain, in nats.
_TOLERANCE = 5e-3
# Pivots are kept above this share of the diagonal. Where rounding leaves nothing, the direction is undetermined.
_LEAST_PIVOT = 1e-13


class Mode(NamedTuple):
    """The posterior of a row's mixing proportions around its mode.

    Attributes
    ----------
    shares, totals
        Proportions θ_k at the mode, and the expected tokens N_k of each component there.
    allocated
        Expected allocations r_fk = q_fk θ_k / (q_f·θ) of a token of each feature.
    factor
        Lower triangular Cholesky factor of diag(a) + Σ_f x_f r_f r_f', the precision of log y_k.
    step, trial, vector
        Buffers.
    """

    shares: Floats
    totals: Floats
    allocated: Floats
    factor: Floats
    step: Floats
    trial: Floats
    vector: Floats


def new_mode(n_features: int, n_components: int) -> Mode:
    """Allocate buffers for rows of at most this many nonzeros."""
    shares, totals, step, trial, vector = np.zeros((5, n_components))
    factor = np.zeros((n_components, n_components))
    return Mode(shares, totals, np.zeros((n_features, n_components)), factor, step, trial, vector)


@inner_kernel
def _allocate(row: RowBuffers, size: OpenRow, shapes: Floats, shares: Floats, mode: Mode) -> float:
    """``r = normalise(weights * shares)``, ``totals = counts @ r``; returns the log density at these shares."""
    n_open = size.n_components
    value = 0.0
    for k in range(n_open):
        mode.totals[k] = 0.0
        value += shapes[k] * math.log(shares[k])
    for f in range(size.n_features):
        rate = 0.0
        for k in range(n_open):
            rate += row.weights[f, k] * shares[k]
        value += row.counts[f] * math.log(rate)
        scale = 1.0 / rate
        for k in range(n_open):
            mode.allocated[f, k] = row.weights[f, k] * shares[k] * scale
        for k in range(n_open):
            mode.totals[k] += row.counts[f] * mode.allocated[f, k]
    return value


@inner_kernel
def cholesky(n_open: int, matrix: Floats) -> None:
    """``matrix[:] = np.linalg.cholesky(matrix)`` of the lower triangle, in place."""
    for i in range(n_open):
        least = _LEAST_PIVOT * matrix[i, i]
        for j in range(i + 1):
            total = 0.0
            for m in range(j):
                total += matrix[i, m] * matrix[j, m]
            if i == j:
                matrix[i, i] = math.sqrt(max(matrix[i, i] - total, least))
            else:
                matrix[i, j] = (matrix[i, j] - total) / matrix[j, j]


@inner_kernel
def _factorise(row: RowBuffers, size: OpenRow, shapes: Floats, mode: Mode) -> None:
    """``factor = np.linalg.cholesky(np.diag(shapes) + (counts * r.T) @ r)``."""
    n_open, factor = size.n_components, mode.factor
    for i in range(n_open):
        for j in range(i):
            factor[i, j] = 0.0
        factor[i, i] = shapes[i]
    for f in range(size.n_features):
        for i in range(n_open):
            scaled = row.counts[f] * mode.allocated[f, i]
            for j in range(i + 1):
                factor[i, j] += scaled * mode.allocated[f, j]
    cholesky(n_open, factor)


@inner_kernel
def find_mode(row: RowBuffers, size: OpenRow, shapes: Floats, mode: Mode) -> None:
    """Find the mode: first by EM, then by Newton's method, with EM steps as a safeguard.

    At the end ``shares`` are ``(shapes + totals) / sum``, and the factor is computed at them.
    """
    n_open, shares, totals, step, trial = size.n_components, mode.shares, mode.totals, mode.step, mode.trial
    concentration = float(size.n_tokens)
    for k in range(n_open):
        concentration += shapes[k]
        shares[k] = 1.0 / n_open
    value = _allocate(row, size, shapes, shares, mode)
    for iteration in range(_MOST_STEPS):
        if iteration >= _FIRST_STEPS:
            _factorise(row, size, shapes, mode)
            for k in range(n_open):
                mode.vector[k] = shapes[k] + totals[k] - concentration * shares[k]
                step[k] = mode.vector[k]
            solve(mode.factor, n_open, step)
            gain = 0.0
            for k in range(n_open):
                gain += mode.vector[k] * step[k]
            if gain < 2.0 * _TOLERANCE:
                return
            length, moved = 1.0, False
            for _ in range(_MOST_HALVINGS):
                total = 0.0
                for k in range(n_open):
                    # No share is smaller at the mode. From far below it, Newton's method would need many steps back.
                    least = shapes[k] / concentration
                    trial[k] = max(shares[k] * math.exp(min(length * step[k], 30.0)), least)
                    total += trial[k]
                for k in range(n_open):
                    trial[k] /= total
                reached = _allocate(row, size, shapes, trial, mode)
                if reached > value:
                    value, moved = reached, True
                    for k in range(n_open):
                        shares[k] = trial[k]
                    break
                length *= 0.5
            if moved:
                continue
            value = _allocate(row, size, shapes, shares, mode)
        for k in range(n_open):
            shares[k] = (shapes[k] + totals[k]) / concentration
        value = _allocate(row, size, shapes, shares, mode)
    _factorise(row, size, shapes, mode)


@inner_kernel
def narrowness(n_open: int, shapes: Floats, ahead: Floats, mode: Mode, n_rounds: int) -> tuple[float, float, float]:
    """Largest eigenvalue of ``solve(precision, diag(c) - outer(c, c) / c.sum())`` with ``c = shapes + ahead``.

    It says how many times narrower than the posterior, in variance, a Dirichlet distribution with concentrations c is
    in its worst direction. Found by the power method. Also returns how much of it comes from the shapes, and from what
    is ahead.
    """
    vector, step = mode.vector, mode.step
    total = 0.0
    for k in range(n_open):
        total += shapes[k] + ahead[k]
        # Any start works that is not orthogonal to the eigenvector.
        vector[k] = math.sin(1.0 + 2.0 * k * k)
    for _ in range(n_rounds):
        mean = 0.0
        for k in range(n_open):
            mean += (shapes[k] + ahead[k]) * vector[k] / total
        for k in range(n_open):
            vector[k] = (shapes[k] + ahead[k]) * (vector[k] - mean)
        solve(mode.factor, n_open, vector)
        largest = 0.0
        for k in range(n_open):
            largest = max(largest, abs(vector[k]))
        for k in range(n_open):
            vector[k] /= largest
    mean = 0.0
    for k in range(n_open):
        mean += (shapes[k] + ahead[k]) * vector[k] / total
    of_shapes, of_ahead, precision = 0.0, 0.0, 0.0
    for k in range(n_open):
        centred = vector[k] - mean
        of_shapes += shapes[k] * centred * centred
        of_ahead += ahead[k] * centred * centred
        step[k] = 0.0
        for j in range(k, n_open):
            step[k] += mode.factor[j, k] * vector[j]
        precision += step[k] * step[k]
    return (of_shapes + of_ahead) / precision, of_shapes / precision, of_ahead / precision
