"""Families of mixtures: a first grid of components where the data are, and the search for the best from there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from partwise.priors.base import Floats
from partwise.priors.kernels.columns import evidence_columns, likelihood_from_logs
from partwise.priors.kernels.weights import best_weights
from partwise.priors.mixture import GammaMixture, MixtureFamily
from partwise.priors.observations import Observations
from partwise.priors.search import best_mixture

_MOST_POINTS = 1000
# Entries of a Gram matrix times rows, from which rows are put in the order of their rates.
_LARGE = 1e8
# Components near 0 may differ by so much in log mean.
ZERO_REACH = 3.0


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
        # Every sweep of a fit does this for each part: `np.broadcast_to` and `np.unique` take longer than all the rest.
        shapes = np.concatenate([np.full(means.size, shape) for shape, means, _ in parts])
        means = np.concatenate([means for _, means, _ in parts])
        reach = np.concatenate([np.full(means.size, reach) for _, means, reach in parts])
        order = np.lexsort((means, shapes))
        return cls(shapes[order], means[order], reach[order])

    def beyond(self, prior: GammaMixture) -> NDArray[np.bool_]:
        """Those that no component of a prior does the work of."""
        new = np.ones(self.means.size, dtype=bool)
        own, known = (np.log(np.maximum(means, 1e-300)) for means in (self.means, prior.means))
        for shape in set(self.shapes.tolist()):
            mine = self.shapes == shape
            padded = np.concatenate(([-np.inf], np.sort(known[prior.shapes == shape]), [np.inf]))
            after = np.searchsorted(padded, own[mine])
            distance = np.minimum(own[mine] - padded[after - 1], padded[after] - own[mine])
            new[mine] = distance > self.reach[mine]
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

    @property
    @abstractmethod
    def narrowest(self) -> float:
        """The largest shape that components may have.

        It is all that the best mixture needs. A gamma of shape a is a mixture of gammas of any larger shape b, as a
        Gamma(b) variable times a Beta(a, b - a) one is a Gamma(a) variable.
        """

    def fit_to(self, data: Observations, start: GammaMixture | None = None) -> GammaMixture:
        """The grid's mixture that makes the counts most probable."""
        grid, coarse = self._grid_for(data, start), data.coarse() if start is None else data
        return weighted(data, grid if coarse is data else weighted(coarse, grid, self.tol), self.tol)

    def solve(self, data: Observations) -> tuple[GammaMixture, float]:
        """The mixture that makes the counts most probable, and nats by which any other may at most be better."""
        return best_mixture(data, self.narrowest, self.tol)

    def _grid_for(self, data: Observations, start: GammaMixture | None) -> GammaMixture:
        grid = self.grid(data)
        if start is None:
            # At first few more have a weight than there are observations: removing hundreds would take minutes.
            few = np.arange(grid.means.size) % max(1, grid.means.size // (4 * data.counts.size)) == 0
            return GammaMixture(few.astype(np.float64), grid.shapes, grid.means)
        new = grid.beyond(start)
        if not new.any() or start.weights.size + new.sum() > _MOST_POINTS:
            return start
        # With further components of weight 0, in the order of shapes and then of means.
        weights = np.append(start.weights, np.zeros(np.count_nonzero(new)))
        shapes, means = np.append(start.shapes, grid.shapes[new]), np.append(start.means, grid.means[new])
        order = np.lexsort((means, shapes))
        return GammaMixture(weights[order], shapes[order], means[order])


def log_columns(data: Observations, shapes: Floats, means: Floats) -> Floats:
    """Log evidence of each count under each component, relative to its best rate. Shapes up to 1e3, or infinite."""
    columns = np.empty((data.counts.size, means.size), order="F")
    evidence_columns(data.counts, data.exposure, shapes, means, columns)
    return columns


def weighted(data: Observations, prior: GammaMixture, tol: float) -> GammaMixture:
    """The components of a mixture with the best weights, to a gap of ``tol`` per observation; from its weights on."""
    if data.counts.size * prior.weights.size**2 > _LARGE:
        data = data.by_rate()
    weights, columns = prior.weights.copy(), log_columns(data, prior.shapes, prior.means)
    likelihood_from_logs(columns, np.empty(data.counts.size))
    best_weights(columns, data.shares, tol, weights, np.empty(3))
    return GammaMixture(weights, prior.shapes, prior.means)
