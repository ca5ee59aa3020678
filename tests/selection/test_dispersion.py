"""The dispersion test keeps its level under Poisson noise, finds noise of size 10, and estimates its size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from partwise import BinaryNMF, CountMatrix, NegativeBinomialNMF, PoissonNMF
from partwise.core.keys import key_from
from partwise.errors import InvalidInputError
from partwise.selection import dispersion_test
from partwise.selection.noise import found_noise

SHAPES = [(60, 30, 3, 300), (100, 40, 4, 60), (40, 40, 1, 200), (30, 80, 2, 800)]


def simulated(
    seed: int, size: float, n_rows: int = 60, n_features: int = 30, rank: int = 3, n_tokens: int = 300
) -> np.ndarray:
    """Counts around a product of Dirichlet factors, with gamma noise in each cell."""
    rng = np.random.default_rng(seed)
    rates = rng.dirichlet(np.full(rank, 0.5), size=n_rows) @ rng.dirichlet(np.full(n_features, 0.3), size=rank)
    noise = 1.0 if np.isinf(size) else rng.gamma(size, 1.0 / size, size=rates.shape)
    return rng.poisson(n_tokens * rates * noise)


def p_and_size(X: np.ndarray, rank: int) -> tuple[float, float]:
    found = dispersion_test(PoissonNMF(rank, random_state=0).fit(X), X)
    return found.p_value, found.size


def test_false_alarms_and_power() -> None:
    # A test of level 5% gives more than 15 alarms of 120 with probability 0.0005.
    quiet = [p_and_size(simulated(seed, np.inf, *shape), shape[2])[0] for shape in SHAPES for seed in range(30)]
    assert sum(p < 0.05 for p in quiet) <= 15
    noisy = [p_and_size(simulated(seed, 10.0), rank) for rank in (3, 6) for seed in range(5)]
    assert max(p for p, _ in noisy) < 1e-4


@pytest.mark.slow
def test_the_level_is_kept() -> None:
    quiet = [p_and_size(simulated(1000 + seed, np.inf, *shape), shape[2])[0] for shape in SHAPES for seed in range(250)]
    assert binomtest(sum(p < 0.05 for p in quiet), len(quiet), 0.05, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("size", [1.0, 3.0, 10.0])
def test_the_size_is_estimated_without_much_bias(size: float) -> None:
    # Over 10 data sets the standard error of the mean logarithm is about 0.05.
    found = [p_and_size(simulated(seed, size), 3)[1] for seed in range(10)]
    assert abs(np.mean(np.log(found)) - np.log(size)) < 0.2


def test_without_leverages_it_would_miss_noise() -> None:
    # What the correction is for: the squared deviations of a fit with 8 parts are smaller than those of the truth.
    X = simulated(1, np.inf)
    model = PoissonNMF(8, random_state=0).fit(X)
    expected = model.inverse_transform(model.transform(X))
    plain = np.sum(np.square(X - expected) - X) / np.sqrt(2 * np.sum(expected**2))
    assert plain < -5 < dispersion_test(model, X).statistic


def test_missing_cells_and_other_models() -> None:
    X = simulated(0, 3.0).astype(float)
    X[::7, ::3] = np.nan
    found = dispersion_test(NegativeBinomialNMF(3, random_state=0, tol=1e-5).fit(X), X)
    assert not found.poisson
    assert 1.5 < found.size < 6.0
    assert "variance = mean + mean²" in str(found)


def test_many_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partwise.selection.noise._MOST_CELLS", 3000)
    assert p_and_size(simulated(0, np.inf, 2000), 3)[0] > 0.01
    assert p_and_size(simulated(0, 3.0, 2000), 3)[0] < 1e-4


def test_what_cannot_be_tested_is_refused() -> None:
    bits = (simulated(0, np.inf) > 3).astype(int)
    with pytest.raises(InvalidInputError, match="zeros and ones"):
        dispersion_test(BinaryNMF(2, n_draws=2, burn_in=1, random_state=0).fit(bits), bits)


def test_new_rows_do_not_use_up_degrees_of_freedom_of_the_parts() -> None:
    X = simulated(0, 3.0, 600)
    model = PoissonNMF(3, random_state=0).fit(X[:300])
    assert dispersion_test(model, X[300:]).size == pytest.approx(dispersion_test(model, X[:300]).size, rel=0.2)


def sparse(seed: int, n_rows: int, n_features: int, rank: int, scale: float) -> np.ndarray:
    """Poisson counts of which most are 0: rows have one or two of the parts, parts a few features."""
    rng = np.random.default_rng([seed, 6])
    rates = rng.gamma(0.2, scale, (n_rows, rank)) @ rng.dirichlet(np.full(n_features, 0.1), rank)
    counts = rng.poisson(rates)
    return counts[np.ix_(counts.any(axis=1), counts.any(axis=0))]


def test_few_counts_are_not_taken_for_noise() -> None:
    # The mean of 20 statistics is above 0.75 with probability 0.0004. It was 1.1 when leverages were those of a
    # straight line: one count moves a small mean by less.
    found = []
    for seed in range(20):
        X = sparse(seed, 300, 200, 5, 4.5)
        found.append(dispersion_test(PoissonNMF(5, random_state=seed).fit(X), X).statistic)
    assert np.mean(found) < 0.75


@pytest.mark.parametrize(
    ("shape", "n_sets"), [((120, 40, 5, 20.0), 8), ((200, 100, 10, 8.0), 6), ((30, 15, 2, 80.0), 8)]
)
def test_compare_does_not_take_structure_for_noise(shape: tuple[int, int, int, float], n_sets: int) -> None:
    # A test of level 5% gives more than 2 alarms of 8 with probability 0.006, of 6 with 0.002.
    found = [found_noise(CountMatrix.build(sparse(100 + seed, *shape)), key_from(seed))[0] for seed in range(n_sets)]
    assert sum(not one.poisson for one in found) <= 2


@pytest.mark.slow
def test_compare_keeps_the_level() -> None:
    shapes = [(120, 40, 5, 20.0), (300, 80, 5, 20.0), (200, 100, 10, 8.0), (300, 200, 5, 4.5), (30, 15, 2, 80.0)]
    found = [
        found_noise(CountMatrix.build(sparse(1000 + seed, *shape)), key_from(seed))[0]
        for shape in shapes
        for seed in range(40)
    ]
    assert binomtest(sum(not one.poisson for one in found), len(found), 0.05, alternative="greater").pvalue > 0.001


def test_compare_finds_noise() -> None:
    found = [found_noise(CountMatrix.build(simulated(500 + seed, 10.0)), key_from(seed)) for seed in range(3)]
    assert all(5.0 < size < 20.0 for _, size in found)
