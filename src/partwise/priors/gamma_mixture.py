"""Mixtures of gamma distributions of given shapes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.grid import ZERO_REACH, Grid, GridFamily
from partwise.priors.layout import near_zero, rate_range, ratio_grid
from partwise.priors.observations import Observations


@dataclass(frozen=True)
class GammaMixtureFamily(GridFamily):
    """Mixtures of gamma distributions of several shapes. The first grid of means is finer for narrower shapes.

    Parameters
    ----------
    shapes
        Shapes in increasing order, at most 1000.
    """

    name: ClassVar[str] = "gamma-mixture"

    shapes: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)

    def grid(self, data: Observations) -> Grid:
        """All pairs, except narrow components at rates where no count can distinguish them from wider ones."""
        lowest, highest = rate_range(data)
        exposure = float(data.exposure.max()) or 1.0
        parts: list[tuple[float, Floats, float]] = [(self.shapes[0], near_zero(data), ZERO_REACH)]
        below = 0.0
        for shape in self.shapes:
            # A count with mean μ has variance μ + μ²/shape: a shape far above μ is as good as infinite.
            ratio = 1.0 + min(1.0, shape**-0.5)
            parts.append((shape, ratio_grid(max(lowest, 0.1 * below / exposure), highest, ratio), np.log(ratio)))
            below = shape
        return Grid.joined(parts)

    @property
    def narrowest(self) -> float:
        """The last of the given shapes."""
        return max(self.shapes)
