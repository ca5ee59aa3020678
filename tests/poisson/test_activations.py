"""Activations for fixed parts: the maximum of the likelihood, row by row, with Poisson standard errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from poisson_reference import em_activations, example, log_likelihood
from scipy.optimize import minimize

from partwise import PoissonNMF, Table, load
from partwise.errors import InvalidInputError

Floats = NDArray[np.float64]


def parts(rng: np.random.Generator, n_components: int = 4, n_features: int = 17) -> Floats:
    return rng.dirichlet(np.full(n_features, 0.4), size=n_components) * rng.gamma(2.0, size=(n_components, 1))


def best_activations(x: Floats, observed: Any, components: Floats) -> Floats:
    """By SLSQP, from an even start, in units of the row's total."""
    total = x.sum()
    if total == 0:
        return np.zeros(len(components))
    exposure = components[:, observed].sum(axis=1)

    def loss(h: Floats) -> float:
        rates = np.maximum(h @ components, 1e-300)
        return float(exposure @ h - (x / total) @ np.log(rates))

    def slope(h: Floats) -> Floats:
        return exposure - components @ (x / total / np.maximum(h @ components, 1e-300))

    start = np.full(len(components), 1 / len(components))
    bounds = [(0, None)] * len(components)
    options = {"maxiter": 2000, "ftol": 1e-16}
    return total * np.asarray(minimize(loss, start, jac=slope, bounds=bounds, method="SLSQP", options=options).x)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_scipy(seed: int, real: bool, missing: float) -> None:
    given = example(seed, missing=missing, real=real)
    components = parts(np.random.default_rng(seed))
    found = PoissonNMF.from_components(components).transform(Table(given.X, missing=~given.observed))
    expected = np.array([best_activations(x, o, components) for x, o in zip(given.X, given.observed, strict=True)])
    scale = np.maximum(given.X.sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(found / scale, expected / scale, atol=1e-6)
    assert log_likelihood(given, found, components.T) >= log_likelihood(given, expected, components.T) - 1e-9


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_nothing_is_left_to_gain(missing: float) -> None:
    """EM steps from the solution, which cannot lower the likelihood, do not raise it: for many kinds of dictionary."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        given = example(seed, (10, 30), missing=missing)
        components = 10.0 ** rng.uniform(-6, 6, size=(5, 30)) * (rng.random((5, 30)) < rng.uniform(0.2, 1))
        components[0] += 1e-9
        found = PoissonNMF.from_components(components).transform(Table(given.X, missing=~given.observed))
        value = log_likelihood(given, found, components.T)
        moved = found
        for _ in range(50):
            moved = em_activations(given, moved, components.T)
        assert log_likelihood(given, moved, components.T) <= value + 1e-6 * given.X.sum()


def test_equals_the_activations_of_a_converged_fit() -> None:
    given = example(0, missing=0.2)
    table = Table(given.X, missing=~given.observed)
    last: dict[str, Floats] = {}

    def keep(iteration: int, state: Any, trace: Any) -> None:
        last["activations"] = state.activations * state.dictionary.sum(axis=0)

    model = PoissonNMF(3, tol=1e-14, max_iter=5000, random_state=0, callbacks=[keep]).fit(table)
    np.testing.assert_allclose(model.transform(table), last["activations"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.mean_activations_, model.transform(table).mean(axis=0), rtol=1e-5)


def test_fit_transform_is_fit_and_transform() -> None:
    X = example(1, missing=0.0).X
    model = PoissonNMF(3, random_state=0)
    np.testing.assert_array_equal(model.fit_transform(X), model.transform(X))


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_rows_are_independent(n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any batch, any order, any number of threads, any cut into blocks: the same bits."""
    given = example(0, (60, 17))
    X = np.where(given.observed, given.X, np.nan)
    components = parts(np.random.default_rng(0))
    whole = PoissonNMF.from_components(components).transform(X)
    monkeypatch.setattr("partwise.passes.side.row_blocks", lambda indptr, size: one_row_blocks(len(indptr) - 1))
    model = PoissonNMF.from_components(components, n_jobs=n_jobs)
    np.testing.assert_array_equal(model.transform(X), whole)
    order = np.random.default_rng(1).permutation(60)
    np.testing.assert_array_equal(model.transform(X[order]), whole[order])
    for n in range(60):
        np.testing.assert_array_equal(model.transform(X[n : n + 1])[0], whole[n])
    errors = model.activation_errors(X)
    np.testing.assert_array_equal(model.activation_errors(X[order]), errors[order])


def one_row_blocks(n_rows: int) -> list[tuple[int, int]]:
    return [(n, n + 1) for n in range(n_rows)]


def test_empty_rows_are_exactly_zero() -> None:
    model = PoissonNMF.from_components([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    X = np.array([[0, 0, 0], [1, 1, 0], [np.nan] * 3, [0, np.nan, 0]])
    found = model.transform(X)
    assert found[[0, 2, 3]].tolist() == [[0.0, 0.0]] * 3
    np.testing.assert_allclose(found[1], [2.0, 0.0], atol=1e-7)


def test_features_that_no_part_holds_are_left_out() -> None:
    components = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    model = PoissonNMF.from_components(components)
    found = model.transform([[3, 5, 10**12, 7], [0, 0, 5, 0]])
    np.testing.assert_allclose(found, [[8, 7], [0, 0]], atol=1e-6)
    assert np.isfinite(model.score([[3, 5, 10**12, 7], [0, 0, 5, 0]]))
    overlapping = PoissonNMF.from_components([[0.5, 0.3, 0.0, 0.2], [0.1, 0.3, 0.0, 0.6]])
    with_dead, without = overlapping.transform([[3, 5, 10**12, 7], [3, 5, 0, 7]])
    np.testing.assert_array_equal(with_dead, without)


def test_scale_of_the_parts_is_kept() -> None:
    components = np.array([[2.0, 0.0], [0.0, 1e-200]])
    model = PoissonNMF.from_components(components)
    np.testing.assert_array_equal(model.components_, components)
    np.testing.assert_allclose(model.transform([[6, 5]]), [[3.0, 5e200]], rtol=1e-9)


def test_a_part_without_weight_gets_nothing() -> None:
    found = PoissonNMF.from_components([[1.0, 1.0], [0.0, 0.0]]).transform([[3, 5]])
    np.testing.assert_allclose(found, [[4.0, 0.0]])


def test_names_and_shapes_of_given_parts() -> None:
    model = PoissonNMF.from_components(sp.csr_array(np.eye(2, 3)), feature_names=["a", "b", "c"], n_jobs=2)
    assert model.n_components == model.n_components_ == 2
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.get_params()["n_jobs"] == 2
    # Columns are matched by name: "c" has no weight in either part.
    table = Table(np.array([[3.0, 7.0, 5.0]]), column_labels=np.array(["a", "c", "b"]))
    np.testing.assert_allclose(model.transform(table), [[3.0, 5.0]])
    with pytest.raises(InvalidInputError, match="feature_names has 2 names for 3 features"):
        PoissonNMF.from_components(np.eye(3), feature_names=["a", "b"])
    with pytest.raises(InvalidInputError, match="component_names has 4 names for 3 parts"):
        PoissonNMF.from_components(np.eye(3), component_names=list("abcd"))
    with pytest.raises(InvalidInputError, match=r"Negative values in data passed to from_components: X\[0, 1\] = -1"):
        PoissonNMF.from_components([[1, -1]])
    with pytest.raises(InvalidInputError, match="Part 1 sums to 1e-300: scale it to between 1e-250 and 1e250"):
        PoissonNMF.from_components([[1, 0], [0, 1e-300]])
    with pytest.raises(InvalidInputError, match=r"X\[0, 0\] is NaN or missing, which from_components does not support"):
        PoissonNMF.from_components([[np.nan, 1]])


class TestErrors:
    """Standard errors against the spread of activations over simulated data."""

    N_DRAWS = 4000
    # The relative error of a standard deviation from 4000 draws is 1 / sqrt(8000) = 1.1%; 5 of these are allowed, of
    # which 12 comparisons run over with a chance of 7e-6 (if the asymptotics hold, which many counts see to).
    TOLERANCE = 5 / np.sqrt(2 * N_DRAWS)

    @pytest.fixture
    def problem(self) -> tuple[Floats, Floats]:
        rng = np.random.default_rng(8)
        return rng.dirichlet(np.full(30, 0.7), size=3), np.array([400.0, 900.0, 250.0])

    def spread(self, components: Floats, activations: Floats, hidden: Any) -> tuple[Floats, Floats]:
        rng = np.random.default_rng(0)
        X = rng.poisson(np.tile(activations @ components, (self.N_DRAWS, 1))).astype(float)
        X[:, hidden] = np.nan
        return PoissonNMF.from_components(components).transform(X).std(axis=0), X

    @pytest.mark.parametrize("hidden", [[], [0, 3, 4, 11, 12, 25]])
    def test_bootstrap(self, problem: tuple[Floats, Floats], hidden: list[int]) -> None:
        components, activations = problem
        model = PoissonNMF.from_components(components)
        expected = activations @ components
        expected[hidden] = np.nan
        spread, X = self.spread(components, activations, hidden)
        errors = model.activation_errors(expected[None])[0]
        np.testing.assert_allclose(errors, spread, rtol=self.TOLERANCE)
        # Errors from the data themselves vary little, and agree on average.
        np.testing.assert_allclose(model.activation_errors(X[:200]).mean(axis=0), spread, rtol=self.TOLERANCE)
        assert np.all(np.abs(errors / 1.1 - spread) > self.TOLERANCE * spread)  # 10% wrong would be seen
        if hidden:
            ignoring = model.activation_errors((activations @ components)[None])[0]
            assert np.any(np.abs(ignoring - spread) > self.TOLERANCE * spread)  # and so would missing taken for seen

    def test_of_separate_parts(self) -> None:
        """Parts that share no feature: the error of a count is its root, and about 1 where nothing was seen."""
        model = PoissonNMF.from_components(np.eye(3))
        errors = model.activation_errors([[100, 4, 0], [0, 0, 0]])
        np.testing.assert_allclose(errors, [[10, 2, 1], [1, 1, 1]], rtol=1e-6)
        doubled = PoissonNMF.from_components(2 * np.eye(3)).activation_errors([[100, 4, 0]])
        np.testing.assert_allclose(doubled, [[5, 1, 0.5]], rtol=1e-6)

    def test_infinite_where_nothing_can_be_known(self) -> None:
        components = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 0]])
        X = np.array([[5, 7, 9, 0], [5, 7, np.nan, 0], [np.nan] * 4])
        errors = PoissonNMF.from_components(components).activation_errors(X)
        assert np.isinf(errors).tolist() == [[True, True, False, True], [True, True, True, True], [True] * 4]
        assert errors[0, 2] == pytest.approx(3.0)

    def test_more_parts_than_observed_cells(self) -> None:
        components = np.random.default_rng(0).dirichlet(np.ones(6), size=3)
        X = np.array([[4, np.nan, 2, np.nan, np.nan, np.nan], [4, 1, 2, 3, 3, 1]])
        errors = PoissonNMF.from_components(components).activation_errors(X)
        assert np.all(np.isinf(errors[0]))
        assert np.all(np.isfinite(errors[1]))


def test_transform_of_all_zero_or_all_missing_batches() -> None:
    model = PoissonNMF.from_components(np.eye(2))
    for X in (np.zeros((2, 2)), np.full((2, 2), np.nan)):
        assert model.transform(X).tolist() == [[0, 0], [0, 0]]
        with pytest.raises(InvalidInputError, match="too few tokens"):
            model.score(X)


def test_planted_bug_missing_taken_for_zeros() -> None:
    given = example(0, missing=0.3)
    components = parts(np.random.default_rng(0))
    wrong = PoissonNMF.from_components(components).transform(given.X)
    table = Table(given.X, missing=~given.observed)
    right = PoissonNMF.from_components(components).transform(table)
    assert log_likelihood(given, right, components.T) > log_likelihood(given, wrong, components.T) + 1


def test_given_parts_keep_their_names_until_others_are_fitted(tmp_path: Path) -> None:
    model = PoissonNMF.from_components(np.eye(2, 3), component_names=["SBS1", "SBS5"])
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.get_feature_names_out().tolist() == ["SBS1", "SBS5"]
    assert loaded.set_output(transform="pandas").transform([[1, 2, 0]]).columns.tolist() == ["SBS1", "SBS5"]
    assert loaded.fit([[1, 2, 0], [3, 1, 1]]).get_feature_names_out().tolist() == ["part 0", "part 1"]
