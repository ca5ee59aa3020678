"""What changes from sweep to sweep: the posterior and the priors of both factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.priors.base import PriorFamily, RatePrior

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
