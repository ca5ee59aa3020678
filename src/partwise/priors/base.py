"""What every rate prior offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RatePosterior:
    """Posterior of Poisson rates: ``mean`` = E[rate], ``mean_log`` = E[log rate], both shaped like the counts.

    ``log_evidence`` is the log marginal likelihood of the counts, summed.
    """

    mean: Floats
    mean_log: Floats
    log_evidence: float


class RatePrior(Protocol):
    """A prior g of rates λ with counts x ~ Poisson(s λ); EB, section 2."""

    def posterior(self, counts: Floats, exposure: Floats) -> RatePosterior:
        """The posterior of each rate, given its expected count x and its exposure s (broadcast together)."""
