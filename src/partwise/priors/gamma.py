"""The family of gamma distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.kernels.evidence import gamma_evidence
from partwise.priors.mixture import GammaMixture, MixtureFamily
from partwise.priors.newton import Maximum, maximise
from partwise.priors.observations import Observations

# Largest |log shape| and |log(mean / overall rate)|. Beyond the first, the Poisson limit is as good.
BOUND = np.array([16.0, 40.0])
# From this shape on, a point mass (the Poisson limit) is tried.
LARGE_SHAPE = 1e3


@dataclass(frozen=True)
class GammaFamily(MixtureFamily):
    """Gamma(shape, mean), with the point mass as its limit: counts that vary no more than Poisson counts call for it.

    Parameters
    ----------
    tol
        Nats that are left to gain when Newton's method stops.
    """

    def fit(self, counts: Floats, exposure: Floats, start: Any = None) -> GammaMixture:
        """The gamma distribution, or point mass, that makes the counts most probable."""
        return self.fit_to(Observations.of(counts, exposure), start)

    def fit_to(self, data: Observations, start: GammaMixture | None = None) -> GammaMixture:
        """The same for observations."""
        point = GammaMixture.points(np.array([data.overall_rate]))
        if data.total_count <= 0:
            return point
        if start is not None:
            return self._go_on(data, start, point)
        shapes = {data.moment_shape(data.overall_rate), 0.1, 10.0}
        found = [self._newton(data, shape, data.overall_rate) for shape in sorted(shapes)]
        best = max(found, key=lambda maximum: maximum.value)
        return point if gamma_value(data, point) >= best.value else _prior(best, data)

    def _go_on(self, data: Observations, start: GammaMixture, point: GammaMixture) -> GammaMixture:
        shape, mean = float(start.shapes[0]), float(start.means[0])
        was_point = shape == np.inf
        if was_point:
            # The likelihood rises as the shape comes down from infinity just where the counts are over-dispersed.
            if data.excess_variance(data.overall_rate) <= 0:
                return point
            shape, mean = data.moment_shape(data.overall_rate), data.overall_rate
        best = self._newton(data, shape, mean)
        near_limit = was_point or best.point[0] > np.log(LARGE_SHAPE)
        return point if near_limit and gamma_value(data, point) >= best.value else _prior(best, data)

    def _newton(self, data: Observations, shape: float, mean: float) -> Maximum:
        out = np.empty(6)
        unit = data.overall_rate

        def evaluate(at: Floats) -> tuple[float, Floats, Floats]:
            gamma_evidence(data.counts, data.exposure, data.repeats, np.exp(at[0]), unit * np.exp(at[1]), out)
            return out[0], out[1:3].copy(), np.array([[out[3], out[4]], [out[4], out[5]]])

        return maximise(evaluate, np.array([np.log(shape), np.log(mean / unit)]), BOUND, tol=self.tol)


def _prior(maximum: Maximum, data: Observations) -> GammaMixture:
    shape, mean = np.exp(maximum.point[0]), data.overall_rate * np.exp(maximum.point[1])
    return GammaMixture(np.ones(1), np.array([shape]), np.array([mean]))


def gamma_value(data: Observations, prior: GammaMixture) -> float:
    """Log evidence under one gamma or point, relative to the best rate of each count."""
    out = np.empty(6)
    gamma_evidence(data.counts, data.exposure, data.repeats, float(prior.shapes[0]), float(prior.means[0]), out)
    return float(out[0])
