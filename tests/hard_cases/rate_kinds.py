"""Counts with exposures on which grids of rates fail, and a slow reference that shares no code with the library."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, xlogy

Floats = NDArray[np.float64]
Counts = tuple[Floats, Floats]


def _zeros_and_many(rng: np.random.Generator) -> Counts:
    n, share, rate = int(rng.integers(100, 600)), rng.uniform(0.5, 0.95), rng.choice([50.0, 200.0, 3000.0])
    return np.where(rng.random(n) < share, 0, rng.poisson(rate, n)).astype(np.float64), np.ones(n)


def _zeros_and_one(rng: np.random.Generator) -> Counts:
    n = int(rng.integers(20, 200))
    return np.append(np.zeros(n), 10.0 ** rng.integers(2, 8)), np.ones(n + 1)


def _outlier(rng: np.random.Generator) -> Counts:
    n = int(rng.integers(50, 300))
    return np.append(rng.poisson(rng.uniform(1.0, 9.0), n), 10.0 ** rng.uniform(4.0, 7.0)).round(), np.ones(n + 1)


def _extreme_exposures(rng: np.random.Generator) -> Counts:
    s = rng.choice([1e-6, 1e6], 80)
    scale = np.where(s > 1, 1e-6, 1e6) if rng.random() < 0.5 else np.exp(rng.normal(0.0, 4.0, 80))
    return rng.poisson(s * np.minimum(rng.gamma(0.5, 2.0, 80) * scale, 1e7 / s)).astype(np.float64), s


def _all_zero(rng: np.random.Generator) -> Counts:
    n = int(rng.integers(1, 40))
    return np.zeros(n), rng.gamma(1.0, 1.0, n) + 1e-3


def _one_observation(rng: np.random.Generator) -> Counts:
    return rng.poisson(rng.choice([0.3, 5.0, 1e5]), 1).astype(np.float64), rng.gamma(1.0, 3.0, 1) + 1e-3


def _fractional(rng: np.random.Generator) -> Counts:
    n = int(rng.integers(20, 150))
    return rng.gamma(rng.choice([0.02, 0.3, 3.0]), 5.0, n), rng.gamma(2.0, 1.0, n) + 1e-3


def _under_dispersed(rng: np.random.Generator) -> Counts:
    n = int(rng.integers(5, 150))
    return rng.integers(0, 2, n) + np.floor(rng.uniform(1.0, 50.0)), np.ones(n)


def _wide(rng: np.random.Generator) -> Counts:
    n = int(rng.integers(30, 120))
    return rng.poisson(np.exp(rng.normal(2.0, 2.5, n))).astype(np.float64), rng.gamma(5.0, 0.2, n) + 1e-3


def _heavy_tail(rng: np.random.Generator) -> Counts:
    n = int(rng.integers(100, 400))
    return rng.poisson(np.minimum(rng.pareto(rng.uniform(0.3, 0.7), n), 1e8)).astype(np.float64), np.ones(n)


def _decades_of_exposure(rng: np.random.Generator) -> Counts:
    s = 10.0 ** rng.uniform(-6.0, 6.0, 150)
    return rng.poisson(np.minimum(s * rng.gamma(0.4, 12.0, 150), 1e8)).astype(np.float64), s


KINDS: dict[str, Callable[[np.random.Generator], Counts]] = {
    "many zeros and large counts": _zeros_and_many,
    "zeros and one huge count": _zeros_and_one,
    "an outlier": _outlier,
    "extreme exposures": _extreme_exposures,
    "all zero": _all_zero,
    "one observation": _one_observation,
    "fractional": _fractional,
    "under-dispersed": _under_dispersed,
    "wide": _wide,
    "heavy tail": _heavy_tail,
    "exposures over 12 decades": _decades_of_exposure,
}


def log_columns(counts: Floats, exposure: Floats, shape: float, means: Floats) -> Floats:
    """log p(x | component) for each mean; a mean of 0 explains zeros only."""
    x, expected = counts[:, None], exposure[:, None] * means
    with np.errstate(divide="ignore", invalid="ignore"):
        if shape == np.inf:
            return np.asarray(xlogy(x, expected) - expected - gammaln(x + 1.0))
        logs = gammaln(shape + x) - gammaln(shape) - gammaln(x + 1.0) - shape * np.log1p(expected / shape)
        return np.asarray(logs + xlogy(x, expected / (shape + expected)))


def dense_means(counts: Floats, exposure: Floats, n_points: int) -> Floats:
    """0, every rate x / s, the overall rate, and a dense grid of constant ratio."""
    rates = counts / exposure
    if not rates.any():
        return np.zeros(1)
    low = min(1e-3 / exposure.sum(), rates[rates > 0].min())
    grid = np.geomspace(low, 2.0 * rates.max(), n_points)
    return np.unique(np.concatenate(([0.0], grid, rates, [counts.sum() / exposure.sum()])))


def slopes(counts: Floats, exposure: Floats, log_mixture: Floats, shape: float, means: Floats) -> Floats:
    """D(mean) = mean of p(x | component) / p(x | mixture), less 1."""
    logs = log_columns(counts, exposure, shape, means) - log_mixture[:, None]
    return np.asarray(np.exp(logsumexp(logs, axis=0) - np.log(counts.size)) - 1.0)


def em_maximum(counts: Floats, exposure: Floats, shape: float, means: Floats, n_iter: int) -> float:
    """A log-likelihood that mixtures of these components reach: EM for the weights, started from equal ones."""
    logs = log_columns(counts, exposure, shape, means)
    largest = logs.max(axis=1, keepdims=True)
    columns, weights = np.exp(logs - largest), np.full(means.size, 1.0 / means.size)
    for _ in range(n_iter):
        weights *= np.mean(columns / (columns @ weights)[:, None], axis=0)
    return float(np.sum(np.log(columns @ weights) + largest[:, 0]))
