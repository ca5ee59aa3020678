"""Mixtures of gamma distributions and points: the form of every prior that the families of this package return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NoReturn, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, psi, xlogy, zeta

from partwise.errors import InvalidInputError
from partwise.priors.base import Floats, RatePosterior, RatePrior
from partwise.priors.components import PosteriorComponents
from partwise.priors.condensed import condensed_points, seen_error
from partwise.priors.kernels.posterior import (
    PLAIN_SHAPE,
    gamma_posterior,
    mixture_divergence,
    mixture_posterior,
    mixture_shares,
    prior_total,
)
from partwise.priors.observations import Observations

# Beside the largest of all rates, what stands for exp(-inf): far too small to matter, and its square is not 0.
_SMALLEST = 1e-150
# From this many counts times components on, sorting the counts pays off.
_MANY = 1e8
# More points than this are seen as fewer.
_CROWD = 1000
# Of a likelihood, what the sum over fewer points may at most be off by.
REMAINDER = 1e-9
_ORDERS, _DERIVATIVES = np.array([2.0, 3.0, 4.0]), np.array([1.0, -2.0, 6.0])


@dataclass(frozen=True, eq=False)
class GammaMixture:
    """g = Σ_j weights_j Gamma(shapes_j, mean means_j).

    Parameters
    ----------
    weights
        Nonnegative; they are divided by their sum.
    shapes
        Positive; an infinite shape is a point mass at the mean.
    means
        Nonnegative; a mean of 0 is a point mass at 0. (The rate parameter is shape / mean.)

    Examples
    --------
    >>> import numpy as np
    >>> prior = GammaMixture([0.3, 0.7], [1.0, np.inf], [5.0, 0.0])
    >>> prior.posterior(np.array([0.0, 2.0]), np.array([1.0])).mean.round(3)
    array([0.056, 2.5  ])
    """

    weights: Floats
    shapes: Floats
    means: Floats

    def __post_init__(self) -> None:
        for name in ("weights", "shapes", "means"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))
        # Every sweep of a fit builds many, so the cause of an error is only looked for if there is one.
        if not self.weights.shape == self.shapes.shape == self.means.shape == (self.weights.size,):
            self._complain()
        total = prior_total(self.weights, self.shapes, self.means)
        if not 0.0 < total < np.inf:
            self._complain()
        if abs(total - 1.0) > 1e-15 * self.weights.size:
            object.__setattr__(self, "weights", self.weights / total)

    def _complain(self) -> NoReturn:
        for name in ("weights", "shapes", "means"):
            value = getattr(self, name)
            if value.ndim != 1 or np.isnan(value).any() or (value < 0).any():
                raise InvalidInputError(f"{name} of a prior must be nonnegative numbers in a row, got {value}.")
        if not self.weights.size == self.shapes.size == self.means.size > 0:
            raise InvalidInputError(
                f"a prior needs as many weights as shapes and means, got {self.weights.size}, {self.shapes.size} and"
                f" {self.means.size}."
            )
        if not np.isfinite(self.means).all() or (self.shapes == 0).any():
            raise InvalidInputError("a prior needs finite means and positive shapes.")
        total = float(self.weights.sum())
        raise InvalidInputError(f"the weights of a prior must have a positive, finite sum, got {total}.")

    @classmethod
    def gamma(cls, shape: float, rate: float) -> GammaMixture:
        """One gamma distribution by its shape and rate, whose mean is shape / rate.

        Examples
        --------
        >>> GammaMixture.gamma(2.0, 4.0).mean
        0.5
        """
        return cls(np.ones(1), np.array([shape]), np.array([shape / rate]))

    @classmethod
    def points(cls, rates: Floats, weights: Floats | None = None) -> GammaMixture:
        """Point masses, by default of equal weight."""
        places = np.atleast_1d(np.asarray(rates, dtype=np.float64))
        given = np.ones(places.size) if weights is None else np.asarray(weights, dtype=np.float64)
        return cls(given, np.full(places.size, np.inf), places)

    @property
    def mean(self) -> float:
        """E[λ] under the prior."""
        return float(self.weights @ self.means)

    @property
    def support(self) -> GammaMixture:
        """The components with positive weight."""
        kept = self.weights > 0
        return self if kept.all() else GammaMixture(self.weights[kept], self.shapes[kept], self.means[kept])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Weights, shapes and means as the rows of an array: the form of a given prior in model files."""
        return np.array([self.weights, self.shapes, self.means], dtype=dtype)

    def scaled(self, factor: float) -> GammaMixture:
        """The prior of factor times λ."""
        return GammaMixture(self.weights, self.shapes, self.means * factor)

    def posterior(self, counts: Floats, exposure: Floats) -> RatePosterior:
        """Mean and mean logarithm of each rate, and the log evidence (continuous in the counts)."""
        x, s = _flat(counts, exposure)
        mean, mean_log, relative = self.moments(x, s)
        shape = np.broadcast_shapes(np.shape(counts), np.shape(exposure))
        return RatePosterior(mean.reshape(shape), mean_log.reshape(shape), float(np.sum(relative + saturated(x))))

    def summary(self, counts: Floats, exposure: Floats) -> tuple[Floats, Floats, float]:
        """Mean and geometric mean exp(E[log λ]) of each rate, and KL(posterior || prior), summed.

        KL = Σ [x log s + x E[log λ] - s E[λ] - log x!] - log p(x), where 0 E[log λ] is 0 also if that is -inf. No
        geometric mean is quite 0. All is one-dimensional; ``exposure`` has as many entries as ``counts``, or one.
        """
        used = self.support
        mean, geometric = np.empty((2, counts.size))
        shape, level = float(used.shapes[0]), float(used.means[0])
        if used.weights.size == 1 and shape <= PLAIN_SHAPE and level > 0:
            # digamma and its derivatives, those by Hurwitz's zeta function
            constants = float(gammaln(shape)), np.append(psi(shape), _DERIVATIVES * zeta(_ORDERS, shape))
            divergence = gamma_posterior((counts, exposure), (shape, level), constants, mean, geometric)
        else:
            mean, mean_log, relative = used.moments(counts, exposure)
            divergence = mixture_divergence(counts, exposure, mean, mean_log, relative, geometric)
        return mean, np.maximum(geometric, _SMALLEST * geometric.max(initial=0.0), out=geometric), divergence

    def moments(self, counts: Floats, exposure: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean, mean logarithm, and log evidence relative to the best rate of each count."""
        used, order = self.support, cast(Any, np.s_[:])
        if used.weights.size > _CROWD and counts.size * used.weights.size > _MANY and np.isinf(used.shapes).all():
            return used._condensed_moments(counts, np.broadcast_to(exposure, counts.shape))
        if counts.size * used.weights.size > _MANY and exposure.size > 1:
            # Equal counts are adjacent, and are computed once.
            order = np.lexsort((counts, exposure))
            counts, exposure = counts[order], exposure[order]
        found = np.empty((3, counts.size))
        found[:, order] = used._plain_moments(counts, exposure)
        return found[0], found[1], found[2]

    def _plain_moments(self, counts: Floats, exposure: Floats) -> Floats:
        found = np.empty((3, counts.size))
        mixture_posterior((counts, exposure), (self.weights, self.shapes, self.means), (found[0], found[1], found[2]))
        return found

    def _condensed_moments(self, counts: Floats, exposure: Floats) -> tuple[Floats, Floats, Floats]:
        """The same for many points: counts of similar size see them as fewer, unless `REMAINDER` could be exceeded."""
        found, levels = np.empty((3, counts.size)), np.ceil(0.5 * np.log2(counts + 1.0))
        for level in np.unique(levels):
            weights, means = condensed_points(self.weights, self.means, level)
            rows, fewer = np.flatnonzero(levels == level), GammaMixture.points(means, weights)
            found[:, rows] = fewer._plain_moments(counts[rows], exposure[rows])
            unsure = rows[~(seen_error(counts[rows], level) <= REMAINDER * np.exp(found[2, rows]))]
            found[:, unsure] = self._plain_moments(counts[unsure], exposure[unsure])
        return found[0], found[1], found[2]

    def draw(self, size: int, generator: np.random.Generator) -> Floats:
        """Rates drawn from the prior."""
        none = np.zeros(size)
        return np.asarray(self.components(none, none).draw(1, generator)[0])

    def components(self, counts: Floats, exposure: Floats) -> PosteriorComponents:
        """The posterior of each rate as a mixture, which gives variances, quantiles and draws."""
        x, s = _flat(counts, exposure)
        used = self.support
        shares = np.empty((x.size, used.weights.size))
        mixture_shares(x, s, used.weights, used.shapes, used.means, shares)
        s = np.broadcast_to(s, x.shape)[:, None]
        points = np.isinf(used.shapes) | (used.means == 0)
        shapes = np.where(points, np.inf, used.shapes + x[:, None])
        rates = np.where(points, 1.0, used.shapes / np.where(points, 1.0, used.means) + s)
        return PosteriorComponents(shares, shapes, rates, np.where(points, used.means, shapes / rates))

    def log_evidence(self, counts: Floats, exposure: Floats) -> float:
        """Log evidence log p(x | g, s), summed over the counts."""
        return self.posterior(counts, exposure).log_evidence

    def pack(self) -> Floats:
        """Weights, shapes and means in one array."""
        return np.concatenate((self.weights, self.shapes, self.means))


@dataclass(frozen=True)
class MixtureFamily(ABC):
    """What families of such priors have in common.

    Parameters
    ----------
    tol
        Tolerance of a fit, in nats.
    """

    name: ClassVar[str]

    tol: float = 1e-9

    def fit(self, counts: Floats, exposure: Floats, start: Any = None) -> GammaMixture:
        """The prior of the family that makes the counts most probable: see `PriorFamily`."""
        return self.fit_to(Observations.of(counts, exposure), start)

    @abstractmethod
    def fit_to(self, data: Observations, start: GammaMixture | None = None) -> GammaMixture:
        """The same for observations."""

    def to_plain(self) -> tuple[Any, ...]:
        """The family's name, and pairs of options and values: its form in model files."""
        from partwise.priors.families import FAMILIES  # which imports this module

        if not isinstance(FAMILIES.get(getattr(self, "name", "")), type(self)):
            raise InvalidInputError(
                f"a model file cannot hold {type(self).__name__}, a family of your own: keep the fitted arrays instead."
            )
        return (self.name, *((option.name, getattr(self, option.name)) for option in fields(self)))

    def eased(self, nats: float, n_observations: int) -> Self:
        """The same with a tolerance of this many nats in total, for fits that are soon repeated with other counts."""
        return replace(self, tol=max(self.tol, nats))

    def pack(self, prior: GammaMixture) -> Floats:
        """Weights, shapes and means."""
        return prior.pack()

    def unpack(self, numbers: Floats) -> GammaMixture:
        """The prior of these numbers, exactly."""
        if numbers.ndim != 1 or numbers.size % 3:
            raise InvalidInputError(f"a prior is packed as 3 numbers per mixture component, got {numbers.size} in all.")
        return GammaMixture(*numbers.reshape(3, -1).copy())


def posterior_components(prior: RatePrior, counts: Floats, exposure: Floats) -> PosteriorComponents:
    """The posterior of each rate as a mixture, or an error if the prior does not provide one."""
    if not isinstance(prior, GammaMixture):
        raise InvalidInputError(
            f"a {type(prior).__name__} gives posterior means only: use one of the families by name for variances,"
            " quantiles and draws."
        )
    return prior.components(counts, exposure)


def saturated(counts: Floats) -> Floats:
    """``x log x - x - log x!``: the log-likelihood of each count under the rate that fits it best."""
    large = np.maximum(counts, 16.0)
    square = 1.0 / (large * large)
    # log x! by Stirling's series, whose large terms are those that x log x - x takes away
    rest = (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0)))) / large
    series = -0.5 * np.log(2.0 * np.pi * large) - rest
    return np.where(counts < 16.0, xlogy(counts, counts) - counts - gammaln(counts + 1.0), series)


def _flat(counts: Floats, exposure: Floats) -> tuple[Floats, Floats]:
    """Counts as a vector, and exposures: as many, or one for all."""
    x, s = np.asarray(counts, dtype=np.float64), np.atleast_1d(np.asarray(exposure, dtype=np.float64))
    if s.size > 1 or x.size == 1:
        x, s = np.broadcast_arrays(x, s)
    return np.ascontiguousarray(x).ravel(), np.ascontiguousarray(s).ravel()
