"""Weights of a mixture whose components are given: a concave problem, solved to a duality gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.kernels.weights import best_weights


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
        L, observations x components, in Fortran order; each row has a positive entry.
    multiplicity
        How often each observation occurs, m; None = once.
    start
        First weights.
    tol
        Gap per observation, in nats, at which to stop.
    """
    n_rows = likelihood.shape[0]
    n_total = float(n_rows) if multiplicity is None else float(multiplicity.sum())
    share = np.full(n_rows, 1.0 / n_total) if multiplicity is None else multiplicity / n_total
    weights, found = start / start.sum(), np.empty(3)
    best_weights(likelihood, share, tol, weights, found)
    return Weights(weights, n_total * float(found[0]), n_total * float(found[1]), int(found[2]))
