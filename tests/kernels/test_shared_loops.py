"""Small kernels that others share, beside the NumPy lines of their docstrings."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.kernels.jit import kernel
from partwise.kernels.lanes import LANES, draw_component, last_positive, running_sums
from partwise.kernels.prefetch import AT_ONCE, first_of
from partwise.kernels.sums import inner_product, longest_row, sum_of


@kernel
def _sums(row: np.ndarray, column: np.ndarray) -> tuple[float, float]:
    return sum_of(row), inner_product(row, column)


@kernel
def _lanes(factors: np.ndarray, f: int, shift: float, shares: np.ndarray, running: np.ndarray) -> tuple[float, ...]:
    return running_sums(factors, f, shift, shares, running)


@kernel
def _drawn(factors: np.ndarray, shift: float, shares: np.ndarray, uniform: float, n: int, running: np.ndarray) -> int:
    return draw_component(factors, 0, shift, shares, uniform, n, running)


@pytest.mark.parametrize("size", [0, 1, 7, 40])
def test_sums_over_components(rng: np.random.Generator, size: int) -> None:
    row, column = rng.random(size), rng.random(size)
    np.testing.assert_allclose(_sums(row, column), (row.sum(), row @ column), rtol=1e-12)


def test_longest_row() -> None:
    starts = np.array([0, 5, 5, 8, 9])
    assert [longest_row(starts, 0, 4), longest_row(starts, 1, 4), longest_row(starts, 2, 2)] == [5, 3, 0]


def test_running_sums_of_lanes(rng: np.random.Generator) -> None:
    factors, shares, running = rng.random((3, 2 * LANES)), rng.random(2 * LANES), np.empty((2, LANES))
    last = _lanes(factors, 2, 0.25, shares, running)
    expected = np.cumsum(((0.25 + factors[2]) * shares).reshape(-1, LANES), axis=0)
    np.testing.assert_allclose(running, expected, rtol=1e-12)
    np.testing.assert_array_equal(last, running[-1])


def test_component_by_lanes(rng: np.random.Generator) -> None:
    n_components = 11
    factors, shares = np.zeros((1, 2 * LANES)), np.zeros(2 * LANES)
    factors[0, :n_components], shares[:n_components] = rng.random(n_components), rng.random(n_components)
    # Lane by lane: 0, 8, 1, 9, 2, 10, 3, 4, ...
    order = np.arange(2 * LANES).reshape(-1, LANES).T.ravel()
    ends = np.cumsum((factors[0] * shares)[order])
    for uniform in rng.random(200):
        expected = order[np.searchsorted(ends, uniform * ends[-1], "right")]
        assert _drawn(factors, 0.0, shares, uniform, n_components, np.empty((2, LANES))) == expected


def test_last_component_of_positive_weight() -> None:
    factors, shares = np.array([[1.0, 0.0, 2.0, 0.0]]), np.array([1.0, 1.0, 1.0, 0.0])
    assert last_positive(factors, 0, 0.0, shares, 4) == 2
    assert last_positive(factors, 0, 0.0, np.zeros(4), 4) == 0


@kernel
def _first(numbers: np.ndarray, index: int, k: int) -> int:
    return int(first_of(numbers, index, k))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_the_first_of_many_numbers(dtype: type, rng: np.random.Generator) -> None:
    numbers = rng.integers(0, 40, 4 * AT_ONCE).astype(dtype)
    numbers[::7] = np.iinfo(dtype).max
    for index in range(3 * AT_ONCE + 1):
        for k in (*range(41), np.iinfo(dtype).max):
            found = np.flatnonzero(numbers[index : index + AT_ONCE] == k)
            assert _first(numbers, index, int(k)) == (found[0] if found.size else AT_ONCE)
