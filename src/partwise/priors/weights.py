"""Weights of a mixture whose components are given: a concave problem, solved to a duality gap."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from partwise.priors.base import Floats

# Components that enter at a time, beside those that have weight.
_MOST_NEW = 30
_MOST_ITERATIONS = 300
_SHORTEST_STEP = 1e-4
_BLOCK = 4096
_NOTHING = 1e-14


@dataclass(frozen=True)
class Weights:
    """What `solve_weights` found.

    Attributes
    ----------
    weights
        They sum to 1.
    log_likelihood
        Σ_i m_i log Σ_j L_ij π_j.
    gap
        Nats by which the log-likelihood may at most be below its maximum.
    n_iter
        Iterations.
    """

    weights: Floats
    log_likelihood: float
    gap: float
    n_iter: int


def solve_weights(likelihood: Floats, multiplicity: Floats | None, start: Floats, tol: float) -> Weights:
    """Maximise Σ_i m_i log Σ_j L_ij π_j over the simplex, by Newton steps on few components at a time.

    With g_j = Σ_i m_i L_ij / (Lπ)_i / Σ_i m_i the maximum is at most Σ m log max_j g_j above, which is the stop.
    Components with weight, and the local maxima of g where it is above 1, form the working set (after Wang 2007, and
    Kim, Carbonetto, Stephens & Anitescu 2020): zeros leave and come back, so that a start with zeros does no harm.

    Parameters
    ----------
    likelihood
        L, observations x components, by columns (Fortran order) for speed; each row has a positive entry.
    multiplicity
        How often each observation occurs, m; None = once.
    start
        First weights.
    tol
        Gap per observation, in nats, at which to stop.
    """
    rows = _Rows(likelihood)
    n_total = float(likelihood.shape[0]) if multiplicity is None else float(multiplicity.sum())
    share = np.full(likelihood.shape[0], 1.0 / n_total) if multiplicity is None else multiplicity / n_total
    weights = _feasible(likelihood, start / start.sum())
    mixed = _mixed(likelihood, weights)
    value = float(share @ np.log(mixed))
    gap = np.inf
    iteration = 0
    for iteration in range(_MOST_ITERATIONS):
        ratio = share / mixed
        gradient = likelihood.T @ ratio
        gap = float(np.log(max(gradient.max(), 1.0)))
        if gap <= tol or iteration == _MOST_ITERATIONS - 1:
            break
        working = _working_set(weights, gradient)
        hessian = rows.gram(working, np.sqrt(share) / mixed)
        target = nonnegative_minimum(hessian, 2.0 * gradient[working] - 1.0, weights[working] > 0)
        weights, mixed, new_value = _line_search(likelihood, share, weights, working, target, mixed, value)
        if new_value <= value:
            # No progress by Newton's step (rounding): EM's cannot fail to make some.
            weights = weights * gradient
            weights /= weights.sum()
            mixed = _mixed(likelihood, weights)
            new_value = float(share @ np.log(mixed))
        value = new_value
    return Weights(weights, n_total * value, n_total * gap, iteration)


class _Rows:
    """Gram matrices of scaled rows, by blocks of rows, leaving out the columns that are nothing in a block.

    Where rows come in the order of their rates and components are narrow, that leaves few columns a block. Only
    Newton's direction depends on it, not where it leads: the gradient and the value are exact.
    """

    def __init__(self, likelihood: Floats) -> None:
        self._likelihood = likelihood
        edges = np.append(np.arange(0, likelihood.shape[0], _BLOCK), likelihood.shape[0])
        self._blocks = [slice(first, last) for first, last in itertools.pairwise(edges)]
        self._largest = [likelihood[block].max(axis=0) for block in self._blocks]

    def gram(self, working: np.ndarray, factor: Floats) -> Floats:
        """``S.T @ S`` with ``S = factor[:, None] * likelihood[:, working]``."""
        total = np.zeros((working.size, working.size))
        for block, largest in zip(self._blocks, self._largest, strict=True):
            inside = np.flatnonzero(largest[working] > _NOTHING)
            scaled = self._likelihood[block, working[inside]] * factor[block, None]
            total[np.ix_(inside, inside)] += scaled.T @ scaled
        return total


def _mixed(likelihood: Floats, weights: Floats) -> Floats:
    used = np.flatnonzero(weights)
    mixed: Floats = likelihood[:, used] @ weights[used] if 2 * used.size < weights.size else likelihood @ weights
    return mixed


def _feasible(likelihood: Floats, weights: Floats) -> Floats:
    """Weights under which every observation is possible: some for the best component of those that are not."""
    lost = np.flatnonzero(_mixed(likelihood, weights) < 1e-12)
    if not lost.size:
        return weights
    extra = np.bincount(likelihood[lost].argmax(axis=1), minlength=weights.size) / likelihood.shape[0]
    together: Floats = (weights + extra) / (1.0 + extra.sum())
    return together


def _working_set(weights: Floats, gradient: Floats) -> np.ndarray:
    """Components with weight, and those where the gradient is above 1 and at least as large as at both neighbours."""
    padded = np.concatenate(([-np.inf], gradient, [-np.inf]))
    peaks = (gradient > 1.0) & (gradient >= padded[:-2]) & (gradient >= padded[2:])
    entering = np.flatnonzero(peaks & (weights == 0))
    if entering.size > _MOST_NEW:
        entering = entering[np.argsort(-gradient[entering], kind="stable")[:_MOST_NEW]]
    return np.union1d(np.flatnonzero(weights), entering)


def _line_search(
    likelihood: Floats,
    share: Floats,
    weights: Floats,
    working: np.ndarray,
    target: Floats,
    mixed: Floats,
    value: float,
) -> tuple[Floats, Floats, float]:
    """The longest of halved steps towards the target that raises the log-likelihood; the old point if none does.

    No observation may lose more than nine tenths of its likelihood at once: with few observations at stake the sum
    hardly shows it, and one whose likelihood is nearly 0 comes back very slowly.
    """
    aimed = np.zeros_like(weights)
    aimed[working] = target
    aim = _mixed(likelihood, aimed)
    step = 1.0 if (aim > 0.1 * mixed).all() else 0.9
    while step > _SHORTEST_STEP:
        moved = step * aimed + (1.0 - step) * weights
        total = moved.sum()
        new_mixed = (step * aim + (1.0 - step) * mixed) / total
        if total > 0 and new_mixed.min() > 0:
            new_value = float(share @ np.log(new_mixed))
            if new_value > value:
                return moved / total, new_mixed, new_value
        step *= 0.5
    return weights, mixed, value


def nonnegative_minimum(matrix: Floats, vector: Floats, free: np.ndarray) -> Floats:
    """Find the y >= 0 of least y'Ay/2 - b'y, by active sets (Lawson & Hanson 1974; Bro & de Jong 1997).

    Parameters
    ----------
    matrix, vector
        A, positive semidefinite, and b.
    free
        Which coordinates to try as positive first.
    """
    size = vector.size
    jitter = 1e-13 * float(np.trace(matrix)) + 1e-300
    regular = matrix + jitter * np.eye(size)
    free = free.copy()
    y = np.zeros(size)
    tol = 1e-12 * float(np.abs(vector).max())
    for _ in range(3 * size + 10):
        while free.any():
            inside = np.flatnonzero(free)
            solution = np.linalg.solve(regular[np.ix_(inside, inside)], vector[inside])
            if (solution > 0).all():
                y[:] = 0.0
                y[inside] = solution
                break
            # As far towards it as nothing becomes negative; what ends at 0 is no longer free.
            down = solution <= 0
            old = y[inside]
            moving = old[down] / np.maximum(old[down] - solution[down], 1e-300)
            y[inside] = old + min(1.0, float(moving.min(initial=1.0))) * (solution - old)
            free[inside[down & (y[inside] <= 1e-15 * max(float(y.max()), 1e-300))]] = False
            y[~free] = 0.0
        slope = vector - regular @ y
        slope[free] = -np.inf
        best = int(slope.argmax())
        if slope[best] <= tol:
            break
        free[best] = True
    return y
