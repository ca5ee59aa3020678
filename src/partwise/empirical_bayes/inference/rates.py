"""One EBPM problem per part: from expected counts and exposures to the priors and posteriors of a factor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.core.weights import CellWeights
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made
from partwise.kernels.arrays import Floats, Triple
from partwise.passes.side import Side, own_totals
from partwise.priors.base import Fixed, PriorFamily, RatePrior
from partwise.priors.flat import FlatPrior
from partwise.priors.mixture import GammaMixture

# Arrays of a factor; those of several factors are joined side by side.
_ARRAYS = ("mean", "geometric", "counts", "divergence", "prior_numbers", "prior_sizes")


@dataclass
class Factor:
    """The posterior q of one factor, rows x parts, and its priors.

    Arrays with one row per sample may be on workers.

    Attributes
    ----------
    mean, geometric
        E[λ] and exp(E[log λ]) under q.
    counts, exposure
        What q is the posterior of: expected counts, and exposures (a single row if all rows have the same).
    divergence
        KL(q_k || g_k) of each part.
    prior_numbers, prior_sizes
        The parameters of the priors, one prior after the other, and the number of parameters of each.
    """

    mean: Any
    geometric: Any
    counts: Any
    exposure: Any
    divergence: Floats
    prior_numbers: Floats
    prior_sizes: NDArray[np.int64]

    @classmethod
    def given(cls, values: Floats) -> Factor:
        """A known factor, without priors yet."""
        n_components = values.shape[1]
        return cls(
            mean=values.copy(),
            geometric=values.copy(),
            counts=np.zeros_like(values),
            exposure=np.zeros((1, n_components)),
            divergence=np.zeros(n_components),
            prior_numbers=np.zeros(0),
            prior_sizes=np.zeros(n_components, dtype=np.int64),
        )

    @classmethod
    def joined(cls, parts: Sequence[Factor]) -> Factor:
        """Join the parts of several factors with the same rows."""
        parts = [part.fetched() for part in parts]
        n_rows = max(part.exposure.shape[0] for part in parts)
        exposures = [np.broadcast_to(part.exposure, (n_rows, part.exposure.shape[1])) for part in parts]
        arrays = {name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in _ARRAYS}
        return cls(**arrays, exposure=np.concatenate(exposures, axis=1))

    def numbers(self) -> list[Floats]:
        """The parameters of each prior; empty if it has none."""
        return np.split(self.prior_numbers, np.cumsum(self.prior_sizes)[:-1])

    def priors(self, family: PriorFamily) -> list[RatePrior]:
        """The priors."""
        return [family.unpack(numbers) for numbers in self.numbers()]

    def starts(self, family: PriorFamily) -> list[RatePrior | None]:
        """The priors to start from; None where there is none yet."""
        return [family.unpack(numbers) if numbers.size else None for numbers in self.numbers()]

    def fetched(self) -> Factor:
        """The same with all arrays in this process."""
        by_rows = ("mean", "geometric", "counts", "exposure")
        return replace(self, **{name: np.asarray(getattr(self, name)) for name in by_rows})

    def only(self, kept: NDArray[np.intp], columns: Callable[[Any, NDArray[np.intp]], Any]) -> Factor:
        """Some of the parts, given a function that takes columns of an array."""
        numbers = self.numbers()
        return Factor(
            mean=columns(self.mean, kept),
            geometric=columns(self.geometric, kept),
            counts=columns(self.counts, kept),
            exposure=columns(self.exposure, kept),
            divergence=self.divergence[kept],
            prior_numbers=np.concatenate([numbers[k] for k in kept]),
            prior_sizes=self.prior_sizes[kept],
        )


@dataclass
class EmpiricalBayesState:
    """Posteriors of both factors.

    Attributes
    ----------
    activations, dictionary
        Samples x parts, features x parts.
    constant
        The terms of the ELBO that no factor changes: -Σ log x! and the terms of size factors and background.
    grown
        ELBO after each added part (greedy starts only).
    """

    activations: Factor
    dictionary: Factor
    constant: float
    grown: Floats

    @classmethod
    def empty(cls) -> EmpiricalBayesState:
        """The state before there is a start."""
        nothing = np.zeros((0, 0))
        return cls(Factor.given(nothing), Factor.given(nothing), 0.0, np.zeros(0))

    @property
    def n_components(self) -> int:
        """Number of remaining parts."""
        return int(self.activations.mean.shape[1])


@dataclass(frozen=True, eq=False)
class RateSide:
    """The samples' side of the problem or, on transposed data, the features' side.

    Attributes
    ----------
    data
        The data, with the rows of this side.
    family
        Family of the priors of this side.
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
        """Where arrays with one row per row of this side are kept."""
        return Side(self.data, self.engine if self.stay else self.engine.here)

    def weighted(self, mean: Any) -> tuple[Any, Floats]:
        """The mean of this side's factor times the known factors of its rows, and the sums of that over rows."""
        if self.scales is None:
            return mean, self._rows.totals(mean)
        totals, (weighted,) = self._scaled(mean)
        return weighted, totals

    def exposure(self, other: Any, totals: Floats) -> Any:
        """Σ over observed columns of the other factor's mean, times known factors; a single row if all are the same.

        Parameters
        ----------
        other, totals
            The result of `weighted` for the other side.
        """
        exposure = self.passes.exposure(other, totals=totals, stay=self.stay)
        return exposure if self.scales is None else self._scaled(exposure)[1][0]

    def _scaled(self, array: Any) -> tuple[Floats, tuple[Any, ...]]:
        assert self.scales is not None
        rows, made = [array, self.scales[:, None]], [Made(array.shape[1:])]
        return self._rows.map_rows(_scaled, self.data.weights, reads=rows, makes=made, stay=self.stay)

    def columns(self, array: Any, kept: NDArray[np.intp]) -> Any:
        """Some columns of an array with one row per row of this side, or one row for all."""
        if isinstance(array, np.ndarray):
            return np.ascontiguousarray(array[:, kept])
        return self._rows.map_rows(_columns, kept, reads=[array], makes=[Made(kept.shape)])[1][0]

    def solve(self, counts: Any, exposure: Any, before: Factor, turn: int | None = None) -> Factor:
        """Solve EBPM for each part, in parallel; ``before`` has the priors to start from.

        With a ``turn`` of 0 or 1, only every second part gets a new prior, beginning with that one. The others keep
        their prior, if they have one.
        """
        if is_flat(self.family):
            # Maximum likelihood with the floors of Poisson factorization: exactly an EM step.
            rows, made = [counts, exposure, self.floors[:, None]], [Made(counts.shape[1:])]
            _, (rates,) = self._rows.map_rows(_flat_rates, reads=rows, makes=made)
            none = np.zeros(counts.shape[1])
            return Factor(rates, copy(rates), counts, exposure, none, np.zeros(0), none.astype(np.int64))
        starts = before.starts(self.family)
        waiting = [turn is not None and k % 2 != turn and start is not None for k, start in enumerate(starts)]
        # The longest first, so that no thread is left with it at the end.
        order = sorted(range(len(starts)), key=waiting.__getitem__)
        work = [(self.family, start, waits) for start, waits in zip(starts, waiting, strict=True)]
        found, (mean, geometric) = self.engine.map_columns(_solved, work, counts, exposure, n_made=2, order=order)
        numbers = [packed for packed, _ in found]
        divergence = np.array([value for _, value in found])
        sizes = np.array([part.size for part in numbers], dtype=np.int64)
        return Factor(mean, geometric, counts, exposure, divergence, np.concatenate(numbers), sizes)


def is_flat(family: PriorFamily) -> bool:
    """Whether a family means maximum likelihood."""
    return isinstance(family, Fixed) and isinstance(family.prior, FlatPrior)


def posteriors(counts: Floats, exposure: Floats, priors: Sequence[RatePrior], engine: Engine) -> Triple:
    """Means and geometric means (rows x parts) and divergences, under fixed priors."""
    work = [(prior,) for prior in priors]
    divergence, (mean, geometric) = engine.map_columns(_posterior, work, counts, exposure, n_made=2)
    return mean, geometric, np.array(divergence)


def _solved(
    family: PriorFamily, start: RatePrior | None, waits: bool, counts: Floats, exposure: Floats
) -> tuple[tuple[Floats, float], Floats, Floats]:
    """EBPM for one part: parameters of its prior and divergence, and means and geometric means."""
    prior = start if start is not None and waits else family.fit(counts, exposure, start)
    divergence, mean, geometric = _posterior(prior, counts, exposure)
    return (family.pack(prior), divergence), mean, geometric


def _posterior(prior: RatePrior, counts: Floats, exposure: Floats) -> tuple[float, Floats, Floats]:
    mean, geometric, divergence = summary(prior, counts, exposure)
    return divergence, mean, geometric


def _flat_rates(block: Block, counts: Floats, exposure: Floats, floors: Floats, out: Floats) -> None:
    out[block.rows] = FlatPrior(floors[block.rows]).rates(counts[block.rows], block.own(exposure))


def _scaled(block: Block, array: Floats, scales: Floats, out: Floats, weights: CellWeights | None) -> Floats:
    out[block.rows] = block.own(array) * scales[block.rows]
    return own_totals(block, out[block.rows], weights)


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
