from __future__ import annotations

import itertools

import numba
import numpy as np
import pytest
from goodness import ALARM, chi_square, discrete_fit, mean_fit, sample, sample_rows, with_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from partwise.kernels.categories import categorical, multinomial, poisson_parts
from partwise.kernels.discrete import binomial

SIZE = 100_000


def weights_of(size: int) -> np.ndarray:
    weights = np.random.default_rng(size).gamma(0.5, size=size)
    weights[1 : size - 1 : 3] = 0.0
    return weights


# One search up to 16 categories; beyond that groups of 8 are skipped first.
@pytest.mark.parametrize("size", [1, 2, 10, 16, 17, 24, 25, 100])
def test_categorical(size: int) -> None:
    weights = weights_of(size)
    values = sample(categorical, weights, weights.sum(), size=SIZE, dtype=np.int64)
    observed = np.bincount(values, minlength=size)
    assert (observed[weights == 0.0] == 0).all()
    assert chi_square(observed, SIZE * weights / weights.sum()) > ALARM


magnitudes = st.one_of(st.just(0.0), st.floats(1e-300, 1e300), st.floats(0.1, 1.0))
some_weights = hnp.arrays(np.float64, st.integers(1, 60), elements=magnitudes).filter(lambda w: w.any())
extreme_bits = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 2**64 - 1, 2**63, 2047, 2**64 - 4096]))


@settings(max_examples=300)
@given(weights=some_weights, bits=extreme_bits, rounding=st.integers(-4, 4))
def test_categorical_never_takes_a_zero_weight(weights: np.ndarray, bits: int, rounding: int) -> None:
    total = weights.sum() * (1.0 + rounding * 2.0**-52)
    assert weights[categorical(with_bits(bits), weights, total)] > 0.0


def test_categorical_at_the_ends() -> None:
    weights = np.array([0.0, 0.1, 0.0, 0.1, 0.1, 0.0])
    assert categorical(with_bits(0), weights, weights.sum()) == 1
    assert categorical(with_bits(2**64 - 1), weights, np.nextafter(weights.sum(), 1.0)) == 4
    assert categorical(with_bits(2**64 - 1), np.repeat(weights, 10), 10.1 * weights.sum()) == 49
    assert categorical(with_bits(5), np.zeros(3), 0.0) == -1


def compositions(n: int, size: int) -> np.ndarray:
    cells = [c for c in itertools.product(range(n + 1), repeat=size) if sum(c) == n]
    return np.array(cells)


# Up to min(2 K, 12 + 3 K / 5) draws one by one, beyond that by conditional binomials.
@pytest.mark.parametrize("n", [1, 6, 7, 9])
def test_multinomial_against_every_outcome(n: int) -> None:
    weights = np.array([0.7, 2.0, 0.3])
    draws = sample_rows(multinomial, n, weights, 3.0, size=SIZE, width=3, dtype=np.int64)
    cells = compositions(n, 3)
    expected = stats.multinomial(n, weights / 3.0).pmf(cells)
    base = n + 1
    index = {tuple(cell): i for i, cell in enumerate(cells)}
    codes, frequency = np.unique(draws @ [base * base, base, 1], return_counts=True)
    observed = np.zeros(len(cells))
    for code, count in zip(codes, frequency, strict=True):
        observed[index[(code // base**2, code // base % base, code % base)]] = count
    assert chi_square(observed, SIZE * expected) > ALARM


@pytest.mark.parametrize(("n", "size"), [(18, 10), (19, 10), (1000, 10), (10**6, 10), (72, 100), (73, 100)])
def test_multinomial_margins_and_covariance(n: int, size: int) -> None:
    weights = weights_of(size)
    p = weights / weights.sum()
    draws = sample_rows(multinomial, n, weights, weights.sum(), size=20_000, width=size, dtype=np.int64)
    assert (draws.sum(axis=1) == n).all()
    assert (draws[:, weights == 0.0] == 0).all()
    largest = np.argsort(p)[::-1][:3]
    for k in (*largest, np.flatnonzero(p)[-1]):
        assert discrete_fit(draws[:, k], stats.binom(n, p[k])) > ALARM
    for j, k in itertools.combinations(largest, 2):
        product = (draws[:, j] - n * p[j]) * (draws[:, k] - n * p[k])
        assert mean_fit(product, -n * p[j] * p[k], product.var()) > ALARM


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
def test_parts_are_independent_poisson_draws(scale: float) -> None:
    row, column = scale * np.array([0.5, 2.0, 0.0, 1.0, 9.0]), np.array([2.0, 1.0, 1.0, 3.0, 9.0])
    means = (row * column)[:4]  # the fifth is padding
    draws = sample_rows(poisson_parts, row, column, np.empty(4), size=20_000, width=4, dtype=np.int64)
    assert not draws[:, 2].any()
    for k in (0, 1, 3):
        assert discrete_fit(draws[:, k], stats.poisson(means[k])) > ALARM
    for j, k in itertools.combinations((0, 1, 3), 2):
        product = (draws[:, j] - means[j]) * (draws[:, k] - means[k])
        assert mean_fit(product, 0.0, means[j] * means[k]) > ALARM


@settings(max_examples=300)
@given(
    weights=some_weights,
    n=st.one_of(st.integers(0, 200), st.integers(0, 2**53)),
    bits=extreme_bits,
    rounding=st.integers(-4, 4),
)
def test_multinomial_loses_and_invents_nothing(weights: np.ndarray, n: int, bits: int, rounding: int) -> None:
    out = np.full(len(weights), -1)
    multinomial(with_bits(bits), n, weights, weights.sum() * (1.0 + rounding * 2.0**-52), out)
    assert (out >= 0).all()
    assert out.sum() == n
    assert (out[weights == 0.0] == 0).all()


@numba.njit
def multinomial_by_subtraction(stream: np.ndarray, n: int, weights: np.ndarray, total: float, out: np.ndarray) -> None:
    for k in range(len(weights) - 1):
        out[k] = binomial(stream, n, weights[k] / total)
        n -= out[k]
        total -= weights[k]
    out[-1] = n


def test_weights_behind_a_much_larger_one_keep_their_proportions() -> None:
    weights = np.array([1.0, 2e-16, 1e-16, 0.0, 4e-16])
    n = 2**53  # about 6.3 counts beside the first weight

    def fit(draw: object) -> float:
        draws = sample_rows(draw, n, weights, weights.sum(), size=20_000, width=5, dtype=np.int64)
        return min(discrete_fit(draws[:, k], stats.poisson(n * weights[k])) for k in (1, 2, 4))

    assert fit(multinomial) > ALARM
    assert fit(multinomial_by_subtraction) < ALARM


def test_all_in_one_place() -> None:
    for bits in (0, 2**64 - 1):
        for n in (0, 3, 500):
            out = np.full(4, -1)
            multinomial(with_bits(bits), n, np.array([0.0, 5e-324, 0.0, 0.0]), 5e-324, out)
            assert out.tolist() == [0, n, 0, 0]
            multinomial(with_bits(bits), n, np.zeros(4), 0.0, out)
            assert out.tolist() == [0, 0, 0, n]
