"""Any prior at all, on a fine grid of points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.grid import GridFamily
from partwise.priors.observations import Observations


@dataclass(frozen=True)
class Nonparametric(GridFamily):
    """Point masses on a fine grid: the nonparametric maximum-likelihood estimate (Kiefer & Wolfowitz 1956), nearly.

    Parameters
    ----------
    spacing
        Distance of neighbouring points in standard deviations of a Poisson rate estimated with the largest exposure,
        1 / sqrt(s λ) on the scale of log λ, but for low rates at most half a unit of log λ.
    most_points
        Points at most; the spacing grows where more would be needed.
    """

    name: ClassVar[str] = "nonparametric"

    spacing: float = 0.25
    most_points: int = 400

    def grid(self, lowest: float, highest: float, data: Observations) -> tuple[Floats, Floats]:
        """Infinite shapes, points spaced as said, and the overall rate."""
        exposure = float(data.exposure.max())
        fine = np.linspace(np.log(lowest), np.log(highest), 4096)
        density = np.maximum(2.0, np.sqrt(exposure * np.exp(fine)) / self.spacing)
        position = np.concatenate(([0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(fine))))
        n_points = min(int(np.ceil(position[-1])) + 1, self.most_points)
        logs = np.interp(np.linspace(0.0, position[-1], n_points), position, fine)
        # The overall rate is the whole answer for counts that vary no more than Poisson counts.
        points = np.exp(logs)
        if np.abs(points / data.overall_rate - 1.0).min() > 1e-9 and lowest < data.overall_rate < highest:
            points = np.sort(np.append(points, data.overall_rate))
        return np.full(points.size, np.inf), points
