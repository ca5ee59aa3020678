"""Both sides of a factorization, and its ELBO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.empirical_bayes.inference.rates import RateSide
from partwise.engines.base import Engine
from partwise.engines.blocks import Block
from partwise.passes.floors import Floors
from partwise.passes.side import Side
from partwise.priors.base import PriorFamily, RatePrior
from partwise.priors.mixture import MixtureFamily

# What changes from sweep to sweep: the posterior and the priors of both factors.

Floats = NDArray[np.float64]


@dataclass
class Factor:
    """The posterior q of one factor, rows x components, and its priors.

    Arrays with one row per sample may be on workers.

    Attributes
    ----------
    mean, geometric
        E[λ] and exp(E[log λ]) under q.
    counts, exposure
        Of which q is the posterior: expected counts, and exposures (one row for all where they are the same).
    divergence
        KL(q_k || g_k) of each component.
    prior_numbers, prior_sizes
        The priors as numbers, one after the other, and how many each has.
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
        """A factor that is known, and has no priors yet."""
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
        """The components of several factors of the same rows in one."""
        parts = [part.fetched() for part in parts]
        n_rows = max(part.exposure.shape[0] for part in parts)
        exposures = [np.broadcast_to(part.exposure, (n_rows, part.exposure.shape[1])) for part in parts]
        return cls(
            mean=np.concatenate([part.mean for part in parts], axis=1),
            geometric=np.concatenate([part.geometric for part in parts], axis=1),
            counts=np.concatenate([part.counts for part in parts], axis=1),
            exposure=np.concatenate(exposures, axis=1),
            divergence=np.concatenate([part.divergence for part in parts]),
            prior_numbers=np.concatenate([part.prior_numbers for part in parts]),
            prior_sizes=np.concatenate([part.prior_sizes for part in parts]),
        )

    def numbers(self) -> list[Floats]:
        """The numbers of each prior; none where it has none yet, or needs none."""
        return np.split(self.prior_numbers, np.cumsum(self.prior_sizes)[:-1])

    def priors(self, family: PriorFamily) -> list[RatePrior]:
        """The priors."""
        return [family.unpack(numbers) for numbers in self.numbers()]

    def starts(self, family: PriorFamily) -> list[RatePrior | None]:
        """The priors to start from, None where there is none yet."""
        return [family.unpack(numbers) if numbers.size else None for numbers in self.numbers()]

    def fetched(self) -> Factor:
        """The same with all arrays here, wherever the engine has them."""
        return replace(
            self,
            mean=np.asarray(self.mean),
            geometric=np.asarray(self.geometric),
            counts=np.asarray(self.counts),
            exposure=np.asarray(self.exposure),
        )

    def only(self, kept: NDArray[np.intp], columns: Callable[[Any, NDArray[np.intp]], Any]) -> Factor:
        """Some of the components, given a function that takes some columns of an array."""
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
        Samples x components, features x components.
    constant
        What the ELBO has that no factor changes: -Σ log x! and the terms of size factors and background.
    grown
        ELBO after each component that was added (greedy starts only).
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
        """Components that are left."""
        return int(self.activations.mean.shape[1])


@dataclass(frozen=True)
class Settings:
    """What the algorithms have in common.

    Attributes
    ----------
    activation_family, dictionary_family
        Where the priors come from.
    size_factors
        Whether the expected counts of a sample are in proportion to its total beside what its activations say.
    background
        The same for features.
    prune
        Whether components that hold next to nothing are taken out.
    ease
        Nats per count by which the prior of a component may be short of the best in a sweep (0.0001 to 0.01 in all),
        where its family can stop early: the next sweep goes on from there. 0 = not at all.
    """

    activation_family: PriorFamily
    dictionary_family: PriorFamily
    size_factors: bool = False
    background: bool = False
    prune: bool = True
    ease: float = 1e-8

    def eased(self, family: PriorFamily, data: SparseData) -> PriorFamily:
        """The family of the rows of some data with the tolerance of a sweep."""
        if self.ease > 0 and isinstance(family, MixtureFamily):
            nats = float(np.clip(self.ease * data.total, 1e-4, 1e-2))
            return family.eased(nats, data.shape[0])
        return family


@dataclass(frozen=True, eq=False)
class Problem:
    """The two sides of some data under some settings."""

    samples: RateSide
    features: RateSide

    @classmethod
    def of(cls, data: SparseData, settings: Settings, n_components: int, engine: Engine) -> Problem:
        """The problem of a fit."""
        floors = Floors.of(data, n_components)
        sizes, background = known_scales(data, settings, engine)
        by_sample = settings.eased(settings.activation_family, data)
        by_feature = settings.eased(settings.dictionary_family, data.transposed)
        return cls(
            RateSide(data, by_sample, sizes, floors.activations, engine, stay=True),
            RateSide(data.transposed, by_feature, background, floors.dictionary, engine),
        )

    def constant(self) -> float:
        """The terms of the ELBO that no factor changes: -Σ log x!, and x times the logarithms of what is known."""
        data = self.samples.data
        total = -float(gammaln(data.values.astype(np.float64) + 1.0).sum())
        for scales, sums in ((self.samples.scales, data.row_sums), (self.features.scales, data.column_sums)):
            if scales is not None:
                total += float(np.sum(sums * np.log(np.where(scales > 0, scales, 1.0))))
        return total

    def elbo(self, state: EmpiricalBayesState) -> float:
        """The ELBO of a state, with the q(Z) that is best for it (MATH 4)."""
        activations, dictionary = state.activations, state.dictionary
        _, logs = self.samples.passes.expected_counts(activations.geometric, dictionary.geometric, with_logs=True)
        rows = [activations.mean, self.samples.exposure(*self.features.weighted(dictionary.mean))]
        expected, _ = self.samples.passes.map_rows(_sum_of_products, reads=rows)
        return bound(logs, expected, activations, dictionary, state.constant)

    def only(self, state: EmpiricalBayesState, kept: NDArray[np.intp]) -> EmpiricalBayesState:
        """Some of the components."""
        return EmpiricalBayesState(
            activations=state.activations.only(kept, self.samples.columns),
            dictionary=state.dictionary.only(kept, self.features.columns),
            constant=state.constant,
            grown=state.grown,
        )


def _sum_of_products(block: Block, left: Floats, right: Floats) -> float:
    return float(np.sum(left[block.rows] * block.own(right)))


def bound(logs: float, expected: float, activations: Factor, dictionary: Factor, constant: float) -> float:
    """Σ x log Σ_k exp(E log h + E log w) - Σ E[h] E[w] - KL of both factors + constant; EB, B.2, corrected."""
    return logs - expected - float(activations.divergence.sum() + dictionary.divergence.sum()) + constant


def known_scales(data: SparseData, settings: Settings, engine: Engine) -> tuple[Floats | None, Floats | None]:
    """Size factors and background, of mean 1; None where they are not asked for."""
    sizes = None
    if settings.size_factors:
        shares = (data.column_sums / max(data.total, 1e-300))[:, None]
        sizes = size_factors(data, shares, engine)
        sizes /= sizes.mean()
    if not settings.background:
        return sizes, None
    weights = np.ones((data.shape[0], 1)) if sizes is None else sizes[:, None]
    background = size_factors(data.transposed, weights, engine)
    return sizes, background / background.mean()


def size_factors(data: SparseData, shares: Floats, engine: Engine) -> Floats:
    """Row totals over what the observed cells of each row would have: 0 where nothing is observed."""
    expected = np.broadcast_to(Side(data, engine).exposure(shares)[:, 0], data.shape[:1])
    sizes: Floats = np.divide(data.row_sums, expected, out=np.zeros(data.shape[0]), where=expected > 0)
    return sizes
