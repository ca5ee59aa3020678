"""Mixtures of exponential distributions on a grid of means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.grid import GridFamily, ratio_grid
from partwise.priors.observations import Observations


@dataclass(frozen=True)
class ExponentialMixture(GridFamily):
    """Exponential distributions whose means are a grid of constant ratio: any completely monotone density, nearly.

    Parameters
    ----------
    ratio
        Of neighbouring means.
    """

    name: ClassVar[str] = "exponential-mixture"

    ratio: float = 2.0

    def grid(self, lowest: float, highest: float, data: Observations) -> tuple[Floats, Floats]:
        """Shape 1, and means of constant ratio."""
        means = ratio_grid(lowest, highest, self.ratio)
        return np.ones(means.size), means
