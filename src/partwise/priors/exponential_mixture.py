"""Mixtures of exponential distributions."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.priors.grid import ZERO_REACH, Grid, GridFamily
from partwise.priors.layout import near_zero, rate_range, ratio_grid
from partwise.priors.observations import Observations


@dataclass(frozen=True)
class ExponentialMixture(GridFamily):
    """Mixtures of exponential distributions: any completely monotone density.

    Parameters
    ----------
    ratio
        Ratio of neighbouring means of the first grid.
    """

    name: ClassVar[str] = "exponential-mixture"

    ratio: float = 2.0

    def grid(self, data: Observations) -> Grid:
        """Means of constant ratio, and one near 0."""
        means = ratio_grid(*rate_range(data), self.ratio)
        return Grid.joined([(1.0, means, np.log(self.ratio)), (1.0, near_zero(data), ZERO_REACH)])

    @property
    def narrowest(self) -> float:
        """The shape of exponential distributions."""
        return 1.0
