"""Likelihood ratios against plain NumPy: on the line, in the complex plane, and derivatives of mixtures."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from partwise.kernels.jit import kernel
from partwise.priors.kernels.directional import mixture_curvature, mixture_slopes, peak_sums, ratio_sums
from partwise.priors.kernels.elementary import log_beside_one
from partwise.priors.kernels.near import (
    NO_COUNT,
    ROWS,
    log_likelihood_column,
    near_columns,
    near_components,
)
from partwise.priors.observations import Observations
from partwise.priors.search import MixturePoints, MixtureSearch

Floats = NDArray[np.float64]
SHAPES = [0.1, 1.0, 40.0, np.inf]


@kernel
def logs_of(values: Floats, out: Floats) -> None:
    """``out = log1p(values)``."""
    for i in range(values.size):
        out[i] = log_beside_one(1.0 + values[i], values[i])


def log_likelihood_columns(counts: Floats, inverse: Floats, shape: float, means: Floats, out: Floats) -> None:
    """One column for each mean."""
    for j, mean in enumerate(means):
        log_likelihood_column(counts, inverse, shape, mean, out[:, j])


def test_logarithm(rng: np.random.Generator) -> None:
    tiny = rng.choice([-1.0, 1.0], 500) * np.exp(rng.uniform(-60.0, -1.5, 500))
    values = np.concatenate((np.exp(rng.uniform(-5.0, 700.0, 2000)), rng.uniform(-0.999, 1.0, 500), tiny))
    out = np.empty(values.size)
    logs_of(values, out)
    np.testing.assert_allclose(out, np.log1p(values), rtol=1e-15)


def terms(rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Counts (0 and more than a block of them), inverse rates (one exposure is 0), and heights of peaks."""
    counts = np.concatenate((np.full(20, NO_COUNT), rng.gamma(0.5, 20.0, 600)))
    exposure = np.append(0.0, rng.gamma(2.0, 1.0, 619))
    return counts, exposure / counts, rng.normal(-5.0, 1.0, 620)


def losses(counts: Floats, inverse: Floats, shape: float, at: complex) -> NDArray[np.complex128]:
    """Logarithm of the likelihood at a complex log rate, relative to that at the rate of each count."""
    ratio = inverse * np.exp(at) + 0j
    with np.errstate(divide="ignore"):
        first = np.where(counts > NO_COUNT, counts * np.log(np.maximum(inverse, 1e-300)) + counts * at, 0.0)
    size = shape + counts
    rest = counts * ratio - counts if shape == np.inf else size * np.log((shape + counts * ratio) / size)
    return np.asarray(first - rest)


def test_likelihoods_lose_nothing_to_large_counts() -> None:
    # With x log x in them, errors are 1e-16 x log x: 2e-8 nats at 1e7. What is left grows with the root of the count.
    rng = np.random.default_rng(4)
    for size in (1e3, 1e5, 1e7, 1e9):
        counts = np.floor(rng.uniform(0.5, 1.0, 60) * size)
        exposure = counts / 1.7 * np.exp(rng.normal(0.0, 3.0, 60) / np.sqrt(counts))
        for shape in (100.0, np.inf):
            out = np.empty(60)
            log_likelihood_column(counts, exposure / counts, shape, 1.7, out)
            with mpmath.workdps(40):
                for i in range(60):
                    x, expected = mpmath.mpf(counts[i]), mpmath.mpf(exposure[i]) * mpmath.mpf(1.7)
                    grown = (
                        expected - x if shape == np.inf else (shape + x) * mpmath.log((shape + expected) / (shape + x))
                    )
                    assert abs(out[i] - (x * mpmath.log(expected / x) - grown)) < 5e-15 * np.sqrt(counts[i])


def test_wide_likelihoods_lose_nothing_to_large_counts() -> None:
    # Of counts far above the shape, likelihoods are as wide as the shape makes them. Terms of size x left errors of
    # 1e-16 x log r, 1e-8 nats here, and Newton's steps could not tell which way was up.
    rng = np.random.default_rng(4)
    counts = np.floor(rng.uniform(0.5, 1.0, 60) * 1e9)
    inverse, out = np.exp(rng.normal(0.0, 0.3, 60)) / 1.7, np.empty(60)
    log_likelihood_column(counts, inverse, 100.0, 1.7, out)
    with mpmath.workdps(40):
        for x, one, found in zip(counts.tolist(), inverse.tolist(), out.tolist(), strict=True):
            ratio = mpmath.mpf(one) * mpmath.mpf(1.7)
            exact = x * mpmath.log(ratio) - (100 + x) * mpmath.log((100 + x * ratio) / (100 + x))
            assert abs(found - exact) < 1e-13


@pytest.mark.parametrize("shape", SHAPES)
def test_columns(shape: float, rng: np.random.Generator) -> None:
    counts, inverse, _ = terms(rng)
    out = np.empty((620, 3), order="F")
    log_likelihood_columns(counts, inverse, shape, np.array([0.0, 0.5, 9.0]), out)
    np.testing.assert_array_equal(out[:, 0], np.where(counts > NO_COUNT, -np.inf, 0.0))
    for j, mean in ((1, 0.5), (2, 9.0)):
        np.testing.assert_allclose(out[:, j], losses(counts, inverse, shape, np.log(mean)).real, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_ratio_sums(shape: float, rng: np.random.Generator) -> None:
    (counts, inverse, tops), places = terms(rng), np.array([-30.0, -1.0, 0.3, 3.0])
    out = np.empty(4)
    ratio_sums(counts, inverse, tops, shape, np.exp(places), out)
    plain = [np.exp(tops + losses(counts, inverse, shape, at).real).sum() for at in places]
    np.testing.assert_allclose(out, plain, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_peaks_are_the_largest_moduli_of_a_strip(shape: float, rng: np.random.Generator) -> None:
    counts, inverse, tops = terms(rng)
    lows, highs, angles = np.array([-2.0, 0.0, 2.5]), np.array([-1.0, 0.5, 2.5]), np.array([0.0, 0.7, 1.3])
    out, information = np.empty((2, 3))
    strips = np.exp(lows), np.exp(highs), np.cos(angles)
    peak_sums((counts, inverse, tops, shape), strips, out, information)
    for j in range(3):
        strip = [
            np.exp(tops + losses(counts, inverse, shape, complex(along, up)).real)
            for along in np.linspace(lows[j], highs[j], 81)
            for up in np.linspace(0.0, angles[j], 9)
        ]
        largest = np.max(strip, axis=0).sum()
        assert largest * (1 - 1e-12) <= out[j] <= largest * 1.001
    assert np.all(information > 0)


def test_peaks_from_zero_on(rng: np.random.Generator) -> None:
    given = terms(rng)
    out, information = np.empty((2, 2))
    for shape in SHAPES:
        strips = np.zeros(2), np.array([0.0, 1e-18]), np.ones(2)
        peak_sums((*given, shape), strips, out, information)
        zeros = np.exp(given[2][:20]).sum()
        assert out[0] == pytest.approx(zeros, rel=1e-12)
        assert out[1] >= out[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_derivatives_of_a_mixture(shape: float, rng: np.random.Generator) -> None:
    counts, exposure = np.maximum(rng.poisson(4.0, 700), NO_COUNT), rng.gamma(3.0, 0.4, 700)
    share, inverse = rng.dirichlet(np.ones(700)), exposure / counts
    means, weights = np.array([0.5, 3.0, 9.0]), np.array([0.2, 0.5, 0.3])
    columns, logs = np.empty((700, 3), order="F"), np.empty(700)
    log_likelihood_columns(counts, inverse, shape, means, columns)
    sums, gauss = np.empty((3, 3)), np.empty((6, 6))
    value = mixture_slopes((counts, inverse, share), shape, (means, weights), sums, logs)
    np.testing.assert_allclose(logs, np.log(np.exp(columns) @ weights), rtol=1e-12, atol=1e-14)
    assert value == pytest.approx(share @ logs, rel=1e-13)
    responsible = weights * np.exp(columns - logs[:, None])
    expected = exposure[:, None] * means
    ratio = 1.0 / (1.0 + expected / shape)
    score = ratio * (counts[:, None] - expected)
    plain = [share @ responsible, share @ (responsible * score), share @ (responsible * expected * ratio)]
    np.testing.assert_allclose(sums, plain, rtol=1e-10, atol=1e-13)
    mixture_curvature((counts, inverse, share), shape, (means, weights), logs, sums, gauss)
    bend = score**2 - ratio**2 * expected * (1.0 + counts[:, None] / shape)
    both = np.hstack((responsible, responsible * score))
    np.testing.assert_allclose(gauss, (both * share[:, None]).T @ both, rtol=1e-10, atol=1e-12)
    plain[2] = share @ (responsible * bend)
    np.testing.assert_allclose(sums, plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [40.0, np.inf])
def test_far_components_are_left_out_where_they_are_nothing(shape: float, rng: np.random.Generator) -> None:
    # Narrow and wide likelihoods, and zeros, in the order that blocks have.
    exposure = 10.0 ** rng.uniform(-3.0, 6.0, 3000)
    data = Observations.of(rng.poisson(exposure * rng.gamma(0.5, 4.0, 3000)).astype(np.float64), exposure).by_rate()
    counts, inverse = data.relative
    means = np.append(0.0, np.geomspace(1e-5, 300.0, 299))
    logs, columns = np.empty((3000, 300), order="F"), np.zeros((3000, 300), order="F")
    maxima = np.empty((-(-3000 // ROWS), 300))
    log_likelihood_columns(counts, inverse, shape, means, logs)
    near_columns(counts, inverse, shape, means, maxima, columns)
    np.testing.assert_allclose(columns, np.exp(logs - logs.max(axis=1, keepdims=True)), atol=1e-40)
    np.testing.assert_array_equal(maxima, [columns[at : at + ROWS].max(axis=0) for at in range(0, 3000, ROWS)])
    inside = 0
    for at in range(0, 3000, ROWS):
        first, last = near_components(counts[at : at + ROWS], inverse[at : at + ROWS], shape, means)
        inside += last - first
    assert inside < (0.9 if shape < np.inf else 0.75) * maxima.size
    points = MixturePoints(rng.dirichlet(np.ones(300)), means)
    found = MixtureSearch(data, shape).evidence(points)
    plain = logsumexp(logs, axis=1, b=points.weights)
    np.testing.assert_allclose(found.log_mixture, plain, rtol=1e-12, atol=1e-12)


def test_newton_steps_end_where_no_direction_leads_up(rng: np.random.Generator) -> None:
    rates = np.where(rng.random(3000) < 0.6, 2.0, 15.0)
    search = MixtureSearch(Observations.of(rng.poisson(rates).astype(np.float64), np.ones(1)), np.inf)

    def value(weights: Floats, means: Floats) -> float:
        return search.evidence(MixturePoints.of(weights, means)).value

    start = MixturePoints(np.array([0.5, 0.5]), np.array([1.5, 18.0]))
    found = search.polished(start, 1e-10)
    best = value(found.weights, found.means)
    assert best > search.evidence(start).value + 10.0 / 3000
    np.testing.assert_allclose(found.means, [2.0, 15.0], rtol=0.05)
    for j in range(2):
        for factor in (0.999, 1.001):
            change = np.where(np.arange(2) == j, factor, 1.0)
            assert value(found.weights, found.means * change) < best
            assert value(found.weights * change, found.means) < best
    again = search.weighted(found, 1e-10)
    assert value(again.weights, again.means) == pytest.approx(best, abs=1e-12)


def test_newton_steps_take_all_of_a_weight(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    # Components that the best mixture does not have. In logarithms of weights they never went, at 30 steps.
    rates = np.where(rng.random(3000) < 0.6, 2.0, 40.0)
    search = MixtureSearch(Observations.of(rng.poisson(rates).astype(np.float64), np.ones(1)), np.inf)
    two = search.polished(MixturePoints(np.array([0.5, 0.5]), np.array([1.5, 38.0])), 1e-10)
    steps, evidence = [], MixtureSearch.evidence

    def counted(self: MixtureSearch, points: MixturePoints) -> object:
        steps.append(points.means.size)
        return evidence(self, points)

    monkeypatch.setattr(MixtureSearch, "evidence", counted)
    means = np.append(two.means, [8.0, 20.0, 90.0])
    found = search.polished(MixturePoints.of(np.array([0.5, 0.3, 0.1, 0.05, 0.05]), means), 1e-10)
    assert steps[0] == 5
    assert len(steps) < 15
    np.testing.assert_allclose(found.means, two.means, rtol=1e-6)


def test_close_neighbours_are_merged(rng: np.random.Generator) -> None:
    search = MixtureSearch(Observations.of(rng.poisson(9.0, 500).astype(np.float64), np.ones(1)), np.inf)
    points = MixturePoints(np.array([0.4, 0.2, 0.4]), np.array([8.9, 9.0, 20.0]))
    found = search.merged(points, 0.1)
    np.testing.assert_allclose(found.weights, [0.6, 0.4])
    np.testing.assert_allclose(found.means, [8.9 + 0.1 / 3.0, 20.0])
    assert search.merged(points, 0.0).means.size == 3
    finer = search.refined(points, 0.3, 1e-9)
    assert search.evidence(finer).value > search.evidence(search.weighted(points, 1e-9)).value
