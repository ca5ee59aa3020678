"""The family of gamma distributions."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from partwise.priors.kernels.evidence import gamma_evidence
from partwise.priors.kernels.newton import maximise_evidence
from partwise.priors.mixture import GammaMixture, MixtureFamily
from partwise.priors.observations import Observations

# Largest |log shape| and |log(mean / overall rate)|. Beyond the first, the Poisson limit is as good.
_BOUND = np.array([16.0, 40.0])
_BOTH = np.arange(2)
_MOST_STEPS = 100
# From this shape on, a point mass (the Poisson limit) is tried.
LARGE_SHAPE = 1e3


@dataclass(frozen=True)
class GammaFamily(MixtureFamily):
    """Gamma(shape, mean). Its limit, a point mass, fits counts that vary no more than Poisson counts.

    Parameters
    ----------
    tol
        Newton's method stops when at most this many nats are left to gain.
    """

    name: ClassVar[str] = "gamma"

    def fit_to(self, data: Observations, start: GammaMixture | None = None) -> GammaMixture:
        """The gamma distribution, or point mass, that makes the counts most probable."""
        point = GammaMixture.points(np.array([data.overall_rate]))
        if data.total_count <= 0:
            return point
        if start is not None:
            return self._go_on(data, start, point)
        shapes = {data.moment_shape(data.overall_rate), 0.1, 10.0}
        found = [self._newton(data, shape, data.overall_rate) for shape in sorted(shapes)]
        best, value = max(found, key=lambda maximum: maximum[1])
        return point if gamma_value(data, point) >= value else best

    def _go_on(self, data: Observations, start: GammaMixture, point: GammaMixture) -> GammaMixture:
        shape, mean = float(start.shapes[0]), float(start.means[0])
        was_point = shape == np.inf
        if was_point:
            # As the shape decreases from infinity, the likelihood rises exactly if the counts are over-dispersed.
            if data.excess_variance(data.overall_rate) <= 0:
                return point
            shape, mean = data.moment_shape(data.overall_rate), data.overall_rate
        best, value = self._newton(data, shape, mean)
        near_limit = was_point or best.shapes[0] > LARGE_SHAPE
        return point if near_limit and gamma_value(data, point) >= value else best

    def _newton(self, data: Observations, shape: float, mean: float) -> tuple[GammaMixture, float]:
        """A local maximum, and its evidence relative to the best rate of each count."""
        unit = np.array([data.overall_rate])
        at = np.array([np.log(shape), np.log(mean / data.overall_rate)])
        value = maximise_evidence(data.arrays, np.ones(1), unit, _BOTH, _BOUND, self.tol, _MOST_STEPS, at)
        return GammaMixture(np.ones(1), np.exp(at[:1]), unit * np.exp(at[1:])), value


def gamma_value(data: Observations, prior: GammaMixture) -> float:
    """Log evidence under one gamma or point, relative to the best rate of each count."""
    out = np.empty(6)
    gamma_evidence(data.arrays, float(prior.shapes[0]), float(prior.means[0]), out)
    return float(out[0])
