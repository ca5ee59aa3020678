"""Sums of likelihood ratios against plain NumPy: on the line, in the complex plane, and derivatives of mixtures."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from partwise.kernels.jit import kernel
from partwise.priors.kernels.directional import log_of_positive, mixture_derivatives, peak_sums, ratio_sums
from partwise.priors.mixture import GammaMixture
from partwise.priors.observations import Observations
from partwise.priors.support import evidence, merged, polished, weighted

Floats = NDArray[np.float64]
SHAPES = [0.1, 1.0, 40.0, np.inf]


@kernel
def logs_of(values: Floats, out: Floats) -> None:
    """``out = log(values)``."""
    for i in range(values.size):
        out[i] = log_of_positive(values[i])


def test_logarithm(rng: np.random.Generator) -> None:
    values = np.concatenate((np.exp(rng.uniform(-700.0, 700.0, 2000)), 1.0 + rng.normal(0.0, 1e-3, 500)))
    out = np.empty(values.size)
    logs_of(values, out)
    np.testing.assert_allclose(out, np.log(values), rtol=1e-15, atol=1e-16)


def terms(rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
    """Counts (0 and more than a block of them), exposures (one of them 0), heights and places of peaks."""
    counts = np.concatenate((np.zeros(20), rng.gamma(0.5, 20.0, 600)))
    exposure = np.append(0.0, rng.gamma(2.0, 1.0, 619))
    peaks = np.where(counts > 0, np.log(np.maximum(counts, 1e-9)) - np.log(np.maximum(exposure, 1e-9)), 0.0)
    return counts, exposure, rng.normal(-5.0, 1.0, 620), peaks


def moduli(counts: Floats, exposure: Floats, tops: Floats, peaks: Floats, shape: float, at: complex) -> Floats:
    """|term| of each observation at a complex log rate."""
    expected = exposure * np.exp(at)
    size = shape + counts
    rest = expected - counts if shape == np.inf else size * np.log((shape + expected) / size)
    return np.abs(np.exp(tops + counts * (at - peaks) - rest))


@pytest.mark.parametrize("shape", SHAPES)
def test_ratio_sums(shape: float, rng: np.random.Generator) -> None:
    given, places = terms(rng), np.array([-30.0, -1.0, 0.3, 3.0])
    out = np.empty(4)
    ratio_sums(*given, shape, places, out)
    np.testing.assert_allclose(out, [moduli(*given, shape, at).sum() for at in places], rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_peaks_are_the_largest_moduli_of_a_strip(shape: float, rng: np.random.Generator) -> None:
    given = terms(rng)
    lows, highs, angles = np.array([-2.0, 0.0, 2.5]), np.array([-1.0, 0.5, 2.5]), np.array([0.0, 0.7, 1.3])
    out, information = np.empty((2, 3))
    peak_sums(*given, shape, lows, highs, np.cos(angles), out, information)
    for j in range(3):
        strip = [
            moduli(*given, shape, complex(along, up))
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
        peak_sums(*given, shape, np.full(2, -np.inf), np.array([-np.inf, -40.0]), np.ones(2), out, information)
        zeros = np.exp(given[2][:20]).sum()
        assert out[0] == pytest.approx(zeros, rel=1e-12)
        assert out[1] >= out[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_derivatives_of_a_mixture(shape: float, rng: np.random.Generator) -> None:
    counts, exposure = rng.poisson(4.0, 700).astype(np.float64), rng.gamma(3.0, 0.4, 700)
    share, responsible = rng.dirichlet(np.ones(700)), np.asfortranarray(rng.dirichlet(np.ones(3), 700))
    shapes, means = np.array([shape, shape, np.inf]), np.array([0.5, 3.0, 9.0])
    sums, gauss = np.empty((3, 3)), np.empty((6, 6))
    mixture_derivatives(counts, exposure, share, responsible, shapes, means, sums, gauss)
    expected = exposure[:, None] * means
    ratio = 1.0 / (1.0 + expected / shapes)
    score = ratio * (counts[:, None] - expected)
    bend = score**2 - ratio**2 * expected * (1.0 + counts[:, None] / shapes)
    both = np.hstack((responsible, responsible * score))
    np.testing.assert_allclose(gauss, (both * share[:, None]).T @ both, rtol=1e-10, atol=1e-12)
    plain = [share @ responsible, share @ (responsible * score), share @ (responsible * bend)]
    np.testing.assert_allclose(sums, plain, rtol=1e-10, atol=1e-12)


def test_newton_steps_end_where_no_direction_leads_up(rng: np.random.Generator) -> None:
    rates = np.where(rng.random(3000) < 0.6, 2.0, 15.0)
    data = Observations.of(rng.poisson(rates).astype(np.float64), np.ones(1))
    start = GammaMixture.points([1.5, 18.0])
    found = polished(data, start, 1e-10)
    best = evidence(data, found)
    assert best > evidence(data, start) + 10.0
    np.testing.assert_allclose(found.means, [2.0, 15.0], rtol=0.05)
    for j in range(2):
        for factor in (0.999, 1.001):
            change = np.where(np.arange(2) == j, factor, 1.0)
            assert evidence(data, GammaMixture.points(found.means * change, found.weights)) < best
            assert evidence(data, GammaMixture.points(found.means, found.weights * change)) < best
    assert evidence(data, weighted(data, found, 1e-10)) == pytest.approx(best, abs=1e-9)


def test_close_neighbours_are_merged(rng: np.random.Generator) -> None:
    data = Observations.of(rng.poisson(9.0, 500).astype(np.float64), np.ones(1))
    prior = GammaMixture([0.2, 0.3, 0.1, 0.4], [1.0, np.inf, np.inf, np.inf], [9.0, 8.9, 9.0, 20.0])
    found = merged(data, prior, 0.1)
    np.testing.assert_allclose(found.weights, [0.2, 0.4, 0.4])
    np.testing.assert_allclose(found.means, [9.0, 8.925, 20.0])
    assert merged(data, prior, 0.0).means.size == 4
