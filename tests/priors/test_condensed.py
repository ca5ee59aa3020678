"""Many exposures as few: moments are kept, sums over all agree within the error that is claimed, and it is small."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.priors import certificate
from partwise.priors.certificate import Slopes
from partwise.priors.condensed import ExposureCells, gauss_nodes
from partwise.priors.kernels.directional import ratio_sums
from partwise.priors.observations import Observations
from partwise.priors.search import MixturePoints, MixtureSearch

Floats = NDArray[np.float64]
# A mixture that is far from the best, and leaves no count without a component.
EVEN = MixturePoints(np.full(60, 1.0 / 60.0), np.geomspace(1e-4, 300.0, 60))


def many(rng: np.random.Generator, n: int = 30_000) -> Observations:
    """Counts of widely varying exposures, some of them 0."""
    exposure = np.where(rng.random(n) < 0.01, 0.0, np.exp(rng.normal(0.0, 1.0, n)))
    return Observations.of(rng.poisson(exposure * rng.gamma(0.4, 12.0, n)).astype(np.float64), exposure)


def test_nodes_keep_twelve_moments(rng: np.random.Generator) -> None:
    cell, values = np.repeat(np.arange(3), [4, 200, 300]), rng.normal(5.0, 0.1, 504)
    weights = rng.gamma(0.2, 1.0, 504)
    nodes, sizes = gauss_nodes(values, weights, cell, 3, 6)
    for j in range(3):
        mine = cell == j
        for degree in range(12 if j else 8):
            moment = weights[mine] @ (values[mine] - 5.0) ** degree
            assert sizes[j] @ (nodes[j] - 5.0) ** degree == pytest.approx(moment, rel=1e-7, abs=1e-12 * 0.1**degree)
        assert sizes.min() >= -1e-15
        assert nodes[j][sizes[j] > 1e-9].min() >= values[mine].min() - 1e-9


@pytest.mark.parametrize("shape", [1.0, 100.0, np.inf])
def test_error_of_the_slopes_is_bounded(shape: float, rng: np.random.Generator) -> None:
    data = many(rng)
    cells = ExposureCells.of(data)
    assert cells is not None
    logs = MixtureSearch(data, shape).evidence(EVEN).log_mixture
    rates = np.geomspace(1e-6, 300.0, 400)
    whole, fewer = np.empty((2, 400))
    ratio_sums(*data.relative, np.log(data.shares) - logs, shape, rates, whole)
    *terms, error = cells.ratios(logs)
    assert terms[0].size < 0.2 * data.counts.size
    ratio_sums(*terms, shape, rates, fewer)
    assert error < 1e-10
    assert np.abs(whole - fewer).max() <= error + 1e-12
    bounds = [Slopes(data, logs, shape, part).supremum(1e-9)[0] for part in (None, cells)]
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-3)


def test_wide_cells_would_be_found_out(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    # Planted: cells of ten standard deviations. The true error is no longer small, and the bound says so.
    data = many(rng)
    logs = MixtureSearch(data, np.inf).evidence(EVEN).log_mixture
    monkeypatch.setattr("partwise.priors.condensed._WIDTH", 10.0)
    cells = ExposureCells.of(data)
    assert cells is not None
    rates = np.geomspace(1e-4, 300.0, 400)
    whole, fewer = np.empty((2, 400))
    ratio_sums(*data.relative, np.log(data.shares) - logs, np.inf, rates, whole)
    *terms, error = cells.ratios(logs)
    ratio_sums(*terms, np.inf, rates, fewer)
    assert 1e-7 < np.abs(whole - fewer).max() <= error


def test_an_error_that_narrow_intervals_keep_ends_the_search(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Such intervals were halved sixty times, all at once: 2^60 of them. What is known of them is a bound as it is.
    data, cuts, cut = many(rng), itertools.count(), certificate._cut
    logs = MixtureSearch(data, np.inf).evidence(EVEN).log_mixture
    exact = Slopes(data, logs, np.inf).supremum(1e-9)[0]
    monkeypatch.setattr("partwise.priors.condensed._WIDTH", 10.0)
    cells = ExposureCells.of(data)
    assert cells is not None
    error = cells.ratios(logs)[3]

    def counted(*interval: float) -> Any:
        assert next(cuts) < 5000
        return cut(*interval)

    monkeypatch.setattr(certificate, "_cut", counted)
    assert exact <= Slopes(data, logs, np.inf, cells).supremum(1e-9)[0] <= 1.2 * exact + 4.0 * error


@pytest.mark.parametrize("number", [2, 5, 16])
def test_values_at_nodes_of_pieces(number: int) -> None:
    # An interval from -1 to 1 in equal pieces, and a polynomial of the highest degree that is interpolated exactly.
    edges = np.linspace(-1.0, 1.0, number + 1)
    places = 0.5 * (edges[1:] + edges[:-1])[:, None] + certificate._NODES / number

    def values(x: Floats) -> Floats:
        return np.asarray(x**16 - 3.0 * x**7 + 0.5)

    np.testing.assert_allclose(certificate._in_pieces(number) @ values(certificate._NODES), values(places), atol=1e-12)


def test_few_or_fractional_observations_stay(rng: np.random.Generator) -> None:
    assert (
        ExposureCells.of(Observations(rng.poisson(3.0, 100).astype(np.float64), rng.gamma(1.0, 1.0, 100), np.ones(1)))
        is None
    )
    assert ExposureCells.of(Observations(rng.gamma(1.0, 1.0, 5000), rng.gamma(1.0, 1.0, 5000), np.ones(1))) is None
    assert ExposureCells.of(Observations(rng.gamma(1.0, 1.0, 5000), np.ones(1), np.ones(1))) is None


def test_a_gamma_is_a_mixture_of_narrower_ones() -> None:
    # Gamma(a) = Gamma(b) Beta(a, b - a): why the narrowest shape alone is certified.
    counts, shape, narrow = np.arange(0.0, 40.0), 1.0, 100.0

    def logs(a: float, mean: Floats) -> Floats:
        x = counts[:, None]
        plain = gammaln(a + x) - gammaln(a) - gammaln(x + 1.0) + a * np.log(a / (a + mean))
        return np.asarray(plain + x * np.log(mean / (a + mean)))

    nodes, weights = np.polynomial.legendre.leggauss(2000)
    shares = 0.5 * (nodes + 1.0)
    density = 0.5 * weights * (1.0 - shares) ** (narrow - shape - 1.0) * (narrow - shape)
    mixed = np.exp(logs(narrow, 3.0 * (narrow / shape) * shares[None, :])) @ density
    np.testing.assert_allclose(mixed, np.exp(logs(shape, np.array([[3.0]])))[:, 0], rtol=1e-9)


def test_coarse_observations_keep_what_wide_likelihoods_see(rng: np.random.Generator) -> None:
    # Counts of very different sizes share a cell where components are wide. With their mean count, they would be as
    # precise as the largest; with the mean of their variances, the evidence of a mixture is nearly the same.
    exposure = 10.0 ** rng.uniform(1.0, 6.0, 8000)
    whole = Observations.of(rng.poisson(exposure * rng.gamma(0.4, 12.0, 8000)).astype(np.float64), exposure)
    few = whole.coarse(0.3, 100.0)
    assert few.counts.size < 0.5 * whole.counts.size
    assert few.number == pytest.approx(8000.0)
    wanted = np.sum(1.0 / whole.counts[whole.counts > 0])
    assert np.sum(few.repeats[few.counts > 0] / few.counts[few.counts > 0]) == pytest.approx(wanted, rel=1e-9)
    points = MixturePoints(np.full(40, 1 / 40), np.geomspace(1e-3, 200.0, 40))
    values = [MixtureSearch(data.by_rate(), 100.0).evidence(points).value for data in (whole, few)]
    assert values[1] == pytest.approx(values[0], abs=1e-3)
    # An observation that has a cell to itself stays one.
    assert np.unique(few.exposure).size == few.exposure.size
