"""The comparison with brute force sees planted mistakes: each is one that could have been made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference import log_probability

from partwise.likelihood import exact as exact_function
from partwise.likelihood import problem
from partwise.likelihood.kernels import lattice, quadrature, subcount
from partwise.likelihood.kernels.jacobi import beta_rule

COUNTS = np.array([2, 1, 3, 0])
MODEL = (
    np.array([[0.5, 0.1, 0.3], [0.0, 0.4, 0.2], [0.2, 0.3, 0.1], [0.3, 0.2, 0.4]]),
    [0.7, 1.3, 2.0],
    [0.5, 1.0, 2.0],
)


@pytest.fixture(scope="module")
def wanted() -> float:
    return log_probability(COUNTS, *MODEL)


def _exact_module() -> Any:
    import sys

    return sys.modules["partwise.likelihood.exact"]


def _python(kernel: Any) -> Callable[..., Any]:
    """The uncompiled function behind a kernel, which sees what is patched into its module."""
    return kernel.py_func  # type: ignore[no-any-return]


def _passes(method: str, wanted: float) -> bool:
    value = exact_function([COUNTS], *MODEL, method=method).values[0]
    return bool(abs(value - wanted) <= 1e-10 * abs(wanted))


def test_nothing_planted(wanted: float, monkeypatch: Any) -> None:
    """What the tests below do to plant mistakes is itself harmless."""
    monkeypatch.setattr(lattice, "run_lattice", _python(lattice.run_lattice))
    monkeypatch.setattr(_exact_module(), "lattice_rows", _python(lattice.lattice_rows))
    monkeypatch.setattr(subcount, "solve_row", _python(subcount.solve_row))
    monkeypatch.setattr(_exact_module(), "subcount_rows", _python(subcount.subcount_rows))
    monkeypatch.setattr(_exact_module(), "quadrature_rows", _python(quadrature.quadrature_rows))
    for method in ("lattice", "subcount", "quadrature"):
        assert _passes(method, wanted)


def test_dropped_factorials(wanted: float, monkeypatch: Any) -> None:
    monkeypatch.setattr(problem, "gammaln", np.zeros_like)
    for method in ("lattice", "subcount", "quadrature"):
        assert not _passes(method, wanted)


def test_lattice_without_the_tokens_so_far(wanted: float, monkeypatch: Any) -> None:
    """a_k where it should be a_k + L_k."""

    def no_counts(row: Any, size: Any, f: int, m: int, walk: Any) -> None:
        n_components = size.n_components
        weights = row.weights[f, :n_components] * row.shapes[:n_components] / (size.total_shape + m)
        walk.tables[:, 0] = 0.0
        walk.tables[:n_components, 1 : m + 2] = weights[:, None]
        walk.tables[n_components, : m + 2] = walk.tables[1, m + 1 :: -1]

    monkeypatch.setattr(lattice, "fill_tables", no_counts)
    monkeypatch.setattr(lattice, "run_lattice", _python(lattice.run_lattice))
    monkeypatch.setattr(_exact_module(), "lattice_rows", _python(lattice.lattice_rows))
    assert not _passes("lattice", wanted)


def test_subcounts_with_the_terms_of_another_series(wanted: float, monkeypatch: Any) -> None:
    """|m|! where it should be (|m| - 1)!: coefficients of G, not of its logarithm."""
    right_terms = subcount.fill_terms

    def wrong_terms(row: Any, k: int, n_subcounts: int, logs: bool, digits: Any, out: Any) -> None:
        right_terms(row, k, n_subcounts, logs, digits, out)
        n_features = np.searchsorted(np.cumprod(digits.limits + 1), n_subcounts) + 1
        sizes = digits.limits[:n_features] + 1
        tokens = np.stack(np.unravel_index(np.arange(n_subcounts), sizes, order="F")).sum(axis=0)
        out[:n_subcounts] *= tokens

    monkeypatch.setattr(subcount, "fill_terms", wrong_terms)
    monkeypatch.setattr(subcount, "solve_row", _python(subcount.solve_row))
    monkeypatch.setattr(_exact_module(), "subcount_rows", _python(subcount.subcount_rows))
    assert not _passes("subcount", wanted)


def test_one_node_too_few(wanted: float, monkeypatch: Any) -> None:
    monkeypatch.setattr(_exact_module(), "beta_rule", lambda n, p, r: beta_rule(n - 1, p, r))
    assert not _passes("quadrature", wanted)


def test_sticks_in_the_wrong_order(wanted: float, monkeypatch: Any) -> None:
    monkeypatch.setattr(_exact_module(), "beta_rule", lambda n, p, r: beta_rule(n, r, p))
    assert not _passes("quadrature", wanted)
