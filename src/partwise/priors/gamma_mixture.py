"""Mixtures of gamma distributions on a grid of shapes and means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.grid import GridFamily, ratio_grid
from partwise.priors.observations import Observations


@dataclass(frozen=True)
class GammaMixtureFamily(GridFamily):
    """Gamma distributions of several shapes, each with a grid of means as fine as the shape is narrow.

    Parameters
    ----------
    shapes
        In increasing order, at most 1000.
    """

    name: ClassVar[str] = "gamma-mixture"

    shapes: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)

    def grid(self, lowest: float, highest: float, data: Observations) -> tuple[Floats, Floats]:
        """All pairs, but for narrow components at rates where no count can tell them from the wider ones."""
        shapes, means = [], []
        exposure = float(data.exposure.max()) or 1.0
        below = 0.0
        for shape in self.shapes:
            # A count of expectation μ has variance μ + μ²/shape: a shape far above μ is as good as infinite.
            start = max(lowest, 0.1 * below / exposure)
            if start <= highest:
                found = ratio_grid(start, highest, 1.0 + min(1.0, shape**-0.5))
                shapes.append(np.full(found.size, shape))
                means.append(found)
            below = shape
        return np.concatenate(shapes), np.concatenate(means)
