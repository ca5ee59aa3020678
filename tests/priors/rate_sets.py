"""Simulated counts with exposures of many kinds, and slow maximisers that share no code with the library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp, xlogy

Floats = NDArray[np.float64]

N_KINDS = 9
N_CHANGES = 5


class RateSet(NamedTuple):
    """Counts, exposures (as many), and a name for messages."""

    counts: Floats
    exposure: Floats
    name: str


def rate_sets(n_sets: int, seed: int) -> Iterator[RateSet]:
    """Constant and varying exposure; zeros, large, fractional, under-dispersed and all-zero counts; one observation."""
    rng = np.random.default_rng(seed)
    for number in range(n_sets):
        n = int(rng.choice([1, 2, 5, 20, 60, 150]))
        kind, change = number % N_KINDS, int(rng.integers(N_CHANGES))
        rates = _rates(kind, n, rng)
        exposure = np.ones(n) if rng.random() < 0.5 else rng.gamma(3.0, 0.4, size=n) + 0.01
        counts = rng.poisson(rates * exposure).astype(np.float64)
        if change == 1:
            counts += rng.gamma(0.3, 0.3, size=n)
        elif change == 2:
            counts *= rng.random(n)
        elif change == 3:
            counts = np.round(np.maximum(counts.mean() + 0.1 * (counts - counts.mean()), 0.0))
        elif change == 4:
            exposure *= 1e4
        yield RateSet(counts, exposure, f"set {number}: kind {kind}, change {change}, n = {n}")


def _rates(kind: int, n: int, rng: np.random.Generator) -> Floats:
    if kind == 0:
        return rng.exponential(5.0, size=n)
    if kind == 1:
        return rng.gamma(0.1, 10.0, size=n)
    if kind == 2:
        return np.full(n, 4.0)
    if kind == 3:
        return np.where(rng.random(n) < 0.5, 1.0, 20.0)
    if kind == 4:
        return rng.gamma(2.0, 2000.0, size=n)
    if kind == 5:
        return np.where(rng.random(n) < 0.7, rng.gamma(0.5, 0.2, size=n), rng.gamma(20.0, 1.0, size=n))
    if kind == 6:
        return np.where(rng.random(n) < 0.7, 0.0, rng.gamma(2.0, 3.0, size=n))
    if kind == 7:
        return np.where(rng.random(n) < 0.1, rng.gamma(3.0, 30.0, size=n), rng.gamma(3.0, 1.0, size=n))
    return np.zeros(n)


def log_evidence(counts: Floats, expected: Floats, shape: float) -> Floats:
    """Log density of the (continuous) negative binomial in plain SciPy; good for moderate shapes only."""
    if shape == np.inf:
        return xlogy(counts, expected) - expected - gammaln(counts + 1.0)
    total = shape + expected
    value: Floats = gammaln(shape + counts) - gammaln(shape) - gammaln(counts + 1.0)
    return value + shape * np.log(shape / total) + xlogy(counts, expected / total)


def slow_maximum(rates: RateSet, kind: str, n_starts: int, rng: np.random.Generator) -> float:
    """The best log evidence of ``"gamma"``, ``"point-gamma"`` or ``"two-gamma"`` from many random starts of L-BFGS."""
    counts, exposure = rates.counts, rates.exposure
    positions = counts / exposure + 1e-2 * (counts / exposure).mean() + 1e-12
    bounds = [(-25.0, 25.0)] + [(-12.0, 15.0), (-40.0, 25.0)] * 2

    def minus(point: Floats) -> float:
        with np.errstate(all="ignore"):
            high = log_evidence(counts, exposure * np.exp(point[2]), np.exp(point[1]))
            if kind == "gamma":
                return -float(high.sum())
            if kind == "point-gamma":
                low: Any = np.where(counts == 0, 0.0, -np.inf)
            else:
                low = log_evidence(counts, exposure * np.exp(point[4]), np.exp(point[3]))
            weights = np.array([-np.logaddexp(0.0, -point[0]), -np.logaddexp(0.0, point[0])])
            return -float(np.logaddexp(weights[0] + high, weights[1] + low).sum())

    best = -np.inf
    for _ in range(n_starts):
        start = np.array(
            [1.5 * rng.normal()]
            + [part for _ in range(2) for part in (2.0 * rng.normal(), np.log(rng.choice(positions)))]
        )
        found = minimize(
            minus, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500, "ftol": 1e-13, "gtol": 1e-8}
        )
        best = max(best, -float(found.fun))
    return best


def duality_gap(rates: RateSet, weights: Floats, shapes: Floats, means: Floats) -> float:
    """Nats to the maximum over all weights at most: n log max_j mean_i L_ij / (Lπ)_i, in plain SciPy."""
    columns = [
        log_evidence(rates.counts, rates.exposure * mean, shape) for shape, mean in zip(shapes, means, strict=True)
    ]
    logs = np.stack(columns, axis=1)
    with np.errstate(divide="ignore"):
        mixed = logsumexp(logs + np.log(weights), axis=1)
    ratios = logsumexp(logs - mixed[:, None], axis=0) - np.log(rates.counts.size)
    return float(rates.counts.size * max(ratios.max(), 0.0))
