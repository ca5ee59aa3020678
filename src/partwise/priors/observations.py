"""Counts and exposures, in the form that the families use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.kernels.columns import all_whole, rate_extremes
from partwise.priors.kernels.evidence import ObservedCounts
from partwise.priors.kernels.near import NO_COUNT

# Expected count over all observations that stands for zero: a rate of 0 would have no logarithm.
_NOTHING = 1e-10

# More observations than this can be grouped into cells of this many standard deviations.
_MANY = 4000
_CELL = 0.3
# Of logarithms of variances within which precisions are alike.
_PRECISION = 0.2


@dataclass(frozen=True, eq=False)
class Observations:
    """x_i ~ Poisson(s_i λ_i), i = 1, 2, ...: equal observations are stored once, with how often they occur.

    Attributes
    ----------
    counts
        x, one-dimensional.
    exposure, repeats
        s, and how often each occurs; as many as counts, or one for all.
    """

    counts: Floats
    exposure: Floats
    repeats: Floats

    @classmethod
    def of(cls, counts: Floats, exposure: Floats) -> Observations:
        """Observations, with equal ones counted if that pays off: whole numbers, and few pairs with exposures."""
        if counts.size > 100 and all_whole(counts):
            pairs = counts if exposure.size == 1 else counts + 1j * exposure
            distinct, repeats = np.unique(pairs, return_counts=True)
            if 2 * distinct.size <= counts.size:
                exposures = exposure if exposure.size == 1 else np.ascontiguousarray(distinct.imag)
                return cls(np.ascontiguousarray(distinct.real), exposures, repeats.astype(np.float64))
        return cls(counts, exposure, np.ones(1))

    @property
    def arrays(self) -> ObservedCounts:
        """The arguments for kernels."""
        return ObservedCounts(self.counts, self.exposure, self.repeats)

    @cached_property
    def number(self) -> float:
        """Number of observations, including repeats."""
        return self._sum(np.ones(1))

    @cached_property
    def total_count(self) -> float:
        """Σ x."""
        return self._sum(self.counts)

    @cached_property
    def total_exposure(self) -> float:
        """Σ s."""
        return self._sum(self.exposure)

    @cached_property
    def rates(self) -> Floats:
        """``x / s``, and 0 where there is no exposure."""
        exposed = np.broadcast_to(self.exposure > 0, self.counts.shape)
        return np.divide(self.counts, self.exposure, out=np.zeros(self.counts.size), where=exposed)

    @cached_property
    def rate_extremes(self) -> tuple[float, float, bool]:
        """The smallest and the largest positive rate, and whether some rate is 0."""
        return rate_extremes(self.counts, self.exposure)

    @cached_property
    def relative(self) -> tuple[Floats, Floats]:
        """Counts, not quite 0, and inverse rates ``s / x``: what kernels of likelihood ratios take."""
        counts = np.maximum(self.counts, NO_COUNT)
        return counts, self.exposure / counts

    @cached_property
    def shares(self) -> Floats:
        """Of each in the number of observations."""
        return np.full(self.counts.shape, self.repeats / self.number)

    @cached_property
    def overall_rate(self) -> float:
        """Σ x / Σ s, the best single rate; slightly above 0 if all counts are 0."""
        return max(self.total_count, _NOTHING) / self.total_exposure if self.total_exposure > 0 else 1.0

    def excess_variance(self, rate: float) -> float:
        """Σ (x - s λ)² - x, twice the slope of the log evidence in 1 / shape at the point mass λ."""
        return self._sum((self.counts - self.exposure * rate) ** 2 - self.counts)

    def moment_shape(self, rate: float) -> float:
        """The shape under which counts with this mean rate vary as much as the data do, between 1e-3 and 1e3."""
        excess = self.excess_variance(rate)
        return float(np.clip(self._sum((self.exposure * rate) ** 2) / excess, 1e-3, 1e3)) if excess > 0 else 10.0

    def coarse(self, width: float = _CELL, shape: float = np.inf) -> Observations:
        """Nearly the same with fewer, if there are many: neighbours in rate and precision as two around their middle.

        Parameters
        ----------
        width, shape
            Standard deviations of a log rate within which they are neighbours, if components have this shape.
        """
        if self.counts.size <= _MANY:
            return self
        seen = self.counts > 0
        s, repeats = (np.broadcast_to(part, self.counts.shape) for part in (self.exposure, self.repeats))
        places = np.log(np.where(seen, self.rates, np.maximum(s, 1e-300)))
        # Of zeros, all that matters is the exposure, and that as for a count of 1.
        level = np.floor(np.log(1.0 / np.maximum(self.counts, 1.0) + 1.0 / shape) / _PRECISION)
        _, cell = np.unique(
            np.where(seen, level, np.inf) + 1j * np.floor(places / (width * np.exp(0.5 * _PRECISION * level))),
            return_inverse=True,
        )
        number: Floats = np.bincount(cell, weights=repeats).astype(np.float64)
        # Variances have the right mean, zeros aside.
        inverse = np.where(seen, 1.0 / np.maximum(self.counts, NO_COUNT), 0.0)
        x, middle = (np.bincount(cell, weights=repeats * part) / number for part in (inverse, places))
        x = np.divide(1.0, x, out=x, where=x > 0)
        spread = np.sqrt(np.bincount(cell, weights=repeats * (places - middle[cell]) ** 2) / number)
        apart = np.flatnonzero(spread > 1e-12)
        both, x = np.exp(np.append(middle - spread, (middle + spread)[apart])), np.append(x, x[apart])
        number[apart] *= 0.5
        return Observations(x, np.where(x > 0, x / both, both), np.append(number, number[apart]))

    def by_rate(self) -> Observations:
        """The same in the order of their rates, those of about the same precision together.

        So a block of rows has few components that matter: wide likelihoods do not stand between narrow ones.
        """
        return self.some(np.lexsort((self.rates, np.floor(0.5 * np.log2(np.maximum(self.counts, 1.0))))))

    def sample(self, size: int) -> Observations:
        """At most this many observations, evenly spread over the order of their rates."""
        if self.counts.size <= size:
            return self
        order = np.argsort(self.rates, kind="stable")
        if self.repeats.size == 1:
            return self.some(order[np.linspace(0, order.size - 1, size).astype(np.intp)])
        last = np.cumsum(self.repeats[order])
        places = np.searchsorted(last, np.linspace(0.5, last[-1] - 0.5, size))
        found, repeats = np.unique(places, return_counts=True)
        return Observations(*self.some(order[found]).arrays[:2], repeats.astype(np.float64))

    def some(self, which: np.ndarray) -> Observations:
        """The observations at some positions."""
        exposure = self.exposure if self.exposure.size == 1 else self.exposure[which]
        repeats = self.repeats if self.repeats.size == 1 else self.repeats[which]
        return Observations(self.counts[which], exposure, repeats)

    def _sum(self, values: Floats) -> float:
        repeated = values * self.repeats
        return float(repeated.sum()) * (self.counts.size if repeated.size == 1 else 1)
