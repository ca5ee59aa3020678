"""Families whose components lie on a grid and whose weights are fitted."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.kernels.columns import evidence_columns, likelihood_from_logs, rate_extremes
from partwise.priors.kernels.weights import best_weights
from partwise.priors.mixture import GammaMixture, MixtureFamily
from partwise.priors.observations import Observations

# Weights of a mixture whose components are given: a concave problem, solved to a duality gap.


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


# Entries of a Gram matrix times rows, from which a cold start first looks at some of the rows.
_LARGE = 1e8
_SAMPLE = 2000


@dataclass(frozen=True)
class GridFamily(MixtureFamily):
    """Mixtures of components on a grid that the first data lay out; later fits keep it, or add to it.

    Parameters
    ----------
    tol
        Duality gap per observation, in nats, at which the weights are good enough.
    """

    def eased(self, nats: float, n_observations: int) -> Self:
        """The same with a gap of so many nats in all: for fits that are soon repeated with other counts."""
        return replace(self, tol=max(self.tol, nats / max(n_observations, 1)))

    @abstractmethod
    def grid(self, lowest: float, highest: float, data: Observations) -> tuple[Floats, Floats]:
        """Shapes and means of the components, for rates from ``lowest`` to ``highest`` behind such data."""

    def fit_to(self, data: Observations, start: GammaMixture | None = None) -> GammaMixture:
        """The grid's mixture that makes the counts most probable."""
        return self.solve(data, start)[0]

    def solve(self, data: Observations, start: GammaMixture | None = None) -> tuple[GammaMixture, Weights]:
        """The same with what the solver says of it; likelihoods there are relative to the best on the grid."""
        grid = self._grid_for(data, start)
        large = data.counts.size * grid.weights.size**2 > _LARGE
        if large:
            data = data.by_rate()
        likelihood = likelihood_columns(data, grid.shapes, grid.means)
        repeats = None if data.repeats.size == 1 else data.repeats
        weights = grid.weights
        if start is None and large and data.counts.size > _SAMPLE:
            some = np.linspace(0, data.counts.size - 1, _SAMPLE).astype(np.intp)
            counted = None if repeats is None else repeats[some]
            weights = solve_weights(np.asfortranarray(likelihood[some]), counted, weights, 1e-6).weights
        found = solve_weights(likelihood, repeats, weights, self.tol)
        return GammaMixture(found.weights, grid.shapes, grid.means), found

    def _grid_for(self, data: Observations, start: GammaMixture | None) -> GammaMixture:
        lowest, highest = rate_range(data)
        if start is None:
            shapes, means = self.grid(lowest, highest, data)
            return GammaMixture(np.ones(means.size), shapes, means)
        if lowest >= 0.5 * start.means.min() and highest <= 2.0 * start.means.max():
            return start
        # The range has grown: add what a grid for it has outside of the old one.
        shapes, means = self.grid(lowest, highest, data)
        new = (means < start.means.min()) | (means > start.means.max())
        return GammaMixture(
            np.concatenate((start.weights, np.zeros(new.sum()))),
            np.concatenate((start.shapes, shapes[new])),
            np.concatenate((start.means, means[new])),
        )


def rate_range(data: Observations) -> tuple[float, float]:
    """Means of the lowest and the highest component worth having.

    From a twentieth of the smallest positive rate x / s to twice the largest. But a component whose expected count over
    all observations is a hundredth cannot be told from 0, so there is no need to go below that.
    """
    if data.total_exposure <= 0:
        return 1.0, 1.0
    nothing = 0.01 / data.total_exposure
    smallest, largest = rate_extremes(data.counts, data.exposure)
    if largest <= 0:
        return nothing, nothing
    lowest = max(0.05 * smallest, nothing)
    return lowest, max(2.0 * largest, lowest)


def ratio_grid(lowest: float, highest: float, ratio: float) -> Floats:
    """Means from lowest to highest (or just above), each ``ratio`` times the one before."""
    steps = int(np.ceil(np.log(highest / lowest) / np.log(ratio) - 1e-9))
    grid: Floats = lowest * ratio ** np.arange(steps + 1, dtype=np.float64)
    return grid


def likelihood_columns(data: Observations, shapes: Floats, means: Floats) -> Floats:
    """L_ij = p(x_i | component j), divided by the largest of its row; Fortran order. Shapes up to 1e3, or infinite."""
    columns = log_columns(data, shapes, means)
    likelihood_from_logs(columns)
    return columns


def log_columns(data: Observations, shapes: Floats, means: Floats) -> Floats:
    """Log evidence of each count under each component, relative to its best rate. Shapes up to 1e3, or infinite."""
    columns = np.empty((data.counts.size, means.size), order="F")
    evidence_columns(data.counts, data.exposure, shapes, means, columns)
    return columns
