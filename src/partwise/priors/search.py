"""The best of all mixtures of components of one shape, with a bound of how far below the best it may be.

Components begin on a grid where the data are. Their best weights are a convex problem, which is solved on finer and
finer grids around those that have any. Only then are neighbours merged and moved to a maximum by Newton's steps: from
afar these would stray. Components are added where D is positive (see `certificate`). All this sees many exposures as
few (see `condensed`); the bound is that of all observations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.certificate import Slopes
from partwise.priors.condensed import ExposureCells
from partwise.priors.kernels.columns import likelihood_from_logs
from partwise.priors.kernels.directional import log_likelihood_columns, mixture_curvature, mixture_slopes
from partwise.priors.kernels.weights import best_weights
from partwise.priors.layout import near_zero, rate_cells, rate_range, ratio_grid
from partwise.priors.mixture import GammaMixture
from partwise.priors.observations import Observations

_MOST_ROUNDS = 25
# Rounds without a better bound: rounding is what is left.
_MOST_STUCK = 4
# Neighbours so close, in standard deviations of a log rate, stand for one component between them.
_CLOSE = 0.02
# Standard deviations of a log rate between components at first, and how many there are at most.
_SPACING, _MOST_CELLS = 0.5, 2000
# One in so many of them has a weight at first: removing components takes longer than adding some.
_SPARSE = 6
# Distances of the finer grids from the components that have a weight.
_REFINED = (0.3, 0.1, 0.03, 0.01)
# Standard deviations within which observations are one, where a grid is weighted first.
_COARSE = 1.0
_MOST_STEPS = 30
# The largest logarithm of a likelihood ratio that is looked at.
_LARGEST = 300.0
_LEAST_DAMPING = 1e-8
# What rounding hides of a mean log evidence.
_HIDDEN = 1e-15
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
        """The components with the best weights, to a gap of ``tol`` per observation; those without are left out."""
        n = self.data.counts.size
        columns, weights = np.empty((n, points.means.size), order="F"), points.weights.copy()
        log_likelihood_columns(*self.data.relative, self.shape, points.means, columns)
        likelihood_from_logs(columns, np.empty(n))
        best_weights(columns, self.data.shares, tol, weights, np.empty(3))
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
        """The mixture moved uphill, weights and means together, by damped Newton steps.

        They end when D is at most ``tol`` at all components and at the maxima that they are about to reach.
        """
        damping, trial, value, expected, slow = _LEAST_DAMPING, points, -np.inf, 0.0, True
        for _ in range(_MOST_STEPS):
            new = self.evidence(trial)
            if new.value > value - _HIDDEN * (1.0 + abs(new.value)):
                value, points, gradient = new.value, trial, new.slope
                damping = max(0.1 * damping, _LEAST_DAMPING)
                if slow:
                    curvature, axes, scale = self._curvature(points, new)
            else:
                damping = max(10.0 * damping, 1e-4)
                slow = True
            # Where the evidence is not concave, the step goes uphill all the same: the size of a curvature counts.
            move = axes @ ((axes.T @ (gradient / scale)) / (np.abs(curvature) + damping)) / scale
            steps, slopes = move.reshape(2, -1), gradient.reshape(2, -1) / points.weights
            left = float(np.max(np.maximum(slopes[0], 0.0) + np.abs(slopes[1] * steps[1])))
            if left < tol:
                break
            slow = left > _SLOW * expected
            expected = left
            steps = steps / max(1.0, float(np.abs(move).max()))
            trial = MixturePoints.of(points.weights * np.exp(steps[0]), points.means * np.exp(steps[1]))
        return points

    def _curvature(self, points: MixturePoints, here: MixtureEvidence) -> tuple[Floats, Floats, Floats]:
        """Eigenvalues and eigenvectors of the negative Hessian in scaled variables, and the scales."""
        k = points.weights.size
        sums, gauss = np.empty((3, k)), np.empty((2 * k, 2 * k))
        observed, weighted = (*self.data.relative, self.data.shares), (points.means, points.weights)
        mixture_curvature(observed, self.shape, weighted, here.log_mixture, sums, gauss)
        # The score of an observation that has a component of its own is 0: all curvature there is information.
        scale = np.sqrt(np.diag(gauss) + np.append(np.zeros(k), points.weights * here.information) + 1e-12)
        rows = np.arange(k)
        gauss[rows, rows] -= sums[0] - points.weights
        gauss[k + rows, k + rows] -= sums[2]
        gauss[rows, k + rows] -= sums[1]
        gauss[k + rows, rows] -= sums[1]
        curvature, axes = np.linalg.eigh(gauss / (scale[:, None] * scale))
        return curvature, axes, scale

    def simplified(self, points: MixturePoints, close: float, tol: float) -> MixturePoints:
        """The mixture with neighbours merged that stand for one component, and moved to a maximum."""
        before = self.evidence(points).value
        for share in (1.0, 0.5, 0.25):
            fewer = self.polished(self.merged(points, share * close), tol)
            if self.evidence(fewer).value >= before - 1e-3 * tol:
                return fewer
        return self.polished(points, tol)

    def extended(self, points: MixturePoints, means: Floats, tol: float) -> MixturePoints:
        """The mixture with further components where D is positive, of the weights that are best one at a time."""
        logs = self.evidence(points).log_mixture
        columns = np.empty((self.data.counts.size, means.size), order="F")
        log_likelihood_columns(*self.data.relative, self.shape, means, columns)
        columns -= logs[:, None]
        ratios = np.exp(np.minimum(columns, _LARGEST))
        slopes, squares = self.data.shares @ ratios - 1.0, self.data.shares @ (ratios * ratios)
        new = slopes > max(0.5 * tol, 1e-2 * min(slopes.max(), 1.0))
        new[np.argmax(slopes)] = True
        weights = np.clip(slopes[new] / squares[new], 1e-15, 0.5)
        return MixturePoints.of(np.append(points.weights, weights), np.append(points.means, means[new]))

    def run(self, points: MixturePoints, floor: float, tol: float) -> tuple[MixturePoints, float]:
        """Move components, and add some where the slope is positive, until it is at most ``tol`` everywhere."""
        best, chosen, stuck, close = np.inf, points, 0, _CLOSE
        for _ in range(_MOST_ROUNDS):
            points = self.weighted(self.simplified(points, close, 0.2 * tol), 0.5 * tol)
            whole = self.data if self.cells is None else self.cells.data
            logs = self.evidence(points, whole).log_mixture
            excess, places = Slopes(whole, logs, self.shape, self.cells).supremum(tol)
            stuck = 0 if excess < 0.9 * best else stuck + 1
            if excess < best:
                best, chosen = excess, points
            if excess <= tol or stuck > _MOST_STUCK:
                break
            close *= 0.5
            if self.shape < np.inf:
                places = np.maximum(places, floor)
            points = self.weighted(self.extended(points, np.exp(places), tol), tol)
        return chosen, best


def best_mixture(data: Observations, shape: float, tol: float) -> tuple[GammaMixture, float]:
    """The mixture of components of a shape that makes the counts most probable, and by how many nats any may be better.

    Parameters
    ----------
    tol
        Nats per observation by which that may be, if it can be reached.
    """
    floor = np.log(near_zero(data)).max(initial=-np.inf)
    few, cells = data.coarse(_COARSE), ExposureCells.of(data)
    grid = _start(few, shape)
    points = MixtureSearch(few, shape).weighted(grid, tol)
    search = MixtureSearch(data.by_rate() if cells is None else cells.observations(), shape, cells)
    weights = np.zeros(grid.means.size)
    weights[np.searchsorted(grid.means, points.means)] = points.weights
    points = search.weighted(MixturePoints(weights, grid.means), tol)
    for step in _REFINED:
        points = search.refined(points, step, tol)
    points, excess = search.run(points, floor, tol)
    prior = GammaMixture(points.weights, np.full(points.means.size, shape), points.means)
    return prior, data.number * float(np.log1p(max(excess, 0.0)))


def _start(data: Observations, shape: float) -> MixturePoints:
    """Components where the data are and between, the overall rate, and 0 if some count is 0; few have a weight."""
    zero = np.zeros(near_zero(data).size) if shape == np.inf else near_zero(data)
    between = ratio_grid(*rate_range(data), 2.0)
    means = np.unique(
        np.concatenate((zero, rate_cells(data, shape, _SPACING, _MOST_CELLS)[0], between, [data.overall_rate]))
    )
    weights = np.where(np.arange(means.size) % _SPARSE == 0, 1.0, 0.0)
    return MixturePoints(weights / weights.sum(), means)
