from __future__ import annotations

import numba
import numpy as np
import pytest
from goodness import ALARM, chi_square, continuous_fit, mean_fit, sample, sample_rows, uniform_fit, with_bits
from scipy import special, stats

from partwise.kernels.continuous import (
    beta,
    dirichlet,
    gamma,
    log_dirichlet,
    log_gamma_variate,
)
from partwise.kernels.streams import next_normal, next_uniform

SIZE = 200_000


def log_gamma_cdf(log_x: np.ndarray, shape: float) -> np.ndarray:
    """P(log G <= log_x); far below 0 by the first term of the series, which is exact there."""
    below = np.exp(shape * np.minimum(log_x, 0.0) - special.gammaln(shape + 1.0))
    return np.where(log_x < -40.0, below, special.gammainc(shape, np.exp(np.maximum(log_x, -50.0))))


def log_beta_cdf(log_x: np.ndarray, a: float, b: float) -> np.ndarray:
    below = np.exp(a * log_x - np.log(a) - special.betaln(a, b))
    return np.where(log_x < -40.0, below, special.betainc(a, b, np.exp(np.maximum(log_x, -50.0))))


@pytest.mark.parametrize("shape", [0.1, 0.5, 0.999, 1.0, 1.5, 5.0, 100.0, 1e6, 1e12])
def test_gamma(shape: float) -> None:
    values = sample(gamma, shape, size=SIZE)
    assert continuous_fit(values, stats.gamma(shape).cdf) > ALARM
    assert mean_fit(values, shape, shape) > ALARM
    centred = (values - shape) / np.sqrt(shape)
    assert mean_fit(centred**2, 1.0, 2.0 + 6.0 / shape) > ALARM  # kurtosis of a gamma: 3 + 6 / shape


@pytest.mark.parametrize("shape", [1e-8, 1e-3, 0.1, 0.7, 1.0, 5.0, 1e6])
def test_log_gamma_variate(shape: float) -> None:
    values = sample(log_gamma_variate, shape, size=SIZE, seed=2)
    assert np.isfinite(values).all()
    assert uniform_fit(log_gamma_cdf(values, shape)) > ALARM


def test_plain_gamma_of_tiny_shape_agrees_as_far_as_doubles_go() -> None:
    values = sample(gamma, 1e-3, size=SIZE)
    underflow = special.gammainc(1e-3, 2.0**-1074)  # about 0.47
    lost = np.count_nonzero(values == 0.0)
    assert chi_square([lost, SIZE - lost], SIZE * np.array([underflow, 1.0 - underflow])) > ALARM


@numba.njit
def gamma_without_the_boost(stream: np.ndarray, shape: float) -> float:
    return gamma(stream, shape + 1.0) * next_uniform(stream)


@numba.njit
def gamma_without_rejection(stream: np.ndarray, shape: float) -> float:
    d = shape - 1.0 / 3.0
    return d * max(1.0 + next_normal(stream) / np.sqrt(9.0 * d), 0.0) ** 3


def test_power_wrong_gammas_are_caught() -> None:
    assert continuous_fit(sample(gamma_without_the_boost, 0.5, size=SIZE), stats.gamma(0.5).cdf) < ALARM
    assert continuous_fit(sample(gamma_without_rejection, 1.5, size=SIZE), stats.gamma(1.5).cdf) < ALARM


def test_nan_comes_out_and_never_hangs() -> None:
    out = np.zeros(2)
    for values in (
        gamma(with_bits(5), np.nan),
        log_gamma_variate(with_bits(5), np.nan),
        beta(with_bits(5), np.nan, 0.5),
    ):
        assert np.isnan(values)
    dirichlet(with_bits(5), np.array([0.5, np.nan]), out)
    assert np.isnan(out).all()


def test_degenerate_gammas() -> None:
    for bits in (0, 2**64 - 1, 12345 << 30):
        assert gamma(with_bits(bits), 0.0) == 0.0
        assert log_gamma_variate(with_bits(bits), 0.0) == -np.inf
        for shape in (5e-324, 1e-310, 1e-300, 1e-8, 0.5, 1.0, 1e15, 1e300):
            assert np.isfinite(log_gamma_variate(with_bits(bits), shape))
            assert 0.0 <= gamma(with_bits(bits), shape) < np.inf


# With b = 0.2, say, one draw in a thousand is 1 - x < 1e-16, and rounds to 1.
@pytest.mark.parametrize(
    ("a", "b"), [(0.1, 0.6), (0.5, 0.5), (0.99, 0.9), (1.0, 1.0), (0.3, 4.0), (4.0, 0.5), (2.0, 5.0), (1e5, 3e5)]
)
def test_beta(a: float, b: float) -> None:
    values = sample(beta, a, b, size=SIZE)
    assert continuous_fit(values, stats.beta(a, b).cdf) > ALARM
    assert mean_fit(values, *stats.beta.stats(a, b, moments="mv")) > ALARM


def test_extreme_betas_take_their_limits() -> None:
    ones = np.count_nonzero(sample(beta, 1e-8, 3e-8, size=SIZE) > 0.5)
    assert chi_square([ones, SIZE - ones], SIZE * np.array([0.25, 0.75])) > ALARM
    for bits in (0, 2**64 - 1, 12345 << 30):
        assert beta(with_bits(bits), 0.0, 0.5) == beta(with_bits(bits), 0.0, 2.0) == 0.0
        assert beta(with_bits(bits), 0.5, 0.0) == beta(with_bits(bits), 2.0, 0.0) == 1.0
        assert beta(with_bits(bits), 0.0, 0.0) in (0.0, 1.0)
        for a, b in ((5e-324, 5e-324), (5e-324, 2.0), (1e-300, 1e300), (1e300, 5e-324)):
            assert 0.0 <= beta(with_bits(bits), a, b) <= 1.0
    coins = sample(beta, 0.0, 0.0, size=10_000)
    assert chi_square([(coins == 0.0).sum(), (coins == 1.0).sum()], [5_000.0, 5_000.0]) > ALARM


@pytest.mark.parametrize(
    "concentration", [[0.5, 1.0, 2.5], [0.01, 0.02, 0.03, 0.04], [0.3, 0.0, 0.3], [100.0, 1e-3, 50.0]]
)
def test_dirichlet(concentration: list[float]) -> None:
    alpha = np.array(concentration)
    draws = sample_rows(dirichlet, alpha, size=SIZE, width=len(alpha))
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-14)
    assert (draws[:, alpha == 0.0] == 0.0).all()
    total = alpha.sum()
    mean = alpha / total
    for k in np.flatnonzero(alpha):
        assert mean_fit(draws[:, k], mean[k], mean[k] * (1 - mean[k]) / (total + 1)) > ALARM
        if alpha[k] >= 0.3:  # otherwise the marginals have atoms at 0 in double precision: see log_dirichlet
            assert continuous_fit(draws[:, k], stats.beta(alpha[k], total - alpha[k]).cdf) > ALARM
    product = draws[:, 0] * draws[:, 2]
    expected = alpha[0] * alpha[2] / (total * (total + 1))
    assert mean_fit(product, expected, product.var()) > ALARM


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-8])
def test_log_dirichlet(scale: float) -> None:
    alpha = scale * np.array([0.5, 1.0, 2.0, 0.0])
    draws = sample_rows(log_dirichlet, alpha, size=SIZE, width=4)
    assert np.isfinite(draws[:, :3]).all()
    assert (draws[:, 3] == -np.inf).all()
    np.testing.assert_allclose(np.exp(draws).sum(axis=1), 1.0, rtol=1e-14)
    total = alpha.sum()
    for k in range(3):
        log_x = draws[:, k]
        away = log_x < -0.5  # nearer to 0 the logarithm of a draw says nothing of its distance from 1
        cut = float(log_beta_cdf(np.array(-0.5), alpha[k], total - alpha[k]))
        counts = [away.sum(), (~away).sum()]
        assert chi_square(counts, SIZE * np.array([cut, 1.0 - cut])) > ALARM
        assert uniform_fit(log_beta_cdf(log_x[away], alpha[k], total - alpha[k]) / cut) > ALARM


def test_tiny_concentrations_pick_corners_in_proportion() -> None:
    alpha = 1e-8 * np.array([1.0, 2.0, 3.0, 0.0])
    draws = sample_rows(dirichlet, alpha, size=SIZE, width=4)
    assert chi_square(draws.sum(axis=0), SIZE * alpha / alpha.sum()) > ALARM
    corners = sample_rows(dirichlet, np.zeros(3), size=SIZE, width=3)
    assert (np.sort(corners, axis=1) == [0.0, 0.0, 1.0]).all()
    assert chi_square(corners.sum(axis=0), np.full(3, SIZE / 3)) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("shape", [0.02, 0.3, 1.0, 1.2, 3.0, 30.0])
def test_gamma_with_ten_million_draws(shape: float) -> None:
    values = sample(log_gamma_variate, shape, size=10_000_000, seed=5)
    assert uniform_fit(log_gamma_cdf(values, shape)) > ALARM
