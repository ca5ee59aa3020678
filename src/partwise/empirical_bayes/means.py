"""Empirical Bayes for many Poisson means: EBPM of the paper's section 3."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.core.blas import one_blas_thread
from partwise.core.keys import key_from
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.priors.base import RatePrior
from partwise.priors.components import PosteriorComponents
from partwise.priors.families import resolve_family
from partwise.priors.grid import GridFamily
from partwise.priors.mixture import posterior_components
from partwise.priors.observations import Observations

# Largest count and exposure, and with its inverse the smallest exposure: squares of ratios of rates stay finite.
_MOST = 1e50


@dataclass(frozen=True, eq=False)
class EBPMResult:
    """A prior learned from counts, and the posterior of the rate behind each count.

    Attributes
    ----------
    prior
        The learned prior ĝ.
    log_likelihood
        log p(x | ĝ, s) in nats.
    mean, mean_log
        E[λ_i | x_i] and E[log λ_i | x_i].
    gap
        Nats by which ``log_likelihood`` is at most below the best of the family, for any means and weights. NaN if no
        bound is known (families other than ``"exponential-mixture"``, ``"gamma-mixture"`` and ``"nonparametric"``).
    counts, exposure
        x and s.
    """

    prior: RatePrior
    log_likelihood: float
    mean: Floats
    mean_log: Floats
    gap: float
    counts: Floats = field(repr=False)
    exposure: Floats = field(repr=False)

    @property
    def variance(self) -> Floats:
        """Var[λ_i | x_i]."""
        return self._components().variance()

    def quantile(self, level: float) -> Floats:
        """The rate below which λ_i lies with posterior probability ``level``.

        Parameters
        ----------
        level
            Between 0 and 1.
        """
        return self._components().quantile(level)

    def interval(self, level: float = 0.9) -> Floats:
        """Lower and upper bounds of the central credible intervals, observations x 2.

        Parameters
        ----------
        level
            Posterior probability of the interval.
        """
        return self._components().interval(level)

    def sample(self, n_draws: int, *, random_state: Any = 0) -> Floats:
        """Draws of the rates from their posterior, draws x observations.

        Parameters
        ----------
        n_draws
            Number of draws.
        random_state
            Seed: int, Generator or None.
        """
        return self._components().draw(n_draws, key_from(random_state).for_stage("rates").generator())

    def _components(self) -> PosteriorComponents:
        return posterior_components(self.prior, self.counts, self.exposure)


def ebpm(x: Any, s: Any = 1.0, prior: Any = "exponential-mixture") -> EBPMResult:
    """Empirical Bayes for Poisson means: x_i ~ Poisson(s_i λ_i), λ_i ~ g, and g learned from the counts.

    Parameters
    ----------
    x
        Counts, or any nonnegative numbers.
    s
        Exposures: one for all, or one per count.
    prior
        The family from which g is chosen: ``"gamma"``, ``"point-gamma"`` (mass at 0), ``"two-gamma"``,
        ``"exponential-mixture"``, ``"gamma-mixture"``, ``"nonparametric"`` (mixtures of points),
        or your own family. A prior, such as a `GammaMixture`, is not fitted.

    Returns
    -------
    EBPMResult
        The prior, the log-likelihood, and the posterior of each rate.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import ebpm
    >>> x = np.random.default_rng(0).poisson(np.repeat([1.0, 20.0], 500))
    >>> fit = ebpm(x, prior="gamma-mixture")
    >>> round(float(fit.prior.mean / x.mean()), 1)
    1.0
    >>> fit.interval(0.9).shape
    (1000, 2)
    """
    counts, exposure = _checked(x, s)
    family = resolve_family(prior)
    with one_blas_thread():
        gap = np.nan
        chosen: RatePrior
        if isinstance(family, GridFamily):
            chosen, gap = family.solve(Observations.of(counts, exposure))
        else:
            chosen = family.fit(counts, exposure)
        posterior = chosen.posterior(counts, exposure)
    return EBPMResult(chosen, posterior.log_evidence, posterior.mean, posterior.mean_log, gap, counts, exposure)


def _checked(x: Any, s: Any) -> tuple[Floats, Floats]:
    counts = _row(x, "x")
    exposure = np.atleast_1d(_row(np.atleast_1d(s), "s"))
    if counts.size == 0:
        raise InvalidInputError("x is empty: give at least one count.")
    if exposure.size not in (1, counts.size):
        raise InvalidInputError(f"s must be one exposure, or {counts.size}: one per count; got {exposure.size}.")
    impossible = np.flatnonzero((counts > 0) & (exposure == 0))
    if impossible.size:
        at = int(impossible[0])
        raise InvalidInputError(f"x[{at}] = {counts[at]:g} with exposure s = 0 is impossible: correct one of them.")
    for name, values, least, remedy in (
        ("x", counts, 0.0, "leave that count out"),
        ("s", exposure, 1 / _MOST, "use another unit of exposure, or leave that count out"),
    ):
        beyond = np.flatnonzero((values > _MOST) | ((values > 0) & (values < least)))
        if beyond.size:
            at = int(beyond[0])
            raise InvalidInputError(
                f"{name}[{at}] = {values[at]:g} must be 0 or from {least:g} to {_MOST:g} to be computed with: {remedy}."
            )
    if exposure.size > 1 and np.all(exposure == exposure[0]):
        exposure = exposure[:1]
    return counts, exposure


def _row(values: Any, name: str) -> Floats:
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must be numbers ({error}).") from error
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must have one dimension, got {array.ndim}: pass a flat list of numbers.")
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        raise InvalidInputError(f"{name}[{bad[0]}] = {array[bad[0]]} must be a finite nonnegative number.")
    return array
