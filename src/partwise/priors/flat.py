"""The flat prior, which gives maximum likelihood."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlogy

from partwise.priors.base import Floats, RatePosterior


@dataclass(frozen=True)
class FlatPrior:
    """A point mass at the maximum-likelihood rate x / s: the loop with this prior is EM for Poisson factorization.

    Parameters
    ----------
    floor
        Smallest rate, broadcast with the counts. Multiplicative updates cannot leave 0, and a rate of 0 under a
        positive count has no likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> FlatPrior().posterior(np.array([6.0, 0.0]), np.array([2.0, 0.0])).mean
    array([3., 0.])
    """

    floor: float | Floats = 0.0

    def rates(self, counts: Floats, exposure: Floats) -> Floats:
        """``maximum(counts / exposure, floor)``, and the floor where there is no exposure."""
        rates = np.zeros(np.broadcast_shapes(counts.shape, np.shape(exposure)))
        np.divide(counts, exposure, out=rates, where=np.broadcast_to(exposure, rates.shape) > 0)
        return np.maximum(rates, self.floor, out=rates)

    def posterior(self, counts: Floats, exposure: Floats) -> RatePosterior:
        """The point mass at the rate; its evidence is the Poisson likelihood there (continuous in the counts)."""
        mean = self.rates(counts, exposure)
        with np.errstate(divide="ignore"):
            mean_log = np.log(mean)
        expected = mean * exposure
        return RatePosterior(mean, mean_log, float(np.sum(xlogy(counts, expected) - expected - gammaln(counts + 1.0))))
