"""A prior that is given and stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.priors.base import Floats, RatePrior


@dataclass(frozen=True)
class Fixed:
    """The family of one prior: whatever the counts, it is that one.

    Parameters
    ----------
    prior
        Anything with ``posterior(counts, exposure)``.
    """

    prior: RatePrior

    def fit(self, counts: Floats, exposure: Floats, start: Any = None) -> RatePrior:
        """The prior."""
        return self.prior

    def pack(self, prior: Any) -> Floats:
        """Nothing: the prior is known."""
        return np.zeros(0)

    def unpack(self, numbers: Floats) -> RatePrior:
        """The prior."""
        return self.prior
