"""The best of all mixtures of components of one shape, with a bound of how far below the best it may be.

Components begin on a grid where the data are. Their best weights are a convex problem, which is solved on finer and
finer grids around those that have any. Only then are neighbours merged and moved to a maximum by Newton's steps: from
afar these would stray. Components are added where D is positive (see `certificate`). All this sees many exposures as
few (see `condensed`); the bound is that of all observations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from partwise.priors.base import Floats
from partwise.priors.certificate import Slopes
from partwise.priors.condensed import ExposureCells
from partwise.priors.crowd import crowded
from partwise.priors.kernels.directional import mixture_curvature, mixture_slopes
from partwise.priors.kernels.near import ROWS, near_columns
from partwise.priors.kernels.weights import best_near_weights
from partwise.priors.layout import near_zero, rate_cells, rate_range, ratio_grid
from partwise.priors.mixture import REMAINDER, GammaMixture
from partwise.priors.observations import Observations

_MOST_ROUNDS = 25
# Number of rounds without a better bound after which only rounding is left.
_MOST_STUCK = 4
# Neighbours so close, in standard deviations of a log rate, stand for one component between them.
_CLOSE = 0.12
# Standard deviations of a log rate between components at first, and how many there are at most.
_SPACING, _MOST_CELLS = 1.0, 2000
# More rates than this, so many standard deviations apart, make a mixture of thousands of points. Steps of EM (see
# `crowd`) and a bound that is close where D is above this are all that it gets.
_APART, _MOST_RATES, _CROWD_TOL = 2.0, 1000, 1e-3
# One in so many of them has a weight at first: removing components takes longer than adding some.
_SPARSE = 6
# Nats per observation by which weights on grids may be below the best, and the first weight of a new component.
_GRID_TOL, _NEW_WEIGHT = 1e-4, 1e-8
# Distances of the finer grids from the components that have a weight.
_REFINED = (0.3, 0.1)
# Standard deviations within which observations are one, where a grid is weighted first.
_COARSE, _NEARLY = 1.0, 0.3
# The same for searches, bounds of D from which on more observations must tell, and how many times fewer there must be.
_NEARLY_BEST = ((_NEARLY, 1e-5, 3), (0.08, 2e-8, 6))
_MOST_STEPS = 30
_LEAST_DAMPING = 1e-8
# What rounding hides of a mean log evidence.
_HIDDEN = 1e-14
# A step that gains more than this share of the one before has a wrong curvature.
_SLOW = 0.2


@dataclass(frozen=True, eq=False)
class MixturePoints:
    """Weights and means of the components of a mixture, in increasing order of the means."""

    weights: Floats
    means: Floats

    @classmethod
    def of(cls, weights: Floats, means: Floats) -> MixturePoints:
        """In order, without those of no weight, and weights divided by their sum."""
        kept = np.flatnonzero(weights > 0)
        kept = kept[np.argsort(means[kept], kind="stable")]
        return cls(weights[kept] / weights[kept].sum(), means[kept])


@dataclass(frozen=True, eq=False)
class MixtureEvidence:
    """Mean log evidence of a mixture, relative to the best component of each count, with its slopes.

    Attributes
    ----------
    value, log_mixture
        The mean, and that of each observation.
    slope
        In log weights and log means.
    information
        Of a count on the log mean of each component.
    """

    value: float
    log_mixture: Floats
    slope: Floats
    information: Floats


@dataclass(frozen=True, eq=False)
class MixtureSearch:
    """Mixtures of components of one shape for some observations.

    Attributes
    ----------
    data, shape
        The observations, and the shape; infinite for points.
    cells
        Of which the observations are the nodes, if they are: bounds are those of all that is in the cells.
    """

    data: Observations
    shape: float
    cells: ExposureCells | None = None

    def evidence(self, points: MixturePoints, data: Observations | None = None) -> MixtureEvidence:
        """The evidence of a mixture, for these observations or others."""
        data = data or self.data
        sums, logs = np.empty((3, points.means.size)), np.empty(data.counts.size)
        value = mixture_slopes((*data.relative, data.shares), self.shape, (points.means, points.weights), sums, logs)
        slope = np.append(sums[0] - points.weights, sums[1])
        return MixtureEvidence(float(value), logs, slope, sums[2] / np.maximum(sums[0], 1e-300))

    def weighted(self, points: MixturePoints, tol: float) -> MixturePoints:
        """The components with the best weights, to a gap of ``tol`` per observation, without those of weight 0."""
        columns, weights = np.zeros((self.data.counts.size, points.means.size), order="F"), points.weights.copy()
        maxima = np.empty((-(-columns.shape[0] // ROWS), points.means.size))
        near_columns(*self.data.relative, self.shape, points.means, maxima, columns)
        best_near_weights(columns, maxima, self.data.shares, tol, weights, np.empty(3))
        return MixturePoints.of(weights, points.means)

    def refined(self, points: MixturePoints, step: float, tol: float) -> MixturePoints:
        """The best weights of these components and others so many standard deviations of a log rate to either side."""
        aside = np.exp(step / np.sqrt(np.maximum(1.0, self.evidence(points).information)))
        means = np.concatenate((points.means, points.means * aside, points.means / aside))
        means, first = np.unique(means, return_index=True)
        weights = np.append(points.weights, np.zeros(2 * points.weights.size))[first]
        return self.weighted(MixturePoints(weights, means), tol)

    def merged(self, points: MixturePoints, close: float) -> MixturePoints:
        """Neighbours at most ``close`` standard deviations of a log rate apart as one, of the same mean."""
        steps = np.diff(np.log(np.maximum(points.means, 1e-300)))
        apart = ~(steps * np.sqrt(np.maximum(1.0, self.evidence(points).information[1:])) < close)
        first = np.flatnonzero(np.append(True, apart))
        weights = np.add.reduceat(points.weights, first)
        return MixturePoints(weights, np.add.reduceat(points.weights * points.means, first) / weights)

    def polished(self, points: MixturePoints, tol: float) -> MixturePoints:
        """Improve weights and means together by damped Newton steps.

        They are steps in weights and in weights times log means. In these a mixture is linear but for the squares of
        what means move by, so that a step may be long, and may take all of a weight. In logarithms of weights, half of
        the steps went too far. Steps end when D is at most ``tol`` at all components and at the maxima that they are
        about to reach. A curvature serves several of them, while they are short.
        """
        damping, trial, value, expected, renew, stale = _LEAST_DAMPING, points, -np.inf, 0.0, True, False
        for _ in range(_MOST_STEPS):
            new = self.evidence(trial)
            if new.value > value - _HIDDEN * (1.0 + abs(new.value)):
                value, points, here, stale = new.value, trial, new, not renew
                damping = max(0.1 * damping, _LEAST_DAMPING)
            else:
                damping = damping if stale else max(10.0 * damping, 1e-4)
                renew, stale = stale, False
            if renew:
                curvature, scale = self._curvature(points, here)
            move = _uphill(curvature, damping, here.slope / scale, -scale[: points.weights.size]) / scale
            steps, slopes = move.reshape(2, -1), here.slope.reshape(2, -1) / points.weights
            grown = np.maximum(1.0 + steps[0], 0.0)
            moved = np.clip(steps[1] / np.maximum(grown, 0.1), -1.0, 1.0)
            left = float(np.max(np.maximum(slopes[0], 0.0) + np.abs(slopes[1] * moved)))
            if left < tol:
                break
            renew, expected = left > _SLOW * expected or not grown.all(), left
            trial = MixturePoints.of(points.weights * grown, points.means * np.exp(moved))
        return points

    def _curvature(self, points: MixturePoints, here: MixtureEvidence) -> tuple[Floats, Floats]:
        """The negative Hessian in scaled variables, and the scales."""
        k = points.weights.size
        sums, gauss = np.empty((3, k)), np.empty((2 * k, 2 * k))
        observed, weighted = (*self.data.relative, self.data.shares), (points.means, points.weights)
        mixture_curvature(observed, self.shape, weighted, here.log_mixture, sums, gauss)
        # The score of an observation that has a component of its own is 0: all curvature there is information.
        scale = np.sqrt(np.diag(gauss) + np.append(np.zeros(k), points.weights * here.information) + 1e-12)
        rows = k + np.arange(k)
        gauss[rows, rows] -= sums[2]
        gauss /= scale[:, None]
        gauss /= scale
        return gauss, scale

    def excess(self, points: MixturePoints, tol: float) -> tuple[float, Floats]:
        """The bound of D over all observations, and log means of its maxima."""
        whole = self.data if self.cells is None else self.cells.data
        logs = self.evidence(points, whole).log_mixture
        return Slopes(whole, logs, self.shape, self.cells).supremum(tol)

    def run(self, points: MixturePoints, floor: float, tol: float) -> tuple[MixturePoints, float]:
        """Move components, and add some where the slope is positive, until it is at most ``tol`` everywhere."""
        best, chosen, stuck, close = np.inf, points, 0, _CLOSE
        for _ in range(_MOST_ROUNDS):
            points = self.weighted(self.polished(self.merged(points, close), 0.2 * tol), 0.5 * tol)
            excess, places = self.excess(points, tol)
            stuck = 0 if excess < 0.9 * best else stuck + 1
            if excess < best:
                best, chosen = excess, points
            if excess <= tol or stuck > _MOST_STUCK:
                break
            close *= 0.5
            weights = np.append(points.weights, np.full(places.size, _NEW_WEIGHT))
            points = MixturePoints.of(weights, np.append(points.means, np.exp(np.maximum(places, floor))))
        return chosen, best


def _uphill(curvature: Floats, damping: float, gradient: Floats, least: Floats) -> Floats:
    """A Newton step, damped more if the evidence is not concave; where it would take more than a weight, all of it."""
    move, free, half = np.zeros(gradient.size), np.ones(gradient.size, dtype=bool), gradient.size // 2
    while True:
        damped = curvature.copy() if free.all() else curvature[np.ix_(free, free)]
        np.fill_diagonal(damped, damped.diagonal() + damping)
        try:
            root = cholesky(damped.T, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            damping = max(10.0 * damping, 1e-4)
            continue
        move[free] = cho_solve((root, True), (gradient - curvature[:, ~free] @ move[~free])[free], check_finite=False)
        gone = free[:half] & (move[:half] < least)
        if not gone.any():
            return move
        move[:half][gone], move[half:][gone] = least[gone], 0.0
        free &= ~np.tile(gone, 2)


def best_mixture(data: Observations, shape: float, tol: float) -> tuple[GammaMixture, float]:
    """The mixture of components of a shape that makes the counts most probable, and by how many nats any may be better.

    Parameters
    ----------
    tol
        Nats per observation by which that may be, if it can be reached.
    """
    floor = np.log(near_zero(data)).max(initial=-np.inf) if shape < np.inf else -np.inf
    data = data.by_rate()
    few, cells = data.coarse(_COARSE, shape), ExposureCells.of(data)
    whole = MixtureSearch(data if cells is None else cells.observations(), shape, cells)
    apart = _start(few, shape, _APART, few.counts.size)
    if apart.means.size > _MOST_RATES and shape == np.inf:
        start = np.log(np.maximum(apart.means, near_zero(data).max(initial=0.0)))
        weights, logs = crowded(whole.data, start)
        # The lowest stands for 0 if that is among the points.
        points = MixturePoints(weights, np.where(logs > start[0], np.exp(logs), apart.means[0]))
        relative = GammaMixture.points(points.means, points.weights).moments(data.counts, data.exposure)[2]
        excess = Slopes(data, relative, shape, cells).supremum(_CROWD_TOL)[0]
        excess += REMAINDER * (1.0 + excess)
    else:
        nearly = MixtureSearch(data.coarse(_NEARLY, shape).by_rate(), shape)
        points = MixtureSearch(few.by_rate(), shape).weighted(_start(few, shape, _SPACING, _MOST_CELLS), _GRID_TOL)
        for step in _REFINED:
            points = nearly.refined(points, step, _GRID_TOL)
        for width, nearly_best, fewer in _NEARLY_BEST:
            if width < _NEARLY and fewer * nearly.data.counts.size <= whole.data.counts.size:
                nearly = MixtureSearch(data.coarse(width, shape).by_rate(), shape)
            if fewer * nearly.data.counts.size > whole.data.counts.size:
                break
            points = nearly.run(points, floor, nearly_best)[0]
        points, excess = whole.run(points, floor, tol)
    prior = GammaMixture(points.weights, np.full(points.means.size, shape), points.means)
    return prior, data.number * float(np.log1p(max(excess, 0.0)))


def _start(data: Observations, shape: float, spacing: float, most: int) -> MixturePoints:
    """Components where the data are and between, the overall rate, and 0 if some count is 0; few have a weight."""
    zero = np.zeros(near_zero(data).size) if shape == np.inf else near_zero(data)
    between = ratio_grid(*rate_range(data), 2.0)
    means = np.unique(np.concatenate((zero, rate_cells(data, shape, spacing, most)[0], between, [data.overall_rate])))
    weights = np.where(np.arange(means.size) % _SPARSE == 0, 1.0, 0.0)
    return MixturePoints(weights / weights.sum(), means)
