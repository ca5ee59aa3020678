"""Newton's method for smooth functions of a few bounded variables that need not be concave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from partwise.priors.base import Floats

Evaluate = Callable[[Floats], tuple[float, Floats, Floats]]

_LONGEST_STEP = 3.0
_MOST_HALVINGS = 30


@dataclass(frozen=True)
class Maximum:
    """Where `maximise` ended, what the function is there, and how many times it was evaluated."""

    point: Floats
    value: float
    n_evaluations: int


def maximise(evaluate: Evaluate, start: Floats, bound: Floats, *, tol: float, max_iter: int = 100) -> Maximum:
    """A local maximum by Newton steps, each upward and never too long.

    Eigenvalues of the Hessian that are positive are turned round, so that the step leads up where the function is not
    concave; a step is at most 3 long along any eigenvector, and is halved until the function rises.

    Parameters
    ----------
    evaluate
        Gives the function, its gradient and its Hessian.
    start
        First point.
    bound
        Largest absolute value of each variable.
    tol
        Stop when a step promises less than this.
    max_iter
        Most steps.
    """
    point = np.clip(start, -bound, bound)
    value, gradient, hessian = evaluate(point)
    n_evaluations = 1
    for _ in range(max_iter):
        step = _step(gradient, hessian)
        step = np.clip(point + step, -bound, bound) - point
        promise = float(gradient @ step)
        if promise < tol or n_evaluations > 2 * max_iter:
            break
        for _ in range(_MOST_HALVINGS):
            new_value, new_gradient, new_hessian = evaluate(point + step)
            n_evaluations += 1
            if new_value > value + 1e-4 * promise:
                break
            step, promise = 0.5 * step, 0.5 * promise
        else:
            break
        point, value, gradient, hessian = point + step, new_value, new_gradient, new_hessian
    return Maximum(point, value, n_evaluations)


def _step(gradient: Floats, hessian: Floats) -> Floats:
    values, vectors = np.linalg.eigh(-hessian)
    size = np.abs(values)
    along = (vectors.T @ gradient) / np.maximum(size, 1e-10 * float(size.max()) + 1e-300)
    # Along each eigenvector on its own: a direction in which the function is nearly flat must not hold up the others.
    step: Floats = vectors @ np.clip(along, -_LONGEST_STEP, _LONGEST_STEP)
    return step
