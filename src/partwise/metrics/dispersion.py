"""How much counts vary around fitted expected values, and whether Poisson noise explains it."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from partwise.kernels.arrays import Floats

LEVEL = 0.05
"""Share of Poisson data that the test wrongly calls over-dispersed."""

# An activation, or an entry of a part, below this share of its row does not use a degree of freedom.
_NOTHING = 1e-6
_ROUNDS = 30


@dataclass(frozen=True)
class Dispersion:
    """How counts vary around expected values.

    Attributes
    ----------
    size
        Estimate of r in a variance of mean + mean² / r; infinite if counts vary no more than Poisson counts.
    statistic
        Excess of the squared deviations over those of Poisson counts, in standard errors.
    p_value
        Probability of at least this excess under Poisson noise.
    kept
        Share of the information for the test that is left after the fit, whose parameters follow some of the noise.
        Near 0 the fit has as many parameters as there is noise, and the test cannot find any.
    """

    size: float
    statistic: float
    p_value: float
    kept: float = 1.0

    @property
    def poisson(self) -> bool:
        """Whether Poisson noise can explain the deviations, at the 5% level."""
        return self.p_value > LEVEL

    def __str__(self) -> str:
        if self.poisson:
            return f"Counts vary no more than Poisson noise explains (p = {self.p_value:.2g})"
        told = "p < 0.0001" if self.p_value < 1e-4 else f"p = {self.p_value:.2g}"
        return f"Counts vary more than Poisson noise explains: variance = mean + mean² / {self.size:.2g} ({told})"


def dispersion_of(counts: Floats, means: Floats, leverages: Floats) -> Dispersion:
    """Test how counts vary around fitted means, given the share of its own noise that each mean follows."""
    # A leverage says how a small change of a count moves its mean. One more count also adds information about the mean,
    # so it moves the mean by less: much less if the mean is small.
    leverages = leverages * means / (means + leverages)
    squares = np.square(counts - means)
    excess = float(np.sum(squares - counts + leverages * means))
    variance = 2.0 * float(np.sum(np.square(means)))
    if not variance > 0:
        return Dispersion(np.inf, 0.0, 1.0)
    statistic = excess / np.sqrt(variance)
    # Third moments of (x - mean)² - x; the sum has a long right tail where counts are few (Edgeworth).
    skewness = float(np.sum(8.0 * means**3 + 4.0 * means**2)) / variance**1.5
    tail = norm.sf(statistic) + skewness / 6.0 * (statistic**2 - 1.0) * norm.pdf(statistic)
    # Moment estimate of 1 / size, with the best weights for the size found so far.
    inverse, kept = 0.0, 1.0 - leverages
    for _ in range(_ROUNDS):
        weights = kept / np.square(1.0 + inverse * means)
        above = float(np.sum(weights * (squares - kept * means)))
        inverse = max(above / float(np.sum(weights * kept * np.square(means))), 0.0)
    size = 1.0 / inverse if inverse > 0 else np.inf
    left = 2.0 * float(np.sum(np.square(kept * means))) / variance
    return Dispersion(size, float(statistic), float(np.clip(tail, 0.0, 1.0)), left)


def leverages_of(means: Floats, factor: Floats, other: Floats) -> Floats:
    """For each cell, the diagonal of the hat matrix of its row: Poisson regression of the row on the other factor."""
    found = np.zeros(means.shape)
    for n, row in enumerate(means):
        held, used = row > 0, factor[n] > _NOTHING * factor[n].sum()
        if not used.any():
            continue
        weighted = other[held][:, used] / np.sqrt(row[held])[:, None]
        found[n, held] = np.square(np.linalg.qr(weighted)[0]).sum(axis=1)
    return np.asarray(np.minimum(found, 1.0))
