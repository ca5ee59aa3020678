"""One EBPM problem for each component: from expected counts and exposures to priors and posteriors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.empirical_bayes.inference.state import Factor
from partwise.engines.base import Engine
from partwise.poisson.inference.passes import Side
from partwise.priors.base import PriorFamily, RatePrior
from partwise.priors.fixed import Fixed
from partwise.priors.flat import FlatPrior
from partwise.priors.mixture import GammaMixture

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RateSide:
    """The samples' side of the problem, or, on transposed data, the features' side.

    Attributes
    ----------
    data
        The data, rows being those of this side.
    family
        Where the priors of this side come from.
    scales
        Known factors of the rates of each row (size factors; the background); None = 1.
    other_scales
        The same of the columns.
    floors
        Smallest value in each row under a flat prior.
    """

    data: SparseData
    family: PriorFamily
    scales: Floats | None
    other_scales: Floats | None
    floors: Floats
    engine: Engine = field(repr=False)

    @cached_property
    def passes(self) -> Side:
        """Passes over the rows."""
        return Side(self.data, self.engine)

    def exposure(self, other: Floats) -> Floats:
        """Σ over observed columns of the other factor's mean, times what is known; one row where all are the same."""
        weighted = other if self.other_scales is None else other * self.other_scales[:, None]
        exposure = self.passes.exposure(weighted)
        return exposure if self.scales is None else exposure * self.scales[:, None]

    def solve(self, counts: Floats, exposure: Floats, before: Factor, turn: int | None = None) -> Factor:
        """EBPM for each component, in parallel: ``before`` has the priors to start from.

        With a ``turn`` of 0 or 1, only every second component gets a new prior, beginning with that one; the others
        keep theirs, where they have one.
        """
        if is_flat(self.family):
            # Maximum likelihood, with the floors of Poisson factorization: EM's step to the bit.
            rates = FlatPrior(self.floors[:, None]).rates(counts, exposure)
            none = np.zeros(counts.shape[1])
            return Factor(rates, rates.copy(), counts, exposure, none, np.zeros(0), none.astype(np.int64))
        starts = before.starts(self.family)
        priors: list[RatePrior] = [FlatPrior()] * counts.shape[1]

        waiting = [turn is not None and k % 2 != turn and start is not None for k, start in enumerate(starts)]

        def fitted(k: int, x: Floats, s: Floats) -> RatePrior:
            start = starts[k]
            priors[k] = start if start is not None and waiting[k] else self.family.fit(x, s, start)
            return priors[k]

        # What takes longest first, so that no thread is left with it at the end.
        order = sorted(range(len(starts)), key=waiting.__getitem__)
        mean, geometric, divergence = _each_component(counts, exposure, fitted, self.engine, order)
        numbers = [self.family.pack(prior) for prior in priors]
        sizes = np.array([part.size for part in numbers], dtype=np.int64)
        return Factor(mean, geometric, counts, exposure, divergence, np.concatenate(numbers), sizes)


def is_flat(family: PriorFamily) -> bool:
    """Whether a family stands for maximum likelihood."""
    return isinstance(family, Fixed) and isinstance(family.prior, FlatPrior)


def posteriors(
    counts: Floats, exposure: Floats, priors: Sequence[RatePrior], engine: Engine
) -> tuple[Floats, Floats, Floats]:
    """Means and geometric means (rows x components) and divergences, under priors that stay."""
    return _each_component(counts, exposure, lambda k, x, s: priors[k], engine, range(len(priors)))


def _each_component(
    counts: Floats,
    exposure: Floats,
    prior_of: Callable[[int, Floats, Floats], RatePrior],
    engine: Engine,
    order: Sequence[int],
) -> tuple[Floats, Floats, Floats]:
    """`summary` of each column, under the prior that ``prior_of`` gives for it; components in parallel."""
    columns, exposures = np.ascontiguousarray(counts.T), np.ascontiguousarray(exposure.T)
    mean, geometric, divergence = np.empty_like(columns), np.empty_like(columns), np.empty(columns.shape[0])

    def one(k: int) -> None:
        prior = prior_of(k, columns[k], exposures[k])
        mean[k], geometric[k], divergence[k] = summary(prior, columns[k], exposures[k])

    engine.for_each(one, order)
    return np.ascontiguousarray(mean.T), np.ascontiguousarray(geometric.T), divergence


def summary(prior: RatePrior, counts: Floats, exposure: Floats) -> tuple[Floats, Floats, float]:
    """Mean and geometric mean of each rate, and KL(posterior || prior), summed: see `GammaMixture.summary`."""
    if isinstance(prior, GammaMixture):
        return prior.summary(counts, exposure)
    posterior = prior.posterior(counts, exposure)
    log_exposure = np.log(np.where(exposure > 0, exposure, 1.0))
    with np.errstate(invalid="ignore"):
        logs = np.where(counts > 0, counts * (posterior.mean_log + log_exposure), 0.0)
    expected = float(np.sum(logs - exposure * posterior.mean - gammaln(counts + 1.0)))
    return posterior.mean, np.exp(posterior.mean_log), expected - posterior.log_evidence
