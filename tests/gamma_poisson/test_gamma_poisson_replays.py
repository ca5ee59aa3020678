"""Kernels of the Gamma-Poisson sampler replayed in plain Python, and their sums: tokens are neither lost nor made."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import psi

from partwise import CountMatrix
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.gamma_poisson.inference.posterior import posterior_mean
from partwise.gamma_poisson.inference.sweeps import GibbsSweeps, _padded
from partwise.gamma_poisson.kernels.draws import LANES, draw_allocations

KEY = Key(4, stage=2, chain=1, iteration=6)
COUNTS = np.array([[2, 0, 1, 3, 0], [0, 1, 2, 0, 4], [0, 0, 0, 0, 0], [1, 1, 0, 2, 5]])


@pytest.mark.parametrize("n_components", [1, 3, 8, 11])
@pytest.mark.parametrize("size", [1, 30])
def test_allocations_are_multinomial(rng: np.random.Generator, n_components: int, size: int) -> None:
    # One row of one token per cell, then of many, which are drawn in another way: 17 + 2 K and more.
    count = size + 2 * n_components * (size > 1)
    data = CountMatrix.build(np.full((1, 2), count))
    factor, other = rng.gamma(1.0, size=(1, n_components)), rng.gamma(1.0, size=(2, n_components))
    factor[0, n_components // 2] = 0.0 if n_components > 1 else 1.0
    drawn = np.zeros((2, n_components), np.int64)
    n_draws = 2000
    for iteration in range(n_draws):
        own, before = np.full((1, n_components), -7, np.int64), drawn.copy()
        words = KEY.at(iteration).words
        cells = data.indptr, data.indices, data.values
        draw_allocations(cells, _padded(factor), _padded(other), words, 5, (own, drawn))
        np.testing.assert_array_equal(own[0], (drawn - before).sum(axis=0))
    np.testing.assert_array_equal(drawn.sum(axis=1), n_draws * count)
    weights = factor * other
    expected = n_draws * count * weights / weights.sum(axis=1, keepdims=True)
    assert not drawn[expected == 0].any()
    held = expected > 0
    statistic = float(np.sum((drawn[held] - expected[held]) ** 2 / expected[held]))
    # A false alarm in 1 of 100,000 seeds of each of the eight cases.
    assert statistic <= stats.chi2.ppf(1 - 1e-5, max(int(held.sum()) - 2, 1))


@pytest.mark.parametrize("n_components", [1, 7, 8, 9])
def test_padding_adds_zeros_only(rng: np.random.Generator, n_components: int) -> None:
    factor = rng.random((3, n_components))
    padded = _padded(factor)
    assert padded.shape == (3, -(-n_components // LANES) * LANES)
    np.testing.assert_array_equal(padded[:, :n_components], factor)
    assert not padded[:, n_components:].any()


@pytest.mark.parametrize("shape", [(30, 6), (6, 30)])
def test_sums_of_allocations_are_those_of_the_data(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    counts = rng.poisson(3.0, size=shape)
    sweeps = GibbsSweeps(CountMatrix.build(counts), resolve_engine())
    activations, dictionary = rng.gamma(1.0, size=(shape[0], 3)), rng.gamma(1.0, size=(shape[1], 3))
    by_sample, by_feature = sweeps.allocations(KEY, activations, dictionary)
    np.testing.assert_array_equal(np.sum(by_sample, axis=1), counts.sum(axis=1))
    np.testing.assert_array_equal(by_feature.sum(axis=1), counts.sum(axis=0))
    np.testing.assert_array_equal(np.sum(by_sample, axis=0), by_feature.sum(axis=0))
    # Rows of the longer side have the streams, which is part of what a seed promises.
    assert sweeps._long_side.shape == (30, 6)


def test_missing_cells_are_drawn_with_their_rates(rng: np.random.Generator) -> None:
    counts = rng.poisson(3.0, size=(4, 3)).astype(float)
    counts[[0, 2, 2], [1, 0, 2]] = np.nan
    data = CountMatrix.build(counts)
    sweeps, hidden = GibbsSweeps(data, resolve_engine()), np.isnan(counts)
    activations, dictionary = rng.gamma(1.0, size=(4, 2)), rng.gamma(1.0, 2.0, size=(3, 2))
    n_draws = 3000
    by_sample, by_feature = np.zeros((4, 2)), np.zeros((3, 2))
    for iteration in range(n_draws):
        of_samples, of_features = sweeps.allocations(KEY.at(iteration), activations, dictionary, impute=True)
        by_sample += of_samples
        by_feature += of_features
    seen = np.nan_to_num(counts)
    rates = activations[:, None] * dictionary
    expected = seen[:, :, None] * rates / rates.sum(axis=2, keepdims=True) + hidden[:, :, None] * rates
    # The variance of a cell's draws is at most their mean; five standard errors, false alarms in 1e-5 of seeds.
    for found, mean in ((by_sample, expected.sum(axis=1)), (by_feature, expected.sum(axis=0))):
        assert np.abs((found / n_draws - mean) / np.sqrt(mean / n_draws)).max() < 5.0


def test_parts_of_a_missing_cell_are_independent_poisson_draws(rng: np.random.Generator) -> None:
    # The first row holds nothing but a missing cell, once with small rates and once with large ones.
    counts = np.array([[np.nan, 0.0], [2.0, 1.0]])
    sweeps = GibbsSweeps(CountMatrix.build(counts), resolve_engine())
    dictionary, n_draws = np.array([[0.5, 0.2, 0.0], [1.0, 1.0, 1.0]]), 4000
    for scale in (1.0, 200.0):
        activations = scale * np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]])
        drawn = np.array(
            [sweeps.allocations(KEY.at(n), activations, dictionary, impute=True)[0][0] for n in range(n_draws)]
        )
        means, spread = activations[0] * dictionary[0], np.cov(drawn.T)
        assert not drawn[:, 2].any()
        # A variance m has a standard error of sqrt((2 m² + m) / n), a covariance one of m / sqrt(n). Five of them.
        for k in (0, 1):
            assert abs(spread[k, k] - means[k]) < 5.0 * np.sqrt((2.0 * means[k] ** 2 + means[k]) / n_draws)
        assert abs(spread[0, 1]) < 5.0 * np.sqrt(means[0] * means[1] / n_draws)


@pytest.mark.parametrize("missing", [False, True])
def test_variational_means_are_a_fixed_point(rng: np.random.Generator, missing: bool) -> None:
    X = rng.gamma(1.0, 5.0, size=(6, 5))
    observed = rng.random(X.shape) > 0.2 * missing
    dictionary, shape, rate = rng.gamma(1.0, size=(5, 3)), np.array([0.5, 1.0, 2.0]), np.array([1.0, 0.3, 2.0])
    data = CountMatrix.build(np.where(observed, X, np.nan), integers=False)
    means = posterior_mean(data, dictionary, shape, rate, resolve_engine(), variational=True)
    rates = rate + observed @ dictionary
    counts = means * rates - shape
    point = np.exp(psi(shape + counts)) / rates
    again = point * ((np.where(observed, X, 0.0) / (point @ dictionary.T)) @ dictionary)
    np.testing.assert_allclose(counts, again, atol=1e-6 * X.sum(axis=1).max())
