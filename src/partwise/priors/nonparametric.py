"""Any prior at all, as points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.priors.grid import Grid, GridFamily, near_zero, rate_range, ratio_grid
from partwise.priors.observations import Observations

# More cells with data are thinned out at first.
_MOST_CELLS = 300


@dataclass(frozen=True)
class Nonparametric(GridFamily):
    """Point masses: the nonparametric maximum-likelihood estimate (Kiefer & Wolfowitz 1956).

    Parameters
    ----------
    spacing
        Distance of neighbouring points at first, in standard deviations of a log rate that is estimated from one count,
        1 / sqrt(x). A point is where a rate x / s is, and beyond that each is at most twice the one before.
    """

    name: ClassVar[str] = "nonparametric"

    spacing: float = 0.5

    def grid(self, data: Observations) -> Grid:
        """Points where the data are, a few beyond and between, the overall rate, and 0 if some count is 0."""
        seen = data.rates > 0
        logs = np.log(data.rates[seen])
        level = np.floor(np.log2(self.spacing * np.minimum(1.0, data.counts[seen] ** -0.5)))
        cells = np.unique(np.stack((level, np.floor(logs / 2.0**level))), axis=1)
        widths = 2.0 ** cells[0]
        points = np.exp((cells[1] + 0.5) * widths)
        kept = np.argsort(points, kind="stable")
        if kept.size > _MOST_CELLS:
            kept = kept[np.linspace(0, kept.size - 1, _MOST_CELLS).astype(np.intp)]
        # The overall rate is the whole answer for counts that vary no more than Poisson counts. It is never quite 0, so
        # that positive counts of a later fit are possible.
        overall = np.array([data.overall_rate])
        return Grid.joined(
            [
                (np.inf, points[kept], widths[kept]),
                (np.inf, ratio_grid(*rate_range(data), 2.0), np.log(2.0)),
                (np.inf, overall, 1e-9),
                (np.inf, np.zeros(near_zero(data).size), 0.0),
            ]
        )

    def component_shapes(self) -> tuple[float, ...]:
        """Infinite."""
        return (np.inf,)
