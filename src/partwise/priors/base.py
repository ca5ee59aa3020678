"""The interface of every rate prior and every family of priors, and the family with a single fixed prior."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

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


@runtime_checkable
class RatePrior(Protocol):
    """A prior g of rates λ with counts x ~ Poisson(s λ); EB, section 3."""

    def posterior(self, counts: Floats, exposure: Floats) -> RatePosterior:
        """The posterior of each rate, given its expected count x and its exposure s (broadcast together)."""


@runtime_checkable
class PriorFamily(Protocol):
    """A set of priors from which the data choose one (empirical Bayes): ĝ = argmax over g of log p(x | g, s)."""

    def fit(self, counts: Floats, exposure: Floats, start: Any = None) -> RatePrior:
        """The prior of the family that makes the counts most probable.

        Parameters
        ----------
        counts, exposure
            One-dimensional; ``exposure`` has as many entries as ``counts``, or one for all.
        start
            A prior of the family to start from. The result is at least as good. What the start keeps fixed, such as a
            grid, stays, so a loop that calls ``fit`` repeatedly never gets worse.
        """

    def pack(self, prior: Any) -> Floats:
        """A prior of the family as numbers, for checkpoints and model files."""

    def unpack(self, numbers: Floats) -> RatePrior:
        """Rebuild a prior from the numbers of `pack`."""


# A given prior that does not change.


@dataclass(frozen=True)
class Fixed:
    """The family with a single prior, whatever the counts.

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
