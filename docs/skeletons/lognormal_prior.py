"""A family of rate priors: log-normal distributions, on nodes of a quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp, xlogy

from partwise.priors.base import Floats, RatePosterior


# --8<-- [start:prior]
@dataclass(frozen=True)
class LogNormal:
    """log λ ~ Normal(location, scale²), as points at the nodes of Gauss-Hermite quadrature."""

    location: float
    scale: float
    n_nodes: int = 40

    def posterior(self, counts: Floats, exposure: Floats) -> RatePosterior:
        """Mean and mean logarithm of each rate given x ~ Poisson(s λ), and the log evidence Σ log p(x)."""
        nodes, weights = np.polynomial.hermite_e.hermegauss(self.n_nodes)
        log_rates = self.location + self.scale * nodes
        expected = np.multiply.outer(exposure * np.ones_like(counts), np.exp(log_rates))
        log_joint = xlogy(counts[..., None], expected) - expected - gammaln(counts + 1.0)[..., None]
        log_joint += np.log(weights / weights.sum())
        log_evidence = logsumexp(log_joint, axis=-1)
        shares = np.exp(log_joint - log_evidence[..., None])
        return RatePosterior(shares @ np.exp(log_rates), shares @ log_rates, float(log_evidence.sum()))
        # --8<-- [end:prior]


# --8<-- [start:family]
@dataclass(frozen=True)
class LogNormalFamily:
    """All log-normal priors: the data choose location and scale."""

    def fit(self, counts: Floats, exposure: Floats, start: Any = None) -> LogNormal:
        """The best one; never worse than the start, so that a factorization's bound does not fall."""
        if start is None:
            overall = max(float(counts.sum()), 1e-10) / max(float((exposure * np.ones_like(counts)).sum()), 1e-300)
            start = LogNormal(float(np.log(overall)), 1.0)

        def minus(point: Floats) -> float:
            prior = LogNormal(float(point[0]), float(np.exp(point[1])))
            return -prior.posterior(counts, exposure).log_evidence

        first = np.array([start.location, np.log(start.scale)])
        bounds = [(first[0] - 30.0, first[0] + 30.0), (-5.0, 2.0)]
        found = minimize(minus, first, method="Nelder-Mead", bounds=bounds, options={"maxiter": 60})
        best = found.x if found.fun < minus(first) else first
        return LogNormal(float(best[0]), float(np.exp(best[1])))

    def pack(self, prior: LogNormal) -> Floats:
        """The numbers of a prior, for checkpoints and model files."""
        return np.array([prior.location, prior.scale])

    def unpack(self, numbers: Floats) -> LogNormal:
        """The prior that these numbers describe."""
        return LogNormal(float(numbers[0]), float(numbers[1]))
        # --8<-- [end:family]


# --8<-- [start:check]
def check() -> None:
    """The parameters are recovered, and a factorization with these priors never lowers its bound."""
    from partwise import EmpiricalBayesPoissonNMF, ebpm

    rng = np.random.default_rng(0)
    rates = np.exp(rng.normal(1.0, 0.8, size=2000))
    fit = ebpm(rng.poisson(rates), prior=LogNormalFamily())
    # Standard errors are about 0.02: 5 of them
    assert isinstance(fit.prior, LogNormal)
    assert abs(fit.prior.location - 1.0) < 0.1
    assert abs(fit.prior.scale - 0.8) < 0.1
    assert np.mean((fit.mean - rates) ** 2) < 0.9 * np.mean((fit.counts - rates) ** 2)

    X = rng.poisson(np.exp(rng.normal(0.0, 1.0, (12, 2))) @ np.exp(rng.normal(0.0, 1.0, (2, 9))))
    family = LogNormalFamily()
    model = EmpiricalBayesPoissonNMF(
        2, activation_prior=family, dictionary_prior=family, max_iter=8, tol=0.0, random_state=0
    ).fit(X)
    bound = model.trace_["objective"]
    assert np.all(np.diff(bound) >= -1e-8 * np.abs(bound[1:]))
    # --8<-- [end:check]


if __name__ == "__main__":
    check()
