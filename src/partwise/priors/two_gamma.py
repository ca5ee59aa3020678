"""The family of mixtures of two gamma distributions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.gamma import LARGE_SHAPE, GammaFamily, gamma_value
from partwise.priors.gamma_mixture import GammaMixtureFamily
from partwise.priors.grid import log_columns
from partwise.priors.kernels.newton import maximise_evidence
from partwise.priors.kernels.posterior import mixture_posterior
from partwise.priors.layout import rate_range, ratio_grid
from partwise.priors.mixture import GammaMixture, MixtureFamily
from partwise.priors.observations import Observations

# Mixtures of two components: points of a space in which Newton's method works, and the search for the best of them.

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


@dataclass(frozen=True)
class TwoGammaFamily(MixtureFamily):
    """(1 - w) Gamma(shape_1, mean_1) + w Gamma(shape_2, mean_2), each with the point mass as its limit.

    The likelihood has several maxima. The result is the best from several dozen starts.

    Parameters
    ----------
    tol
        Newton's method stops when at most this many nats are left to gain.
    """

    name: ClassVar[str] = "two-gamma"

    tol: float = 1e-8

    def fit_to(self, data: Observations, start: GammaMixture | None = None) -> GammaMixture:
        """The prior of this kind that makes the counts most probable."""
        tol = enough(self.tol, data)
        if data.total_count <= 0:
            return GammaMixture.points(np.full(2, data.overall_rate))
        if start is not None:
            return Pair.of(start).refined(data, tol).prior()
        one = GammaFamily(self.tol).fit_to(data)
        rare = _rare(data, one)
        found = best_pair(_starts(data) + rare, data, tol, 8)
        candidates = [Pair(0.0, np.repeat(one.shapes, 2), np.repeat(one.means, 2), gamma_value(data, one))]
        candidates += [pair.refined(data, tol) for pair in rare[:1]]
        candidates += [] if found is None else [found]
        return max(candidates, key=lambda pair: pair.value).prior()


def _starts(data: Observations) -> list[Pair]:
    """Two halves of the ordered rates, and of a gamma mixture on a grid, each half made into one gamma or one point.

    One narrow component of the grid against all others is tried too: it may be worth most to fit a cluster of counts
    well.
    """
    starts = []
    order = np.argsort(data.rates, kind="stable")
    below = np.cumsum(np.broadcast_to(data.repeats, order.shape)[order]) / data.number
    for share in (0.1, 0.3, 0.5, 0.7, 0.9, 0.97):
        cut = int(np.searchsorted(below, share)) + 1
        if cut >= order.size:
            continue
        halves = [data.some(order[:cut]), data.some(order[cut:])]
        means = np.array([max(half.overall_rate, 1e-3 * data.overall_rate) for half in halves])
        shapes = np.array([half.moment_shape(mean) for half, mean in zip(halves, means, strict=True)])
        log_odds = float(np.log(halves[1].number / halves[0].number))
        # Many zeros may also be a gamma of tiny shape, which now and then gives a larger count.
        tiny = Pair(log_odds, np.array([0.02, 10.0]), np.array([max(means[0], 0.1 * data.overall_rate), means[1]]))
        starts += [Pair(log_odds, shapes, means), Pair(log_odds, np.full(2, np.inf), means), tiny]
    grid = GammaMixtureFamily(tol=1e-4).fit_to(data.sample(1000)).support
    by_mean = np.argsort(grid.means, kind="stable")
    parts = [by_mean[cut:] for cut in range(1, by_mean.size)] + [by_mean[[j]] for j in range(by_mean.size)]
    return starts + [_halved(grid, part) for part in parts if part.size < by_mean.size]


def _rare(data: Observations, one: GammaMixture) -> list[Pair]:
    """The gamma that fits best, with a little weight on a point where that helps most, the best point first."""
    lowest, highest = rate_range(data)
    points = np.append(1e-3 * lowest, ratio_grid(lowest, highest, 3.0))
    logs = log_columns(data, np.full(points.size, np.inf), points)
    mean, mean_log, relative = np.empty((3, data.counts.size))
    prior = one.weights, one.shapes, one.means
    mixture_posterior((data.counts, data.exposure), prior, (mean, mean_log, relative))
    # The slope of the log evidence in the weight of a point, per observation: at most its likelihood's mean ratio - 1.
    ratios = np.exp(np.minimum(logs - relative[:, None], 300.0))
    slopes = (np.broadcast_to(data.repeats, data.counts.shape) @ ratios) / data.number - 1.0
    best = np.argsort(-slopes, kind="stable")[:4]
    return [
        Pair(-4.0, np.append(one.shapes, np.inf), np.append(one.means, points[j])) for j in best if slopes[j] > 1e-6
    ]


def _halved(grid: GammaMixture, part: np.ndarray) -> Pair:
    """Some components against the others, each group as the gamma of the same mean and variance."""
    others = np.setdiff1d(np.arange(grid.means.size), part)
    shapes, means = np.empty(2), np.empty(2)
    for k, group in enumerate((others, part)):
        weights = grid.weights[group] / grid.weights[group].sum()
        means[k] = weights @ grid.means[group]
        variance = weights @ (grid.means[group] ** 2 * (1.0 + 1.0 / grid.shapes[group])) - means[k] ** 2
        shapes[k] = np.clip(means[k] ** 2 / max(variance, 1e-300), 1e-3, 1e3)
    return Pair(float(np.log(grid.weights[part].sum() / grid.weights[others].sum())), shapes, means)
