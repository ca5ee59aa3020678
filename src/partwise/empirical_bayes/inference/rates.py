"""One EBPM problem for each component: from expected counts and exposures to priors and posteriors."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.empirical_bayes.inference.problem import Factor
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made
from partwise.passes.side import Side
from partwise.priors.base import Fixed, PriorFamily, RatePrior
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
    floors
        Smallest value in each row under a flat prior.
    stay
        Whether arrays with one row per row of this side stay on the workers, if there are any.
    """

    data: SparseData
    family: PriorFamily
    scales: Floats | None
    floors: Floats
    engine: Engine = field(repr=False)
    stay: bool = False

    @cached_property
    def passes(self) -> Side:
        """Passes over the nonzeros of the rows."""
        return Side(self.data, self.engine)

    @cached_property
    def _rows(self) -> Side:
        """Where arrays with one row per row of this side are worked on."""
        return Side(self.data, self.engine if self.stay else self.engine.here)

    def weighted(self, mean: Any) -> tuple[Any, Floats]:
        """The mean of this side's factor times the known factors of its rows, and the sums of that over rows."""
        if self.scales is None:
            return mean, self._rows.totals(mean)
        totals, (weighted,) = self._scaled(mean)
        return weighted, totals

    def exposure(self, other: Any, totals: Floats) -> Any:
        """Σ over observed columns of the other factor's mean, times what is known; one row where all are the same.

        Parameters
        ----------
        other, totals
            What `weighted` gives of the other side.
        """
        exposure = self.passes.exposure(other, totals=totals, stay=self.stay)
        return exposure if self.scales is None else self._scaled(exposure)[1][0]

    def _scaled(self, array: Any) -> tuple[Floats, tuple[Any, ...]]:
        assert self.scales is not None
        rows, made = [array, self.scales[:, None]], [Made(array.shape[1:])]
        return self._rows.map_rows(_scaled, reads=rows, makes=made, stay=self.stay)

    def columns(self, array: Any, kept: NDArray[np.intp]) -> Any:
        """Some columns of an array with one row per row of this side, or one for all."""
        if isinstance(array, np.ndarray):
            return np.ascontiguousarray(array[:, kept])
        return self._rows.map_rows(_columns, kept, reads=[array], makes=[Made(kept.shape)])[1][0]

    def solve(self, counts: Any, exposure: Any, before: Factor, turn: int | None = None) -> Factor:
        """EBPM for each component, in parallel: ``before`` has the priors to start from.

        With a ``turn`` of 0 or 1, only every second component gets a new prior, beginning with that one; the others
        keep theirs, where they have one.
        """
        if is_flat(self.family):
            # Maximum likelihood, with the floors of Poisson factorization: EM's step to the bit.
            rows, made = [counts, exposure, self.floors[:, None]], [Made(counts.shape[1:])]
            _, (rates,) = self._rows.map_rows(_flat_rates, reads=rows, makes=made)
            none = np.zeros(counts.shape[1])
            return Factor(
                mean=rates,
                geometric=copy(rates),
                counts=counts,
                exposure=exposure,
                divergence=none,
                prior_numbers=np.zeros(0),
                prior_sizes=none.astype(np.int64),
            )
        starts = before.starts(self.family)
        waiting = [turn is not None and k % 2 != turn and start is not None for k, start in enumerate(starts)]
        # What takes longest first, so that no thread is left with it at the end.
        order = sorted(range(len(starts)), key=waiting.__getitem__)
        work = [(self.family, start, waits) for start, waits in zip(starts, waiting, strict=True)]
        found, (mean, geometric) = self.engine.map_columns(_solved, work, counts, exposure, n_made=2, order=order)
        numbers = [packed for packed, _ in found]
        divergence = np.array([value for _, value in found])
        sizes = np.array([part.size for part in numbers], dtype=np.int64)
        return Factor(
            mean=mean,
            geometric=geometric,
            counts=counts,
            exposure=exposure,
            divergence=divergence,
            prior_numbers=np.concatenate(numbers),
            prior_sizes=sizes,
        )


def is_flat(family: PriorFamily) -> bool:
    """Whether a family stands for maximum likelihood."""
    return isinstance(family, Fixed) and isinstance(family.prior, FlatPrior)


def posteriors(
    counts: Floats, exposure: Floats, priors: Sequence[RatePrior], engine: Engine
) -> tuple[Floats, Floats, Floats]:
    """Means and geometric means (rows x components) and divergences, under priors that stay."""
    work = [(prior,) for prior in priors]
    divergence, (mean, geometric) = engine.map_columns(_posterior, work, counts, exposure, n_made=2)
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


def _flat_rates(block: Block, counts: Floats, exposure: Floats, floors: Floats, out: Floats) -> float:
    out[block.rows] = FlatPrior(floors[block.rows]).rates(counts[block.rows], block.own(exposure))
    return 0.0


def _scaled(block: Block, array: Floats, scales: Floats, out: Floats) -> Floats:
    out[block.rows] = block.own(array) * scales[block.rows]
    return np.asarray(out[block.rows].sum(axis=0))


def _columns(block: Block, array: Floats, out: Floats, kept: NDArray[np.intp]) -> float:
    out[block.rows] = array[block.rows][:, kept]
    return 0.0


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
