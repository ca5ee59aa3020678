"""What is known about the optimum: closed forms, exact data, scale, shape, and only observed cells counting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from poisson_reference import em_step, example, log_likelihood

from partwise import PoissonNMF, Table

Floats = NDArray[np.float64]
BOTH = pytest.mark.parametrize("inference", ["coordinate", "multiplicative"])


@BOTH
@pytest.mark.parametrize("real", [False, True])
def test_one_part_is_the_product_of_the_margins(inference: str, real: bool) -> None:
    X = example(0, missing=0.0, real=real).X
    model = PoissonNMF(1, inference=inference, random_state=0).fit(X)
    np.testing.assert_allclose(model.components_[0], X.sum(axis=0) / X.sum(), rtol=1e-12)
    np.testing.assert_allclose(model.transform(X)[:, 0], X.sum(axis=1), rtol=1e-12)
    assert model.kkt_residual_ < 1e-12
    assert model.status_.converged


@BOTH
def test_one_part_with_missing_cells(inference: str) -> None:
    """No closed form, but the margins of the fitted rates over observed cells are those of the data."""
    given = example(1, missing=0.3)
    table = Table(given.X, missing=~given.observed)
    model = PoissonNMF(1, inference=inference, tol=1e-14, max_iter=3000, random_state=0).fit(table)
    rates = np.where(given.observed, model.inverse_transform(model.transform(table)), 0.0)
    np.testing.assert_allclose(rates.sum(axis=1), given.X.sum(axis=1), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(rates.sum(axis=0), given.X.sum(axis=0), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("n_parts", [2, 4])
def test_exact_data_are_recovered(n_parts: int, missing: float) -> None:
    """Parts with a feature of their own, and samples of one part alone, are identified up to order."""
    rng = np.random.default_rng(n_parts)
    dictionary = np.hstack([np.eye(n_parts), rng.gamma(0.5, size=(n_parts, 10))])
    dictionary /= dictionary.sum(axis=1, keepdims=True)
    activations = np.vstack([50 * np.eye(n_parts), rng.gamma(0.5, 100.0, size=(40, n_parts))])
    X = activations @ dictionary
    hidden = rng.random(X.shape) < missing
    table = Table(X, missing=hidden)
    model = PoissonNMF(n_parts, tol=1e-15, max_iter=5000, random_state=0).fit(table)
    order = [int(np.argmax(model.components_[:, k])) for k in range(n_parts)]
    assert sorted(order) == list(range(n_parts))
    np.testing.assert_allclose(model.components_[order], dictionary, atol=1e-3)
    np.testing.assert_allclose(model.transform(table)[:, order], activations, atol=0.5)
    # The cells that were hidden are predicted.
    np.testing.assert_allclose(model.inverse_transform(model.transform(table)), X, atol=0.1)


@BOTH
@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40, 2.0**-990, 2.0**900, 1e-300, 1e300, 1e-5, 12345.678])
def test_scale(factor: float, missing: float, inference: str) -> None:
    """c X has the same parts and c times the activations, from 1e-300 to 1e300."""
    given = example(3, missing=missing, real=True)
    table, scaled = (Table(c * given.X, missing=~given.observed) for c in (1.0, factor))
    arguments: dict[str, Any] = {"inference": inference, "max_iter": 30, "tol": 0.0, "random_state": 0}
    model, other = PoissonNMF(3, **arguments).fit(table), PoissonNMF(3, **arguments).fit(scaled)
    np.testing.assert_allclose(other.components_, model.components_, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(other.kkt_residual_, model.kkt_residual_, rtol=1e-5)
    for found, expected in (
        (other.transform(scaled), model.transform(table)),
        (other.mean_activations_, model.mean_activations_),
    ):
        np.testing.assert_allclose(found / factor, expected, rtol=1e-6, atol=1e-6)
    batch, other_batch = PoissonNMF(3, random_state=0), PoissonNMF(3, random_state=0)
    batch.partial_fit(table).partial_fit(table)
    other_batch.partial_fit(scaled).partial_fit(scaled)
    np.testing.assert_allclose(other_batch.components_, batch.components_, rtol=1e-7, atol=1e-9)


def test_scale_of_given_factors() -> None:
    X = example(3, missing=0.0, real=True).X
    rng = np.random.default_rng(0)
    activations, components = rng.gamma(1.0, 10.0, size=(23, 3)), rng.gamma(1.0, size=(3, 17))
    arguments: dict[str, Any] = {"max_iter": 15, "tol": 0.0}
    model = PoissonNMF(3, init=(activations, components), **arguments).fit(X)
    other = PoissonNMF(3, init=(2.0**-900 * activations, components), **arguments).fit(2.0**-900 * X)
    np.testing.assert_allclose(other.components_, model.components_, rtol=1e-9, atol=1e-15)


@BOTH
def test_masked_fit_equals_plain_numpy_on_observed_cells(inference: str) -> None:
    """From one start, both algorithms end where weighted multiplicative updates in NumPy end."""
    given = example(7, (25, 20), n_parts=2, missing=0.3)
    rng = np.random.default_rng(0)
    start = rng.gamma(2.0, 5.0, size=(25, 2)), rng.dirichlet(np.ones(20), size=2).T
    model = PoissonNMF(2, inference=inference, init=(start[0], start[1].T), tol=1e-14, max_iter=20_000)
    model.fit(Table(given.X, missing=~given.observed))
    activations, dictionary = start
    for _ in range(20_000):
        activations, dictionary = em_step(given, activations, dictionary)
    sums = dictionary.sum(axis=0)
    np.testing.assert_allclose(model.components_, (dictionary / sums).T, atol=1e-6)
    found = model.transform(Table(given.X, missing=~given.observed))
    np.testing.assert_allclose(found, activations * sums, atol=1e-4)
    assert log_likelihood(given, found, model.components_.T) >= log_likelihood(given, activations, dictionary) - 1e-7


@BOTH
@pytest.mark.parametrize("hidden", [0.0, 1e6, np.inf, -5.0])
def test_hidden_values_change_no_bit_of_a_fit(hidden: float, inference: str) -> None:
    given = example(2)
    arguments: dict[str, Any] = {"inference": inference, "max_iter": 20, "tol": 0.0, "random_state": 0}
    model = PoissonNMF(3, **arguments).fit(np.where(given.observed, given.X, np.nan))
    other = PoissonNMF(3, **arguments).fit(Table(np.where(given.observed, given.X, hidden), missing=~given.observed))
    np.testing.assert_array_equal(model.components_, other.components_)


@BOTH
@pytest.mark.parametrize("init", ["random", "nndsvd"])
@pytest.mark.parametrize(
    ("shape", "n_components"), [((1, 8), 1), ((8, 1), 1), ((1, 8), 3), ((8, 1), 3), ((5, 4), 12), ((1, 1), 2)]
)
def test_small_shapes_and_many_parts(shape: tuple[int, int], n_components: int, init: str, inference: str) -> None:
    """With as many parts as rows or columns, the rates can be the data."""
    X = np.random.default_rng(0).poisson(5.0, size=shape) + 1
    model = PoissonNMF(n_components, init=init, inference=inference, tol=1e-12, max_iter=20_000, random_state=0).fit(X)
    assert model.components_.shape == (n_components, shape[1])
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=2e-2)


@BOTH
def test_entries_at_the_floor_are_zeros(inference: str) -> None:
    """Samples of two kinds that share no feature: each part is exactly 0 in the features of the other."""
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(2), rng.poisson(9.0, size=(10, 6)) + 1)
    model = PoissonNMF(2, inference=inference, random_state=0, tol=1e-9, max_iter=3000).fit(X)
    zeros = model.components_ == 0
    assert sorted(zeros.sum(axis=1).tolist()) == [6, 6]
    assert np.all(zeros[:, :6].any(axis=0))
    np.testing.assert_allclose(model.components_.sum(axis=1), 1, rtol=1e-9)


@BOTH
def test_empty_rows_and_columns(inference: str) -> None:
    given = example(0, missing=0.0)
    model = PoissonNMF(3, inference=inference, random_state=0, max_iter=200, tol=1e-6).fit(given.X)
    assert given.X[:, 8].sum() == given.X[11].sum() == 0
    assert np.all(model.components_[:, 8] == 0)
    assert np.all(model.transform(given.X)[11] == 0)
    without = np.delete(np.delete(given.X, 8, axis=1), 11, axis=0)
    lean = PoissonNMF(3, inference=inference, max_iter=200, tol=1e-6, random_state=0, init=drawn(without)).fit(without)
    full = PoissonNMF(3, inference=inference, max_iter=200, tol=1e-6, random_state=0, init=padded(without)).fit(given.X)
    np.testing.assert_allclose(np.delete(full.components_, 8, axis=1), lean.components_, rtol=1e-6, atol=1e-9)


def drawn(X: Floats) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(3)
    return rng.gamma(1.0, size=(len(X), 3)), rng.gamma(1.0, size=(3, X.shape[1]))


def padded(X: Floats) -> tuple[Floats, Floats]:
    activations, components = drawn(X)
    return np.insert(activations, 11, 0.0, axis=0), np.insert(components, 8, 0.0, axis=1)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, np.asfortranarray, np.float32])
def test_container_changes_no_bit(form: Any) -> None:
    X = example(0, missing=0.0).X
    arguments: dict[str, Any] = {"max_iter": 20, "tol": 0.0, "random_state": 0}
    expected = PoissonNMF(3, **arguments).fit(X).components_
    np.testing.assert_array_equal(PoissonNMF(3, **arguments).fit(form(X)).components_, expected)


def test_huge_counts(data_folder: Path) -> None:
    """RNA-seq counts in the millions."""
    with np.load(data_folder / "counts" / "mcf7_rnaseq.npz") as file:
        X = sp.csr_array((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"]))
    assert X.max() > 1e5
    model = PoissonNMF(3, random_state=0, max_iter=60, tol=1e-5).fit(X)
    values = model.trace_.evaluated()[1]
    assert np.all(np.diff(values) >= -1e-12 * np.abs(values[-1]))
    activations = model.transform(X)
    assert np.all(np.isfinite(model.components_))
    np.testing.assert_allclose(activations.sum(axis=1), X.sum(axis=1), rtol=1e-6)
    assert np.isfinite(model.score(X))
