"""The posterior of a factor, component by component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.keys import key_from
from partwise.priors.base import RatePrior
from partwise.priors.components import PosteriorComponents
from partwise.priors.mixture import posterior_components

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FactorPosterior:
    """Independent posteriors of the entries of a factor (of the mean-field approximation).

    Attributes
    ----------
    mean
        E of each entry, rows x components.
    counts, exposure
        Expected counts, and exposures (one row where all are the same), behind each entry.
    priors
        One for each component.
    scales
        Known factors of the rows, with which the entries of each row are multiplied.
    """

    mean: Floats
    counts: Floats = field(repr=False)
    exposure: Floats = field(repr=False)
    priors: Sequence[RatePrior] = field(repr=False)
    scales: Floats = field(repr=False)

    @property
    def variance(self) -> Floats:
        """Variance of each entry."""
        parts = [self._components(k).variance() for k in range(len(self.priors))]
        return np.stack(parts, axis=1) * self.scales[:, None] ** 2

    def quantile(self, level: float) -> Floats:
        """The value below which each entry lies with posterior probability ``level``.

        Parameters
        ----------
        level
            Between 0 and 1.
        """
        parts = [self._components(k).quantile(level) for k in range(len(self.priors))]
        return np.stack(parts, axis=1) * self.scales[:, None]

    def interval(self, level: float = 0.9) -> Floats:
        """Lower and upper ends of the central credible intervals, rows x components x 2.

        Parameters
        ----------
        level
            Posterior probability of each interval.
        """
        parts = [self._components(k).interval(level) for k in range(len(self.priors))]
        return np.stack(parts, axis=1) * self.scales[:, None, None]

    def sample(self, n_draws: int, *, random_state: Any = 0) -> Floats:
        """Draws, draws x rows x components.

        Parameters
        ----------
        n_draws
            How many.
        random_state
            Seed: int, Generator or None.
        """
        key = key_from(random_state).for_stage("factor")
        parts = [self._components(k).draw(n_draws, key.at(k).generator()) for k in range(len(self.priors))]
        return np.stack(parts, axis=2) * self.scales[:, None]

    def _components(self, k: int) -> PosteriorComponents:
        return posterior_components(self.priors[k], self.counts[:, k], self.exposure[:, k])
