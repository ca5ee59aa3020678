"""Families of mixtures: a first grid of components where the data are, and the search for the best from there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from partwise.priors.base import Floats
from partwise.priors.certificate import Slopes
from partwise.priors.kernels.columns import evidence_columns, rate_extremes
from partwise.priors.mixture import GammaMixture, MixtureFamily
from partwise.priors.observations import Observations
from partwise.priors.support import evidence, extended, log_mixture, merged, polished, weighted

_MOST_ROUNDS = 25
# Rounds without a better bound: rounding is what is left.
_MOST_STUCK = 4
# How much less is asked for on coarse data.
_COARSE = 10.0
_MOST_POINTS = 1000
# Expected count per observation of a component that stands for 0.
_NEAR_ZERO = 1e-10
# Such components may differ by so much in log mean.
ZERO_REACH = 3.0
# Neighbours so close, in standard deviations of a log rate, stand for one component between them.
_CLOSE = 0.6


def _best_merged(data: Observations, prior: GammaMixture, close: float, tol: float) -> GammaMixture:
    """The mixture with neighbours merged that stand for one component, and moved to a maximum."""
    before = evidence(data, prior)
    for share in (1.0, 0.5, 0.25):
        fewer = polished(data, merged(data, prior, share * close), tol)
        if evidence(data, fewer) >= before - 1e-3 * tol * data.number:
            return fewer
    return polished(data, prior, tol)


class Grid(NamedTuple):
    """Components in the order of shapes and then of means.

    ``reach`` is how far off, in log mean, another of the same shape does the same work.
    """

    shapes: Floats
    means: Floats
    reach: Floats

    @classmethod
    def joined(cls, parts: Sequence[tuple[float, Floats, float | Floats]]) -> Grid:
        """Of shapes with their means and reaches."""
        shapes = np.concatenate([np.full(means.size, shape) for shape, means, _ in parts])
        means = np.concatenate([means for _, means, _ in parts])
        reach = np.concatenate([np.broadcast_to(reach, means.shape) for _, means, reach in parts])
        order = np.lexsort((means, shapes))
        return cls(shapes[order], means[order], reach[order])

    def finer(self) -> GammaMixture:
        """All these and one between neighbours, as a mixture of equal weights."""
        ratios = self.means[1:] / np.maximum(self.means[:-1], 1e-300)
        near = np.flatnonzero((self.shapes[1:] == self.shapes[:-1]) & (ratios < np.exp(1.5 * self.reach[1:])))
        even = GammaMixture(np.ones(self.means.size), self.shapes, self.means)
        finer = extended(even, self.shapes[near], self.means[near] * np.sqrt(ratios[near]))
        return GammaMixture(np.ones(finer.means.size), finer.shapes, finer.means)

    def beyond(self, prior: GammaMixture) -> NDArray[np.bool_]:
        """Those that no component of a prior does the work of."""
        new = np.ones(self.means.size, dtype=bool)
        with np.errstate(divide="ignore", invalid="ignore"):
            for shape in np.unique(self.shapes):
                mine, logs = self.shapes == shape, np.sort(np.log(prior.means[prior.shapes == shape]))
                padded = np.concatenate(([-np.inf], logs, [np.inf]))
                own = np.log(self.means[mine])
                after = np.searchsorted(padded[1:-1], own) + 1
                distance = np.minimum(own - padded[after - 1], padded[after] - own)
                new[mine] = ~(distance <= self.reach[mine]) & ~np.isin(self.means[mine], prior.means)
        return new


@dataclass(frozen=True)
class GridFamily(MixtureFamily):
    """Mixtures of components of given shapes and of any mean; points for an infinite shape.

    A fit begins on a grid laid out where the data are. `solve` then adds means until no mixture whatever, on the grid
    or not, can be better by more than the tolerance. Fits that go on from others keep the grid, or add to it.

    Parameters
    ----------
    tol
        Nats per observation by which the best of all such mixtures may at most be better.
    """

    tol: float = 5e-9

    def eased(self, nats: float, n_observations: int) -> Self:
        """The same with a gap of this many nats in all: for fits that are soon repeated with other counts."""
        return replace(self, tol=max(self.tol, nats / max(n_observations, 1)))

    @abstractmethod
    def grid(self, data: Observations) -> Grid:
        """Components to begin with."""

    @abstractmethod
    def component_shapes(self) -> tuple[float, ...]:
        """The shapes that components may have."""

    def fit_to(self, data: Observations, start: GammaMixture | None = None) -> GammaMixture:
        """The grid's mixture that makes the counts most probable."""
        grid = self._grid_for(data, start)
        if start is None:
            grid = weighted(data.coarse(), grid, self.tol)
        return weighted(data, grid, self.tol)

    def solve(self, data: Observations) -> tuple[GammaMixture, float]:
        """The mixture that makes the counts most probable, and nats by which any other may at most be better."""
        few = data.coarse()
        start = weighted(few, self.grid(few).finer(), self.tol).support
        close = _CLOSE
        if few is not data:
            start = self._search(few, start, _COARSE * self.tol, close)[0]
            close = 0.0
        prior, excess = self._search(data, start, self.tol, close)
        return prior, data.number * float(np.log1p(max(excess, 0.0)))

    def _search(self, data: Observations, prior: GammaMixture, tol: float, close: float) -> tuple[GammaMixture, float]:
        """Move components, and add some where the slope is positive, until it is at most ``tol`` everywhere."""
        shapes, floor = self.component_shapes(), np.log(near_zero(data)).max(initial=-np.inf)
        best, chosen, stuck = np.inf, prior, 0
        for _ in range(_MOST_ROUNDS):
            prior = weighted(data, _best_merged(data, prior, close, 0.2 * tol), 0.5 * tol).support
            logs = log_mixture(data, prior)
            suprema = [Slopes(data, logs, shape).supremum(tol) for shape in shapes]
            excess = max(bound for bound, _ in suprema)
            stuck = 0 if excess < 0.9 * best else stuck + 1
            if excess < best:
                best, chosen = excess, prior
            if excess <= tol or stuck > _MOST_STUCK:
                break
            close = 0.5 * close if close > 0 else 0.5 * _CLOSE
            found = np.repeat(shapes, [places.size for _, places in suprema])
            places = np.concatenate([places for _, places in suprema])
            places = np.exp(np.where(np.isinf(found), places, np.maximum(places, floor)))
            prior = weighted(data, extended(prior, found, places), tol).support
        return chosen, best

    def _grid_for(self, data: Observations, start: GammaMixture | None) -> GammaMixture:
        grid = self.grid(data)
        if start is None:
            return GammaMixture(np.ones(grid.means.size), grid.shapes, grid.means)
        new = grid.beyond(start)
        if not new.any() or start.weights.size + new.sum() > _MOST_POINTS:
            return start
        return extended(start, grid.shapes[new], grid.means[new])


def rate_range(data: Observations) -> tuple[float, float]:
    """Means of the lowest and the highest component worth having, but for those as good as 0.

    From a twentieth of the smallest positive rate x / s to twice the largest. But a component whose expected count over
    all observations is a hundredth can hardly be told from 0.
    """
    smallest, largest = rate_extremes(data.counts, data.exposure)
    if largest <= 0:
        return 1.0, 0.0
    lowest = max(0.05 * smallest, 0.01 / data.total_exposure)
    return lowest, max(2.0 * largest, lowest)


def ratio_grid(lowest: float, highest: float, ratio: float) -> Floats:
    """Means from lowest to highest (or just above), each ``ratio`` times the one before; none if highest is lower."""
    if highest < lowest:
        return np.zeros(0)
    steps = int(np.ceil(np.log(highest / lowest) / np.log(ratio) - 1e-9))
    grid: Floats = lowest * ratio ** np.arange(steps + 1, dtype=np.float64)
    return grid


def near_zero(data: Observations) -> Floats:
    """The mean of a component that is as good as 0, if some count is 0 (or nothing is known)."""
    needed = bool(np.any((data.counts == 0) & (data.exposure > 0))) or data.total_count <= 0
    return np.full(int(needed), _NEAR_ZERO * data.number / data.total_exposure if data.total_exposure > 0 else 1.0)


def log_columns(data: Observations, shapes: Floats, means: Floats) -> Floats:
    """Log evidence of each count under each component, relative to its best rate. Shapes up to 1e3, or infinite."""
    columns = np.empty((data.counts.size, means.size), order="F")
    evidence_columns(data.counts, data.exposure, shapes, means, columns)
    return columns
