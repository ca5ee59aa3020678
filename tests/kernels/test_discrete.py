from __future__ import annotations

import numba
import numpy as np
import pytest
from goodness import ALARM, continuous_fit, discrete_fit, mean_fit, sample, with_bits
from scipy import stats

from partwise.kernels.discrete import binomial, poisson
from partwise.kernels.streams import next_normal

SIZE = 200_000


def counts(draw: object, *parameters: float, size: int = SIZE) -> np.ndarray:
    values = sample(draw, *parameters, size=size, dtype=np.int64)
    assert (values >= 0).all()
    return values


# Inversion below a mean of 20, rejection from there on.
@pytest.mark.parametrize("mean", [1e-3, 0.5, 3.0, 10.0, 19.99, 20.0, 20.5, 45.0, 1e3, 1e6])
def test_poisson(mean: float) -> None:
    values = counts(poisson, mean)
    assert discrete_fit(values, stats.poisson(mean)) > ALARM
    assert mean_fit(values, mean, mean) > ALARM
    assert mean_fit((values - mean) ** 2, mean, 2 * mean**2 + mean) > ALARM


@pytest.mark.parametrize("mean", [1e12, 1e15])
def test_poisson_of_huge_mean_is_normal(mean: float) -> None:
    values = (counts(poisson, mean) - mean) / np.sqrt(mean)
    assert continuous_fit(values, stats.norm.cdf) > ALARM
    assert mean_fit(values**2, 1.0, 2.0) > ALARM


# By inversion while n min(p, 1 - p) < 20, with (1 - p)^n by multiplication up to n = 1023; by rejection from 20 on.
@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1, 0.3),
        (5, 0.3),
        (7, 0.97),
        (39, 0.5),
        (40, 0.499),
        (40, 0.5),
        (40, 0.501),
        (41, 0.5),
        (1000, 0.0199),
        (1000, 0.02),
        (1000, 0.98),
        (1000, 0.9801),
        (1023, 0.01),
        (1024, 0.01),
        (300, 0.25),
        (10**6, 1e-6),
        (10**6, 0.3),
        (10**6, 0.7),
        (2**31, 1e-8),
    ],
)
def test_binomial(n: int, p: float) -> None:
    values = counts(binomial, n, p)
    assert (values <= n).all()
    assert discrete_fit(values, stats.binom(n, p)) > ALARM
    assert mean_fit(values, n * p, n * p * (1 - p)) > ALARM


def test_binomial_of_huge_n() -> None:
    n = 2**53
    values = counts(binomial, n, 0.3)
    centred = ((values - int(0.3 * n)) / np.sqrt(n * 0.3 * 0.7)).astype(float)
    assert continuous_fit(centred, stats.norm.cdf) > ALARM
    assert discrete_fit(counts(binomial, n, 1e-15), stats.poisson(n * 1e-15)) > ALARM
    near_one = 1.0 - 2.0**-50
    assert discrete_fit(n - counts(binomial, n, near_one), stats.poisson(8.0)) > ALARM


def test_degenerate_counts() -> None:
    for bits in (0, 2**64 - 1, 12345 << 30):
        assert poisson(with_bits(bits), 0.0) == 0
        assert binomial(with_bits(bits), 0, 0.5) == 0
        for n in (1, 30, 2**53):
            assert binomial(with_bits(bits), n, 0.0) == binomial(with_bits(bits), n, -1e-17) == 0
            assert binomial(with_bits(bits), n, 1.0) == binomial(with_bits(bits), n, 1.0 + 1e-15) == n
            for p in (5e-324, 1e-17, 0.5, 1.0 - 2.0**-53):
                assert 0 <= binomial(with_bits(bits), n, p) <= n
        for mean in (5e-324, 1e-17, 1.0, 19.9999, 1e18):
            assert 0 <= poisson(with_bits(bits), mean) < 2**62


@pytest.mark.parametrize("end", [0, 40])
def test_rejection_reaches_both_ends(end: int) -> None:
    """No sample would show it (the chance is 2^-40), so the stream is given the numbers that lead there."""
    root = np.sqrt(40 * 0.25)
    b = 1.15 + 2.53 * root
    a = -0.0873 + 0.0248 * b + 0.005
    u = np.linspace(-0.4999, 0.4999, 100_001)
    proposed = np.floor((2.0 * a / (0.5 - np.abs(u)) + b) * u + 20.5)
    stream = with_bits(0)
    at = 6 + int(stream[14])
    stream[at] = int((u[np.argmax(proposed == end)] + 0.5) * 2**53) << 11
    assert binomial(stream, 40, 0.5) == end


def test_impossible_parameters_raise_and_never_hang() -> None:
    for mean in (np.nan, np.inf, 1.1e18):
        with pytest.raises(OverflowError, match="mean of a Poisson draw"):
            poisson(with_bits(5), mean)
    with pytest.raises(ValueError, match="probability of a binomial draw"):
        binomial(with_bits(5), 3, np.nan)


@numba.njit
def binomial_off_by_one_at_the_switch(stream: np.ndarray, n: int, p: float) -> int:
    count = binomial(stream, n, p)
    return count + 1 if n * p == 20.0 and count < n else count


@numba.njit
def poisson_as_rounded_normal(stream: np.ndarray, mean: float) -> int:
    return int(np.floor(mean + np.sqrt(mean) * next_normal(stream) + 0.5))  # right mean and variance, wrong law


def test_power_wrong_counts_are_caught() -> None:
    assert discrete_fit(counts(binomial_off_by_one_at_the_switch, 1000, 0.02), stats.binom(1000, 0.02)) < ALARM
    assert discrete_fit(counts(poisson_as_rounded_normal, 45.0), stats.poisson(45.0)) < ALARM


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.1, 7.0, 19.9, 20.1, 60.0, 5e4])
def test_poisson_with_ten_million_draws(mean: float) -> None:
    assert discrete_fit(counts(poisson, mean, size=10_000_000), stats.poisson(mean)) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), [(12, 0.4), (41, 0.45), (41, 0.49), (500, 0.1), (10**5, 0.6)])
def test_binomial_with_ten_million_draws(n: int, p: float) -> None:
    assert discrete_fit(counts(binomial, n, p, size=10_000_000), stats.binom(n, p)) > ALARM
