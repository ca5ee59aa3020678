"""Exact posterior moments against enumeration, against derivatives, and as the E-step of an exact EM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import posterior

from partwise.errors import InvalidInputError
from partwise.likelihood import exact, posterior_moments
from partwise.likelihood.kernels import lattice_moments, lattice_walk
from partwise.likelihood.moments import PosteriorMoments

METHODS = ("auto", "lattice", "subcount")
ZEROS = np.array([[0.5, 0.0, 0.2], [0.0, 0.7, 0.0], [0.3, 0.1, 0.0], [0.4, 0.3, 0.6]])


def _check(moments: PosteriorMoments, n: int, counts: np.ndarray, wanted: dict[str, Any], tolerance: float) -> None:
    for name in ("activations", "variances", "log_activations", "totals"):
        np.testing.assert_allclose(getattr(moments, name)[n], wanted[name], rtol=tolerance, atol=1e-13, err_msg=name)
    before = int((counts[:n] > 0).sum())
    cells = moments.allocations[before : before + int((counts[n] > 0).sum())]
    np.testing.assert_allclose(cells, wanted["allocations"][counts[n] > 0], rtol=tolerance, atol=1e-15)


CASES = {
    "generic": (np.random.default_rng(1).random((4, 3)) + 0.05, [0.7, 1.3, 2.0], [0.5, 1.0, 2.0]),
    "zeros in the dictionary": (ZEROS, [0.7, 1.3, 2.0], [0.5, 1.0, 2.0]),
    "one component": (ZEROS[:, :1] + 0.1, 0.7, 0.5),
    "two components": (ZEROS[:, :2] + 0.1, 0.7, [0.5, 2.0]),
    "five components": (np.random.default_rng(2).random((4, 5)), 0.5, 0.8),
    "shapes of all sizes": (ZEROS + 0.1, [1e-4, 1.0, 1e4], [1e-4, 1.0, 1e4]),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_enumeration(name: str) -> None:
    dictionary, shape, rate = CASES[name]
    counts = np.array([[2, 0, 1, 2], [0, 0, 0, 0], [0, 3, 0, 1]])
    wanted = [posterior(x, dictionary, shape, rate) for x in counts]
    for method in METHODS:
        moments = posterior_moments(counts, dictionary, shape, rate, method=method)
        for n in range(3):
            _check(moments, n, counts, wanted[n], 1e-11)
        likelihood = exact(counts, dictionary, shape, rate).values
        np.testing.assert_allclose(moments.log_likelihood, likelihood, rtol=1e-13)


@pytest.mark.parametrize("method", ["lattice", "subcount"])
def test_extreme_shapes(method: str) -> None:
    dictionary, counts = ZEROS + 0.1, np.array([[2, 0, 1, 1]])
    for shape, rate in ((1e-8, 1.0), (1e8, 1e8)):
        moments = posterior_moments(counts, dictionary, shape, rate, method=method)
        _check(moments, 0, counts, posterior(counts[0], dictionary, shape, rate), 1e-9)


@pytest.mark.parametrize("method", ["lattice", "subcount"])
def test_allocations_are_derivatives_of_the_likelihood(method: str) -> None:
    # d log p / d log w_fk = E[c_fk] - w_fk E[h_k]: central differences of exact values.
    dictionary, shape, rate = CASES["generic"]
    counts = np.array([[3, 0, 2, 4]])
    moments = posterior_moments(counts, dictionary, shape, rate, method=method)
    allocations = np.zeros((4, 3))
    allocations[counts[0] > 0] = moments.allocations
    step = 1e-5
    for f in range(4):
        for k in range(3):
            ends = []
            for sign in (1, -1):
                moved = dictionary.copy()
                moved[f, k] *= np.exp(sign * step)
                ends.append(exact(counts, moved, shape, rate).values[0])
            wanted = allocations[f, k] - dictionary[f, k] * moments.activations[0, k]
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(wanted, abs=2e-9)


def test_log_activations_are_derivatives_in_the_shape() -> None:
    # d log p / d a_k = E[log h_k] - digamma(a_k) + log b_k.
    from scipy.special import psi

    dictionary, shape, rate = CASES["generic"]
    counts, step = np.array([[3, 0, 2, 4]]), 1e-5
    moments = posterior_moments(counts, dictionary, shape, rate)
    for k in range(3):
        ends = []
        for sign in (1, -1):
            moved = np.array(shape)
            moved[k] += sign * step
            ends.append(exact(counts, dictionary, moved, rate).values[0])
        wanted = moments.log_activations[0, k] - psi(shape[k]) + np.log(rate[k])
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(wanted, abs=2e-9)


@pytest.mark.parametrize("n_components", [2, 3, 5])
def test_methods_agree_and_totals_add_up(n_components: int) -> None:
    rng = np.random.default_rng(n_components)
    dictionary = rng.random((7, n_components)) * (rng.random((7, n_components)) < 0.8) + 0.01 * np.eye(7, n_components)
    dictionary[:, 0] += 0.01
    counts = rng.integers(0, 5, (8, 7))
    shape = rng.random(n_components) + 0.1
    by_lattice = posterior_moments(counts, dictionary, shape, 0.7, method="lattice")
    by_subcount = posterior_moments(counts, dictionary, shape, 0.7, method="subcount", n_jobs=2)
    for name in ("activations", "variances", "log_activations", "totals", "allocations", "log_likelihood"):
        np.testing.assert_allclose(getattr(by_subcount, name), getattr(by_lattice, name), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(by_lattice.allocations.sum(axis=1), counts[counts > 0], rtol=1e-13)
    rows = np.nonzero(counts)[0]
    totals = np.zeros_like(by_lattice.totals)
    np.add.at(totals, rows, by_lattice.allocations)
    np.testing.assert_allclose(totals, by_lattice.totals, rtol=1e-12)


def _uncompiled(patch: Any) -> None:
    """Let what is patched into the kernel's module take effect."""
    import sys

    kernel: Any = lattice_moments.lattice_moment_rows
    patch.setattr(sys.modules["partwise.likelihood.moments"], "lattice_moment_rows", kernel.py_func)


def test_long_rows_keep_only_some_levels(monkeypatch: Any) -> None:
    rng = np.random.default_rng(3)
    dictionary = rng.dirichlet(np.full(20, 0.3), 3).T + 1e-6
    counts = rng.multinomial(60, np.full(20, 0.05), 1)
    whole = posterior_moments(counts, dictionary, 0.5, 0.1, method="lattice")
    monkeypatch.setattr(lattice_moments, "_MOST_KEPT", 1000)
    _uncompiled(monkeypatch)
    few = posterior_moments(counts, dictionary, 0.5, 0.1, method="lattice")
    np.testing.assert_allclose(few.allocations, whole.allocations, rtol=1e-14)


def test_three_thousand_tokens() -> None:
    # Σ_k E[c_fk] = x_f and Σ_f E[c_fk] = E[L_k] do not hold by construction of the lattice pass.
    rng = np.random.default_rng(4)
    dictionary = rng.random((30, 2)) ** 3 + 1e-4
    counts = rng.multinomial(3000, rng.dirichlet(np.ones(30)))[None]
    moments = posterior_moments(counts, dictionary, [0.6, 1.4], 0.3)
    np.testing.assert_allclose(moments.allocations.sum(axis=0), moments.totals[0], rtol=1e-11)
    np.testing.assert_allclose(moments.log_likelihood, exact(counts, dictionary, [0.6, 1.4], 0.3).values, rtol=1e-13)


def test_missing_cells_are_dropped_columns() -> None:
    dictionary, shape, rate = CASES["generic"]
    counts = np.array([[2.0, np.nan, 1.0, 2.0]])
    seen = [0, 2, 3]
    moments = posterior_moments(counts, dictionary, shape, rate)
    wanted = posterior_moments(counts[:, seen], dictionary[seen], shape, rate)
    for name in ("activations", "variances", "log_activations", "totals", "allocations"):
        # Mean logarithms are differences of numbers near one.
        np.testing.assert_allclose(getattr(moments, name), getattr(wanted, name), rtol=1e-13, atol=1e-14)


def test_exact_em_climbs_to_a_stationary_point() -> None:
    # w_fk = Σ_n E[c_nfk] / Σ_n E[h_nk] (MATH 1.2, CH step): every step is uphill, and at its end the gradient vanishes.
    rng = np.random.default_rng(5)
    truth = rng.random((4, 2)) * 2.0
    counts = rng.poisson(rng.gamma(1.0, 1.0, (60, 2)) @ truth.T)
    dictionary = rng.random((4, 2)) + 0.5
    features = np.nonzero(counts)[1]
    trace = []
    for _ in range(60):
        moments = posterior_moments(counts, dictionary, 1.0, 1.0)
        trace.append(moments.log_likelihood.sum())
        sums = np.zeros((4, 2))
        np.add.at(sums, features, moments.allocations)
        dictionary = sums / moments.activations.sum(axis=0)
    assert (np.diff(trace) > -1e-9).all()
    assert trace[-1] - trace[0] > 1.0
    assert trace[-1] - trace[-2] < 0.01
    assert exact(counts, truth, 1.0, 1.0).total < trace[-1]


def test_rows_without_a_posterior_are_refused() -> None:
    dictionary = np.array([[0.5, 0.1], [0.0, 0.0]])
    with pytest.raises(InvalidInputError, match="Row 1 of X has a count of feature 1, which no part holds, so it"):
        posterior_moments([[1, 0], [0, 1]], dictionary, 1.0, 1.0)
    with pytest.raises(InvalidInputError, match="method must be 'auto', 'lattice' or 'subcount', got 'quadrature'"):
        posterior_moments([[1, 0]], dictionary, 1.0, 1.0, method="quadrature")
    with pytest.raises(InvalidInputError, match=r"Row 0 of X .* above max_cost = 10"):
        posterior_moments([[4, 0]], dictionary, 1.0, 1.0, max_cost=10)


def test_rows_beyond_the_range_of_doubles_are_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr(lattice_walk, "nothing_lost", lambda *args: False)
    monkeypatch.setattr(lattice_walk, "nothing_lost_on_the_way", lambda *args: False)
    log_of_sum: Any = lattice_walk.log_of_sum
    monkeypatch.setattr(lattice_moments, "log_of_sum", log_of_sum.py_func)
    _uncompiled(monkeypatch)
    with pytest.raises(InvalidInputError, match="row 1 of X span more than the range"):
        posterior_moments([[0, 0], [3, 1]], np.ones((2, 2)), 1.0, 1.0, method="lattice")
