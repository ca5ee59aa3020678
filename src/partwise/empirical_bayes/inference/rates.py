"""One EBPM problem for each component: from expected counts and exposures to priors and posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.empirical_bayes.inference.state import Factor
from partwise.engines.base import Engine
from partwise.engines.columns import map_columns
from partwise.engines.rows import rowwise
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
    stay
        Whether what there is of each row stays where rows are worked on.
    """

    data: SparseData
    family: PriorFamily
    scales: Floats | None
    other_scales: Floats | None
    floors: Floats
    engine: Engine = field(repr=False)
    stay: bool = False

    @cached_property
    def passes(self) -> Side:
        """Passes over the rows."""
        return Side(self.data, self.engine)

    def exposure(self, other: Floats) -> Floats:
        """Σ over observed columns of the other factor's mean, times what is known; one row where all are the same."""
        weighted = other if self.other_scales is None else other * self.other_scales[:, None]
        exposure = self.passes.exposure(weighted, stay=self.stay)
        if self.scales is None:
            return exposure
        scales = self.scales[:, None]
        return exposure * (self.passes.place(scales) if self.stay else scales)

    def solve(self, counts: Floats, exposure: Floats, before: Factor, turn: int | None = None) -> Factor:
        """EBPM for each component, in parallel: ``before`` has the priors to start from.

        With a ``turn`` of 0 or 1, only every second component gets a new prior, beginning with that one; the others
        keep theirs, where they have one.
        """
        if is_flat(self.family):
            # Maximum likelihood, with the floors of Poisson factorization: EM's step to the bit.
            rates = rowwise(_flat_rates, counts, exposure, self.floors[:, None])
            none = np.zeros(counts.shape[1])
            return Factor(rates, rates.copy(), counts, exposure, none, np.zeros(0), none.astype(np.int64))
        starts = before.starts(self.family)
        waiting = [turn is not None and k % 2 != turn and start is not None for k, start in enumerate(starts)]
        # What takes longest first, so that no thread is left with it at the end.
        order = sorted(range(len(starts)), key=waiting.__getitem__)
        work = [(self.family, start, waits) for start, waits in zip(starts, waiting, strict=True)]
        found, (mean, geometric) = map_columns(self.engine, _solved, work, counts, exposure, n_made=2, order=order)
        numbers = [packed for packed, _ in found]
        divergence = np.array([value for _, value in found])
        sizes = np.array([part.size for part in numbers], dtype=np.int64)
        return Factor(mean, geometric, counts, exposure, divergence, np.concatenate(numbers), sizes)


def is_flat(family: PriorFamily) -> bool:
    """Whether a family stands for maximum likelihood."""
    return isinstance(family, Fixed) and isinstance(family.prior, FlatPrior)


def posteriors(
    counts: Floats, exposure: Floats, priors: Sequence[RatePrior], engine: Engine
) -> tuple[Floats, Floats, Floats]:
    """Means and geometric means (rows x components) and divergences, under priors that stay."""
    work = [(prior,) for prior in priors]
    divergence, (mean, geometric) = map_columns(engine, _posterior, work, counts, exposure, n_made=2)
    return mean, geometric, np.array(divergence)


def _solved(
    family: PriorFamily, start: RatePrior | None, waits: bool, counts: Floats, exposure: Floats
) -> tuple[tuple[Floats, float], Floats, Floats]:
    """EBPM for one component: numbers of its prior and divergence, and means and geometric means."""
    prior = start if start is not None and waits else family.fit(counts, exposure, start)
    divergence, mean, geometric = _posterior(prior, counts, exposure)
    return (family.pack(prior), divergence), mean, geometric


def _posterior(prior: RatePrior, counts: Floats, exposure: Floats) -> tuple[float, Floats, Floats]:
    mean, geometric, divergence = summary(prior, counts, exposure)
    return divergence, mean, geometric


def _flat_rates(counts: Floats, exposure: Floats, floors: Floats) -> Floats:
    return FlatPrior(floors).rates(counts, exposure)


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
