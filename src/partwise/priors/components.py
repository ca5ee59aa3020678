"""The posterior of rates by components: variances, quantiles and draws of a mixture of gammas and points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaincinv, gammaln, xlogy

from partwise.errors import InvalidInputError
from partwise.priors.base import Floats

# Smaller shares do not affect any quantile.
_NEGLIGIBLE = 1e-13
_MOST_ITERATIONS = 200


@dataclass(frozen=True, eq=False)
class PosteriorComponents:
    """q(λ_i) = Σ_j shares_ij Gamma(shapes_ij, rate rates_ij); an infinite shape is a point at ``means``.

    Attributes
    ----------
    shares, shapes, rates, means
        Observations x components.
    """

    shares: Floats
    shapes: Floats
    rates: Floats
    means: Floats

    def variance(self) -> Floats:
        """Variance of each rate: within components and between them."""
        overall = np.sum(self.shares * self.means, axis=1)
        within = np.where(np.isinf(self.shapes), 0.0, self.means / self.rates)
        return np.asarray(np.sum(self.shares * (within + (self.means - overall[:, None]) ** 2), axis=1))

    def draw(self, n_draws: int, generator: np.random.Generator) -> Floats:
        """Draws x observations."""
        if n_draws < 1:
            raise InvalidInputError(f"n_draws must be at least 1, got {n_draws}.")
        n = self.shares.shape[0]
        bounds = np.cumsum(self.shares, axis=1)
        chosen = np.array(
            [(bounds < generator.random((n, 1)) * bounds[:, -1:]).sum(axis=1) for _ in range(n_draws)], dtype=np.intp
        ).reshape(n_draws, n)
        rows = np.arange(n)
        shapes, rates, means = self.shapes[rows, chosen], self.rates[rows, chosen], self.means[rows, chosen]
        points = np.isinf(shapes)
        gammas = generator.standard_gamma(np.where(points, 1.0, shapes)) / np.where(points, 1.0, rates)
        return np.asarray(np.where(points, means, gammas))

    def quantile(self, level: float) -> Floats:
        """The smallest rate at which the distribution function reaches ``level``.

        Newton steps on log λ, and bisection if they leave the bracket: at points the function jumps.
        """
        _check_level(level)
        # The mixture's quantile is between the smallest and the largest of the components' own.
        points = np.isinf(self.shapes)
        own = np.where(points, self.means, gammaincinv(np.where(points, 1.0, self.shapes), level) / self.rates)
        counted = self.shares > _NEGLIGIBLE
        lowest, highest = np.where(counted, own, np.inf).min(axis=1), np.where(counted, own, 0.0).max(axis=1)
        at_zero = np.sum(self.shares * (self.means == 0), axis=1) >= level
        low, high = np.log(np.maximum(lowest, 1e-300)) - 1e-9, np.log(np.maximum(highest, 1e-300)) + 1e-9
        active = np.flatnonzero(~at_zero)
        point = 0.5 * (low + high)
        for iteration in range(_MOST_ITERATIONS):
            reached, slope = self._rows(active).distribution(np.exp(point[active]))
            above = reached >= level
            high[active[above]] = point[active[above]]
            low[active[~above]] = point[active[~above]]
            with np.errstate(divide="ignore", invalid="ignore"):
                newton = point[active] - (reached - level) / slope
            middle = 0.5 * (low[active] + high[active])
            inside = (newton > low[active]) & (newton < high[active]) & (iteration % 3 != 2)
            moved = np.where(inside, newton, middle)
            settled = (np.abs(moved - point[active]) < 1e-13) | (high[active] - low[active] < 1e-13)
            point[active] = moved
            active = active[~settled]
            if not active.size:
                break
        rates = np.where(at_zero, 0.0, np.exp(point))
        for j in np.flatnonzero(points.all(axis=0)):
            # Those at a point are moved to just where it is.
            rates = np.where(np.abs(rates - self.means[:, j]) <= 1e-11 * rates, self.means[:, j], rates)
        return rates

    def interval(self, level: float) -> Floats:
        """Bounds of the central intervals of this probability, observations x 2."""
        _check_level(level)
        return np.stack([self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)], axis=-1)

    def distribution(self, rates: Floats) -> tuple[Floats, Floats]:
        """The distribution function of each λ_i at a rate, and its derivative in the logarithm of the rate."""
        points = np.isinf(self.shapes)
        shapes = np.where(points, 1.0, self.shapes)
        scaled = np.where(points, 1.0, self.rates * rates[:, None])
        below = np.where(points, self.means <= rates[:, None], gammainc(shapes, scaled))
        density = np.where(points, 0.0, np.exp(xlogy(shapes, scaled) - scaled - gammaln(shapes)))
        return np.sum(self.shares * below, axis=1), np.sum(self.shares * density, axis=1)

    def _rows(self, rows: np.ndarray) -> PosteriorComponents:
        return PosteriorComponents(self.shares[rows], self.shapes[rows], self.rates[rows], self.means[rows])


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise InvalidInputError(f"level must be between 0 and 1, got {level}.")
