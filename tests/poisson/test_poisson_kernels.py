"""Every kernel against the NumPy line of its docstring, on sparse data with missing cells and any cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from poisson_reference import Example, example, kkt_residual, log_likelihood, transposed
from scipy.optimize import minimize

from partwise import CountMatrix
from partwise.passes import kernels as passes
from partwise.poisson import kernels

Floats = NDArray[np.float64]
N_COMPONENTS = 4


@pytest.fixture(scope="module", params=[(0, False), (1, True), (2, False)], ids=["counts", "reals", "other counts"])
def given(request: pytest.FixtureRequest) -> Example:
    seed, real = request.param
    return example(seed, real=real)


@pytest.fixture(scope="module")
def solved(given: Example) -> Floats:
    """The best activations for the dictionary of `factors`, by SciPy."""
    other = start(given)[1]
    return np.array([solve_by_scipy(x, o, other) for x, o in zip(given.X, given.observed, strict=True)])


@pytest.fixture
def factors(given: Example) -> tuple[Floats, Floats]:
    return start(given)


def start(given: Example) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(7)
    return rng.gamma(1.0, size=(given.X.shape[0], N_COMPONENTS)), rng.gamma(1.0, size=(given.X.shape[1], N_COMPONENTS))


CUTS = [(0, 23), (0, 1, 23), (0, 5, 11, 12, 23), tuple(range(24))]


def blocks(cuts: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    return pairwise(cuts)


def cells(data: CountMatrix) -> tuple[Any, Any, Any]:
    return data.indptr, data.indices, data.values


def missing(data: CountMatrix) -> tuple[Any, Any]:
    return data.missing_indptr, data.missing_indices


def exposures_of(data: CountMatrix, other: Floats) -> Floats:
    return np.asarray(~data.missing_matrix().toarray() @ other)


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("with_logs", [False, True])
def test_expected_counts(given: Example, factors: Any, cuts: tuple[int, ...], with_logs: bool) -> None:
    X, (factor, other) = given.X, factors
    out = np.full(factor.shape, np.nan)
    total = sum(
        passes.expected_counts(cells(given.data), factor, other, with_logs, *block, out) for block in blocks(cuts)
    )
    np.testing.assert_allclose(out, factor * ((X / (factor @ other.T)) @ other), rtol=1e-13, atol=1e-13)
    expected = (X * np.log(factor @ other.T)).sum() if with_logs else 0.0
    assert total == pytest.approx(expected, rel=1e-13)


def test_blocks_leave_other_rows_alone(given: Example, factors: Any) -> None:
    factor, other = factors
    out = np.full(factor.shape, np.nan)
    passes.expected_counts(cells(given.data), factor, other, False, 3, 9, out)
    assert np.isnan(np.delete(out, range(3, 9), axis=0)).all()
    assert not np.isnan(out[3:9]).any()


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("share_missing", [0.0, 0.2, 0.9])
def test_exposures(cuts: tuple[int, ...], share_missing: float) -> None:
    given = example(3, missing=share_missing)
    other = np.random.default_rng(0).gamma(1.0, size=(given.X.shape[1], N_COMPONENTS))
    out = np.full((given.X.shape[0], N_COMPONENTS), np.nan)
    for block in blocks(cuts):
        passes.exposures(*missing(given.data), other.sum(axis=0), other, *block, out)
    expected = np.array([other[observed].sum(axis=0) for observed in given.observed])
    np.testing.assert_allclose(out, expected, rtol=1e-13)


def test_exposure_without_cancellation() -> None:
    """Where one huge entry is missing, what is left has all its digits, and nothing left is exactly 0."""
    other = np.array([[1e12, 0.25], [1e-3, 0.0], [2e-3, 0.0], [0.0, 0.0]])
    out = np.empty(2)
    passes.row_exposure(np.array([0], dtype=np.int32), other.sum(axis=0), other, out)
    np.testing.assert_allclose(out, [3e-3, 0.0], rtol=1e-15)
    passes.row_exposure(np.arange(4, dtype=np.int32), other.sum(axis=0), other, out)
    assert out.tolist() == [0.0, 0.0]


def solve_by_scipy(x: Floats, observed: Any, other: Floats) -> Floats:
    """``argmax over h >= 0 of x @ log(other @ h) - other[observed].sum(axis=0) @ h`` by L-BFGS-B."""
    exposure = other[observed].sum(axis=0)

    def loss(h: Floats) -> tuple[float, Floats]:
        rates = other @ h + 1e-300
        return float(exposure @ h - x @ np.log(rates)), exposure - other.T @ (x / rates)

    start = np.full(other.shape[1], max(x.sum(), 1e-3) / other.shape[1])
    options = {"maxiter": 50_000, "maxfun": 50_000, "ftol": 0.0, "gtol": 1e-11}
    return np.asarray(minimize(loss, start, jac=True, bounds=[(0, None)] * other.shape[1], options=options).x)


@pytest.mark.parametrize("cuts", CUTS)
def test_coordinate_descent(given: Example, factors: Any, solved: Floats, cuts: tuple[int, ...]) -> None:
    factor, other = factors
    args = (cells(given.data), (other, exposures_of(given.data, other), np.zeros(len(factor))))
    objective = sum(kernels.coordinate_descent(*args, (5000, 1e-14), *block, factor) for block in blocks(cuts))
    scale = given.X.sum(axis=1, keepdims=True) + 1
    np.testing.assert_allclose(factor * other.sum(axis=0) / scale, solved * other.sum(axis=0) / scale, atol=2e-6)
    assert objective == pytest.approx(log_likelihood(given, factor, other), rel=1e-12)
    assert objective >= log_likelihood(given, solved, other) - 1e-9


def test_coordinate_descent_respects_floors(given: Example, factors: Any) -> None:
    factor, other = factors
    floors = np.linspace(0.01, 2.0, len(factor))
    factor = np.maximum(factor, floors[:, None])
    args = (cells(given.data), (other, exposures_of(given.data, other), floors))
    kernels.coordinate_descent(*args, (50, 0.0), 0, len(factor), factor)
    assert np.all(factor >= floors[:, None])
    assert np.any(factor == floors[:, None])


@pytest.mark.parametrize("max_sweeps", [0, 1, 2, 20])
def test_objective_of_coordinate_descent(given: Example, factors: Any, max_sweeps: int) -> None:
    factor, other = factors
    before = log_likelihood(given, factor, other)
    args = (cells(given.data), (other, exposures_of(given.data, other), np.zeros(len(factor))))
    objective = kernels.coordinate_descent(*args, (max_sweeps, 0.0), 0, len(factor), factor)
    assert objective == pytest.approx(log_likelihood(given, factor, other), rel=1e-12)
    assert objective >= before - 1e-12 * abs(before)


def test_a_component_that_collapses_leaves_no_error(given: Example, factors: Any) -> None:
    """Most of every rate is taken away in the first sweep: the rest must have all its digits."""
    factor, other = factors
    factor[:, 0] = 1e14
    other[:, 0] = 1e-3 * other.sum(axis=1)
    args = (cells(given.data), (other, exposures_of(given.data, other), np.zeros(len(factor))))
    objective = kernels.coordinate_descent(*args, (2, 0.0), 0, len(factor), factor)
    assert objective == pytest.approx(log_likelihood(given, factor, other), rel=1e-12)


def test_counts_that_depend_on_one_component_are_not_given_up() -> None:
    """A component a million times too large, that one count depends on alone, comes down without passing 0."""
    given = Example(np.array([[1.0, 1000.0]]), np.ones((1, 2), dtype=bool))
    other = np.array([[1.0, 0.0], [1e-5, 1.0]])
    factor = np.array([[1e6, 1000.0]])
    args = (cells(given.data), (other, exposures_of(given.data, other), np.zeros(1)))
    values = [log_likelihood(given, factor, other)]
    for _ in range(10):
        kernels.coordinate_descent(*args, (1, 0.0), 0, 1, factor)
        values.append(log_likelihood(given, factor, other))
    assert np.all(np.diff(values) >= -1e-12 * abs(values[-1]))
    assert factor[0, 0] == pytest.approx(1.0, rel=1e-4)


def test_rates_next_to_nothing() -> None:
    """A count that had a rate of 1e-200 is taken over by a component that starts at 0: squares of 1e200 overflow."""
    given = Example(np.array([[5.0, 3.0]]), np.ones((1, 2), dtype=bool))
    other = np.array([[1e-200, 1.0], [1.0, 0.0]])
    factor = np.array([[1.0, 0.0]])
    args = (cells(given.data), (other, exposures_of(given.data, other), np.zeros(1)))
    kernels.coordinate_descent(*args, (10, 0.0), 0, 1, factor)
    np.testing.assert_allclose(factor, [[3.0, 5.0]], rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_no_sweep_lowers_the_objective_from_far_away(seed: int) -> None:
    """Starts and dictionaries whose entries range over 24 powers of ten, many counts held by one component alone."""
    rng = np.random.default_rng(seed)
    given = example(seed, (12, 30))
    other = 10.0 ** rng.uniform(-12, 12, size=(30, 5)) * (rng.random((30, 5)) < 0.4) + 1e-14
    other /= other.sum(axis=0)
    factor = 10.0 ** rng.uniform(-12, 12, size=(12, 5))
    args = (cells(given.data), (other, exposures_of(given.data, other), np.zeros(12)))
    values = [log_likelihood(given, factor, other)]
    for _ in range(60):
        kernels.coordinate_descent(*args, (1, 0.0), 0, 12, factor)
        assert np.all(np.isfinite(factor))
        values.append(log_likelihood(given, factor, other))
    steps = np.diff(values)
    assert np.all(steps >= -1e-9 * np.abs(values[-1])), steps.min()


@pytest.mark.parametrize("cuts", CUTS)
def test_kkt_residual(given: Example, factors: Any, cuts: tuple[int, ...]) -> None:
    factor, other = factors
    data, flipped = given.data, given.data.transposed
    unit = data.total / data.shape[0]
    args = (cells(data), factor, other, exposures_of(data, other), unit)
    one_side = max(kernels.kkt_residual(*args, *block) for block in blocks(cuts))
    unit = data.total / data.shape[1]
    args = (cells(flipped), other, factor, exposures_of(flipped, factor), unit)
    other_side = kernels.kkt_residual(*args, 0, data.shape[1])
    assert max(one_side, other_side) == pytest.approx(kkt_residual(given, factor, other), rel=1e-12)
    assert kkt_residual(transposed(given), other, factor) == kkt_residual(given, factor, other)


def test_kkt_residual_of_a_row_without_counts() -> None:
    """Its expected counts are measured by an average row, and are to be 0."""
    data = CountMatrix.build([[3, 1], [0, 0]])
    other = np.array([[0.75], [0.25]])
    for expected in (0.0, 0.5, 1.0, 2.0):
        factor = np.array([[4.0], [expected]])
        args = (cells(data), factor, other, exposures_of(data, other), 2.0, 0, 2)
        assert kernels.kkt_residual(*args) == pytest.approx(min(expected / 2.0, 1.0))


class TestPlantedBugs:
    """The references above notice wrong kernels (run as plain Python)."""

    def test_missing_taken_for_zeros(self, given: Example, factors: Any) -> None:
        factor, other = factors
        everything_observed = other.sum(axis=0, keepdims=True)
        args = (cells(given.data), (other, everything_observed, np.zeros(len(factor))))
        objective = kernels.coordinate_descent(*args, (100, 0.0), 0, len(factor), factor)
        assert objective != pytest.approx(log_likelihood(given, factor, other), rel=1e-3)

    def test_newton_step_on_the_gain_is_slower(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Hsieh and Dhillon's step needs more sweeps to the same value, which shows what the other step buys."""
        given = example(5)
        other = np.random.default_rng(1).dirichlet(np.full(17, 0.5), size=3).T
        even = np.repeat(given.X.sum(axis=1, keepdims=True), 3, axis=1)
        args = (cells(given.data), (other, exposures_of(given.data, other), np.zeros(23)))
        plain: Any = kernels.coordinate_descent
        ours, theirs = even.copy(), even.copy()
        value = plain.py_func(*args, (2, 0.0), 0, 23, ours)
        monkeypatch.setattr(
            kernels, "_reciprocal_step", lambda gain, curvature, exposure: (gain - exposure) / curvature
        )
        assert plain.py_func(*args, (2, 0.0), 0, 23, theirs) < value

    def test_compiled_and_plain_agree(self, given: Example, factors: Any) -> None:
        factor, other = factors
        args = (cells(given.data), (other, exposures_of(given.data, other), np.zeros(len(factor))))
        compiled: Any = kernels.coordinate_descent
        twin = factor.copy()
        value = compiled(*args, (3, 0.0), 0, len(factor), factor)
        assert compiled.py_func(*args, (3, 0.0), 0, len(factor), twin) == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(twin, factor, rtol=1e-9, atol=1e-12)
