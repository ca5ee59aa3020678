"""Any prior at all, as points."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.priors.grid import Grid, GridFamily
from partwise.priors.layout import near_zero, rate_cells, rate_range, ratio_grid
from partwise.priors.observations import Observations

# If more cells have data, they are thinned out at first.
_MOST_CELLS = 300
# Ratio of neighbouring points elsewhere. Coarser grids cost factorizations up to 0.9 nats per prior.
_RATIO = 1.25


@dataclass(frozen=True)
class Nonparametric(GridFamily):
    """Point masses: the nonparametric maximum-likelihood estimate (Kiefer & Wolfowitz 1956).

    Parameters
    ----------
    spacing
        Distance of neighbouring points at first, in standard deviations of a log rate estimated from one count, 1 /
        sqrt(x). Points are at rates x / s; beyond these, each is at most 1.25 times the one before.
    """

    name: ClassVar[str] = "nonparametric"

    spacing: float = 0.25

    def grid(self, data: Observations) -> Grid:
        """Points at the data, a few beyond and between, the overall rate, and 0 if some count is 0."""
        cells, widths = rate_cells(data, np.inf, self.spacing, _MOST_CELLS)
        # If counts vary no more than Poisson counts, the overall rate is the whole answer. It is never exactly 0, so
        # that positive counts of a later fit are possible.
        overall = np.array([data.overall_rate])
        return Grid.joined(
            [
                (np.inf, cells, widths),
                (np.inf, ratio_grid(*rate_range(data), _RATIO), np.log(_RATIO)),
                (np.inf, overall, 1e-9),
                (np.inf, np.zeros(near_zero(data).size), 0.0),
            ]
        )

    @property
    def narrowest(self) -> float:
        """Points."""
        return np.inf
