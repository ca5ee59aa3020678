"""Mixtures of thousands of points: few stand for many, and what that may cost is part of the bound."""

from __future__ import annotations

import numpy as np
import pytest

from partwise import ebpm
from partwise.priors.condensed import condensed_points, seen_error
from partwise.priors.crowd import _Level, crowded
from partwise.priors.kernels.crowd import near_likelihoods, near_slopes
from partwise.priors.mixture import REMAINDER, GammaMixture
from partwise.priors.observations import Observations


def crowd(seed: int) -> tuple[GammaMixture, np.ndarray, np.ndarray]:
    """Thousands of points in clusters and at 0, counts of all sizes, and their exposures."""
    rng = np.random.default_rng(seed)
    rates = np.exp(rng.normal(0.0, 3.0, 5)[rng.integers(5, size=3000)] + rng.normal(0.0, rng.choice([0.3, 1.0]), 3000))
    rates[:3] = 0.0
    prior = GammaMixture.points(np.sort(rates), rng.gamma(0.5, 1.0, 3000))
    exposure = 10.0 ** rng.uniform(-4.0, 6.0, 600)
    counts = rng.poisson(exposure * rng.choice(rates, 600)).astype(np.float64)
    # Some that no point explains, and fractions.
    counts[:20] = rng.poisson(40.0, 20)
    counts[20:40] *= rng.random(20)
    return prior, counts, exposure


@pytest.mark.parametrize("seed", range(4))
def test_fewer_points_give_the_same_posterior(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    prior, counts, exposure = crowd(seed)
    exact = prior.moments(counts, exposure)
    monkeypatch.setattr("partwise.priors.mixture._MANY", 0.0)
    for width in (2.0, 20.0):
        # Cells that are far too wide: then the remainder says so, and counts are looked at one by one.
        monkeypatch.setattr("partwise.priors.condensed._SEEN_WIDTH", width)
        for found, right in zip(prior.moments(counts, exposure), exact, strict=True):
            np.testing.assert_allclose(found, right, rtol=3 * REMAINDER, atol=3 * REMAINDER)
    monkeypatch.setattr("partwise.priors.mixture.seen_error", lambda counts, level: np.zeros(counts.size))
    assert np.abs(prior.moments(counts, exposure)[2] - exact[2]).max() > 1e-3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [0.0, 1.0, 3.0, 6.0])
def test_the_error_of_fewer_points_is_bounded(seed: int, level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    prior, _, _ = crowd(seed)
    rng = np.random.default_rng(seed)
    counts = np.append(0.0, np.floor(rng.random(40) * (4.0**level - 1.0)))
    exposure = np.maximum(counts, 1.0) / rng.choice(prior.means[prior.means > 0], 41)
    errors = []
    for width in (2.0, 6.0, 20.0):
        monkeypatch.setattr("partwise.priors.condensed._SEEN_WIDTH", width)
        weights, means = condensed_points(prior.weights, prior.means, level)
        assert means.size < 3000
        assert weights.sum() == pytest.approx(1.0, rel=1e-12)
        few = np.exp(GammaMixture.points(means, weights).moments(counts, exposure)[2])
        off = np.abs(few - np.exp(prior.moments(counts, exposure)[2]))
        assert np.all(off <= seen_error(counts, level) + 1e-13)
        errors.append(off.max())
    # The bound says something: these errors are there.
    assert errors[-1] > 1e-12


def test_near_likelihoods_and_slopes(rng: np.random.Generator) -> None:
    counts, inverse, share = np.array([1e-200, 3.0, 7.0]), np.array([2e200, 0.5, 1.1]), np.array([0.5, 0.2, 0.3])
    rates, weights = np.sort(rng.gamma(1.0, 2.0, 9)), rng.dirichlet(np.ones(9))
    bands = np.array([0, 2, 3]), np.array([0, 6, 11, 15])
    flat = np.empty(15)
    near_likelihoods(counts, inverse, rates, bands, flat)
    ratio = inverse[:, None] * rates
    dense = np.exp(counts[:, None] * (np.log(ratio) - ratio + 1.0))
    for i in range(3):
        dense[i, : bands[0][i]], dense[i, bands[0][i] + np.diff(bands[1])[i] :] = 0.0, 0.0
    np.testing.assert_allclose(flat, dense[dense > 0], rtol=1e-12)
    sums, expected = np.empty((4, 9)), counts[:, None] * ratio
    near_slopes((counts, inverse, share), rates, weights, bands, flat, sums)
    scaled = dense * (share / (dense @ weights))[:, None]
    for found, factor in zip(sums, (1.0, counts[:, None] - expected, expected, expected**2), strict=True):
        np.testing.assert_allclose(found, (scaled * factor).sum(axis=0), rtol=1e-9, atol=1e-12)


def test_nodes_show_what_points_do() -> None:
    rng = np.random.default_rng(1)
    data = Observations(rng.integers(16, 64, 300).astype(np.float64), np.exp(rng.normal(0.0, 1.0, 300)), np.ones(1))
    logs, weights = np.sort(rng.uniform(1.0, 6.0, 2000)), rng.dirichlet(np.ones(2000))
    level = _Level.of(data, data.shares, 2.0, logs)
    assert level.nodes is not None
    assert level.nodes.size < 500
    direct, through = level.slopes(logs, weights, None), level.slopes(logs, weights, level.near(level.nodes))
    np.testing.assert_allclose(through[0], direct[0], atol=2e-3 * direct[0].max())
    np.testing.assert_allclose(through[1], direct[1], atol=2e-3 * np.abs(direct[1]).max())


@pytest.mark.parametrize("seed", range(3))
def test_many_rates_of_many_precisions(seed: int) -> None:
    # The bound holds against the best single rate, rates of the data, and points of other families' mixtures.
    rng = np.random.default_rng(seed)
    n, decades = 4000, [6.0, 9.0, 12.0][seed]
    exposure = 10.0 ** rng.uniform(-0.3 * decades, 0.7 * decades, n)
    counts = rng.poisson(np.minimum(exposure * rng.gamma(0.4, 12.0, n), 1e15)).astype(np.float64)
    exposure[:5], counts[:5] = 0.0, 0.0
    fit = ebpm(counts, exposure, "nonparametric")
    assert isinstance(fit.prior, GammaMixture)
    assert 0.0 <= fit.gap < 0.1 * n
    relative = fit.prior.moments(counts, exposure)[2]
    seen = np.flatnonzero(counts > 0)[::5]
    x, ratio = np.maximum(counts, 1e-200)[:, None], exposure[:, None] * (counts / np.maximum(exposure, 1e-300))[seen]
    ratio = ratio / x
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = np.where(exposure[:, None] > 0, x * (np.log(ratio) - (ratio - 1.0)), 0.0)
    slopes = np.exp(logs - relative[:, None]).mean(axis=0) - 1.0
    assert n * np.log1p(slopes.max()) <= fit.gap
    for kind in ("gamma", "exponential-mixture", "gamma-mixture"):
        assert ebpm(counts, exposure, kind).log_likelihood <= fit.log_likelihood + fit.gap
    assert fit.log_likelihood > ebpm(counts, exposure, "gamma-mixture").log_likelihood


def test_points_stay_where_they_may_be(rng: np.random.Generator) -> None:
    data = Observations.of(rng.poisson(3.0, 500).astype(np.float64), 10.0 ** rng.uniform(0.0, 5.0, 500))
    logs = np.linspace(-12.0, 1.0, 1200)
    weights, found = crowded(data, logs)
    assert weights.sum() == pytest.approx(1.0)
    assert np.all(np.diff(found) > 0)
    assert found[0] >= logs[0]
    assert found[-1] <= logs[-1]
