"""The family of gamma distributions with a point mass at 0."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.priors.gamma import GammaFamily, gamma_value
from partwise.priors.mixture import GammaMixture, MixtureFamily
from partwise.priors.observations import Observations
from partwise.priors.two_gamma import Pair, best_pair, enough


@dataclass(frozen=True)
class PointGammaFamily(MixtureFamily):
    """(1 - w) δ(0) + w Gamma(shape, mean).

    The point at 0 can only explain counts that are exactly 0. In a factorization with more than one part, expected
    counts never are: use a family with components near 0, such as ``"two-gamma"`` or ``"exponential-mixture"``.

    Parameters
    ----------
    tol
        Newton's method stops when at most this many nats are left to gain.
    """

    name: ClassVar[str] = "point-gamma"

    tol: float = 1e-8

    def fit_to(self, data: Observations, start: GammaMixture | None = None) -> GammaMixture:
        """The prior of this kind that makes the counts most probable."""
        tol = enough(self.tol, data)
        before = None if start is None else GammaMixture(np.ones(1), start.shapes[1:], start.means[1:])
        plain = GammaFamily(self.tol).fit_to(data, before)
        one = GammaMixture(np.array([0.0, 1.0]), np.append(np.inf, plain.shapes), np.append(0.0, plain.means))
        n_zero = float(np.sum(((data.counts == 0) & (data.exposure > 0)) * data.repeats))
        n_positive = float(np.sum((data.counts > 0) * data.repeats))
        if n_zero == 0 or n_positive == 0:
            return one
        if start is None:
            above = Observations(data.counts, data.exposure, data.repeats * (data.counts > 0)).overall_rate
            # As many zeros as there are, or few.
            log_odds, own, mean = np.log(n_positive / n_zero), float(plain.shapes[0]), float(plain.means[0])
            shape = min(own, 1e3)
            settings = [
                (log_odds, 1.0, above),
                (log_odds, np.inf, above),
                (log_odds, 10.0, above),
                (2.0, shape, mean),
                (2.0, 3.0 * shape, 1.1 * mean),
                (7.0, own, mean),
            ]
            starts = [Pair(odds, np.array([np.inf, a]), np.array([0.0, level])) for odds, a, level in settings]
            found = best_pair(starts, data, tol, 2)
        else:
            found = Pair.of(start).refined(data, tol) if start.weights[0] > 0 else None
        return one if found is None or gamma_value(data, plain) >= found.value else found.prior()
