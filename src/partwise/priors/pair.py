"""Mixtures of two components: points of a space in which Newton's method works, and the search for the best of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.gamma import LARGE_SHAPE
from partwise.priors.kernels.newton import maximise_evidence
from partwise.priors.mixture import GammaMixture
from partwise.priors.observations import Observations

_LOG_ODDS_BOUND, _LOG_SHAPE_BOUND, _LOG_MEAN_BOUND = 30.0, 16.0, 40.0
_BOUND = np.array([_LOG_ODDS_BOUND, _LOG_SHAPE_BOUND, _LOG_MEAN_BOUND, _LOG_SHAPE_BOUND, _LOG_MEAN_BOUND])
# Observations at which many starts are looked at, and then the few best of them.
_FEW, _SOME = 1000, 10000


@dataclass(frozen=True, eq=False)
class Pair:
    """A mixture of two, and its log evidence relative to the best rate of each count.

    ``shapes`` may be infinite and ``means`` 0: what is a point stays one in `improved`.
    """

    log_odds: float
    shapes: Floats
    means: Floats
    value: float = -np.inf

    def prior(self) -> GammaMixture:
        """The mixture as a prior, the first component being that of weight 1 / (1 + odds)."""
        with np.errstate(over="ignore"):
            weights = 1.0 / (1.0 + np.exp([self.log_odds, -self.log_odds]))
        return GammaMixture(weights, self.shapes, self.means)

    @classmethod
    def of(cls, prior: GammaMixture) -> Pair:
        """The pair of a prior with two components."""
        with np.errstate(divide="ignore"):
            log_odds = np.log(prior.weights[1]) - np.log(prior.weights[0])
        return cls(float(np.clip(log_odds, -_LOG_ODDS_BOUND, _LOG_ODDS_BOUND)), prior.shapes, prior.means)

    def improved(self, data: Observations, tol: float, max_iter: int = 100) -> Pair:
        """The local maximum above, with points kept as points."""
        finite, positive = np.isfinite(self.shapes), self.means > 0
        free = np.flatnonzero([True, *np.column_stack((finite & positive, positive)).ravel()])
        point = np.zeros(5)
        point[0], point[1::2] = self.log_odds, np.log(np.where(finite, self.shapes, 1.0))
        value = maximise_evidence(data.arrays, self.shapes, self.means, free, _BOUND, tol, max_iter, point)
        shapes = np.where(finite, np.exp(point[1::2]), np.inf)
        return Pair(float(point[0]), shapes, self.means * np.exp(point[2::2]), value)

    def refined(self, data: Observations, tol: float) -> Pair:
        """The best of the local maximum above and those where a narrow component is a point (the Poisson limit)."""
        best = self.improved(data, tol)
        for k in range(2):
            if LARGE_SHAPE < best.shapes[k] < np.inf:
                shapes = best.shapes.copy()
                shapes[k] = np.inf
                limit = Pair(best.log_odds, shapes, best.means).improved(data, tol)
                best = limit if limit.value >= best.value else best
        return best

    def widened(self) -> Pair:
        """The same with narrow gammas in place of points, but for a point at 0."""
        points = np.isinf(self.shapes) & (self.means > 0)
        return Pair(self.log_odds, np.where(points, 100.0, self.shapes), self.means) if points.any() else self


def best_pair(starts: Iterable[Pair], data: Observations, tol: float, n_finalists: int) -> Pair | None:
    """The best local maximum from many starts: all on few observations, the better ones on more."""
    few, some = data.sample(_FEW), data.sample(_SOME)
    first = _best_different((pair.improved(few, 1e-3, max_iter=10) for pair in starts), 2 * n_finalists)
    pairs = _best_different((pair.refined(few, 1e-5) for pair in first), n_finalists)
    if data.counts.size > _FEW:
        pairs = _best_different((pair.refined(some, 1e-5) for pair in pairs[:3]), 1)
    pairs += [wider.refined(some, 1e-5) for pair in pairs[:1] if (wider := pair.widened()) is not pair]
    return max((pair.refined(data, tol) for pair in pairs), key=lambda pair: pair.value, default=None)


def enough(tol: float, data: Observations) -> float:
    """A tolerance that grows with the data beyond a thousand observations: ridges of the likelihood are long there."""
    return tol * max(1.0, data.number / 1e3)


def _best_different(pairs: Iterable[Pair], number: int) -> list[Pair]:
    """The best of those that differ in value, best first."""
    kept: list[Pair] = []
    for pair in sorted(pairs, key=lambda pair: -pair.value):
        if len(kept) < number and all(abs(pair.value - other.value) > 1e-3 for other in kept):
            kept.append(pair)
    return kept
