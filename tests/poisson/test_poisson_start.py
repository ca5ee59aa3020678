"""Where a fit starts: random, from singular vectors, from arrays, from the last fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from poisson_reference import example, log_likelihood

from partwise import CountMatrix, PoissonNMF, Table
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.passes import kernels as shared_kernels
from partwise.poisson import kernels
from partwise.poisson.inference.state import start_factors


def start(X: Any, n_components: int, init: Any, seed: int = 0) -> Any:
    return start_factors(Key(seed), CountMatrix.build(X, integers=False), n_components, init)


@pytest.mark.parametrize("init", ["random", "nndsvd"])
@pytest.mark.parametrize("n_components", [1, 3, 40])
def test_starts_are_positive_and_scaled(init: str, n_components: int) -> None:
    X = example(0, missing=0.0).X
    state = start(X, n_components, init)
    assert state.activations.shape == (23, n_components)
    assert state.dictionary.shape == (17, n_components)
    np.testing.assert_allclose(state.dictionary.sum(axis=0), 1, rtol=1e-9)
    filled_rows, filled_columns = X.sum(axis=1) > 0, X.sum(axis=0) > 0
    assert np.all(state.activations[filled_rows] > 0)
    assert np.all(state.dictionary[filled_columns] > 0)
    again = start(X, n_components, init)
    np.testing.assert_array_equal(again.dictionary, state.dictionary)


def test_random_starts_have_the_margins_of_the_data() -> None:
    X = example(0, missing=0.0).X
    state = start(X, 3, "random")
    np.testing.assert_allclose(state.activations.sum(axis=1), X.sum(axis=1), rtol=1e-9)
    assert not np.array_equal(start(X, 3, "random", seed=1).dictionary, state.dictionary)


def test_nndsvd_starts_close() -> None:
    """Closer than a random start to what will be found, which is what it is for."""
    given = example(3, (60, 40), missing=0.0)
    near, far = start(given.X, 3, "nndsvd"), start(given.X, 3, "random")
    value = log_likelihood(given, near.activations, near.dictionary)
    scaled = given.X.sum() / (near.activations.sum(axis=0) @ near.dictionary.sum(axis=0))
    value = max(value, log_likelihood(given, scaled * near.activations, near.dictionary))
    assert value > log_likelihood(given, far.activations, far.dictionary)


def test_given_arrays_are_used_as_they_are_up_to_scale() -> None:
    X = example(0, missing=0.0).X
    rng = np.random.default_rng(0)
    activations, components = rng.gamma(1.0, size=(23, 2)), rng.gamma(1.0, size=(2, 17))
    state = start(X, 2, (activations, components))
    np.testing.assert_allclose(state.activations @ state.dictionary.T, activations @ components, rtol=1e-12)
    # They are not changed, and no fit is done with max_iter=0.
    before = activations.copy(), components.copy()
    model = PoissonNMF(2, init=(activations, components), max_iter=0, tol=0.0).fit(X)
    np.testing.assert_array_equal(activations, before[0])
    np.testing.assert_array_equal(components, before[1])
    expected = components / components.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.components_, expected, rtol=1e-12)
    assert model.n_iter_ == 0


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ((np.ones((23, 2)),), r"init must be a pair \(activations, parts\), got 1 items"),
        ((np.ones((22, 2)), np.ones((2, 17))), r"init: activations must have shape \(23, 2\), got \(22, 2\)"),
        ((np.ones((23, 2)), np.ones((17, 2))), r"init: components must have shape \(2, 17\), got \(17, 2\)"),
        ((np.full((23, 2), -1.0), np.ones((2, 17))), r"init: activations\[0, 0\] = -1.0 must be a finite nonnegative"),
        ((np.ones((23, 2)), np.full((2, 17), np.nan)), r"init: components\[0, 0\] = nan must be a finite nonnegative"),
        ((np.ones((23, 2)), [["a"] * 17] * 2), r"init: components must be an array of numbers"),
        ((sp.csr_array((23, 2)), np.ones((2, 17))), r"init: activations must be an array of numbers"),
        ((np.ones((23, 2), dtype=complex), np.ones((2, 17))), r"init: activations must be an array of numbers"),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 1e-200])
def test_refused_arrays(init: Any, message: str, scale: float) -> None:
    with pytest.raises(InvalidInputError, match=message):
        PoissonNMF(2, init=init).fit(scale * example(0, missing=0.0).X)


def test_warm_start() -> None:
    given = example(2, (40, 30))
    table = Table(given.X, missing=~given.observed)
    model = PoissonNMF(3, random_state=0, warm_start=True, tol=1e-9).fit(table)
    value, n_iter = model.trace_.latest("objective")[0][1], model.n_iter_
    model.fit(table)
    assert model.n_iter_ < n_iter
    first = model.trace_.evaluated()[1][0]
    assert first >= value - 1e-6 * given.X.sum()
    with pytest.raises(
        InvalidInputError, match=r"the parts of the last fit have shape \(3, 30\), and this fit needs \(4, 30\)"
    ):
        model.set_params(n_components=4).fit(table)
    with pytest.raises(InvalidInputError, match="set warm_start=False"):
        model.set_params(n_components=3).fit(given.X[:, :20])


def test_warm_start_of_given_components_and_batches() -> None:
    X = example(2, (40, 30), missing=0.0).X
    model = PoissonNMF.from_components(np.eye(3, 30) + 0.1, warm_start=True, max_iter=50, tol=0.0).fit(X)
    assert np.isfinite(model.kkt_residual_)
    model = PoissonNMF(3, warm_start=True, max_iter=50, tol=0.0, random_state=0).partial_fit(X).fit(X)
    assert not hasattr(model, "online_exposure_")


def test_kernels_see_one_layout_of_arrays() -> None:
    """Each further layout would be compiled anew, and rows that are not contiguous are slow."""
    X = example(0, missing=0.0).X
    arguments: dict[str, Any] = {"max_iter": 12, "tol": 0.0, "random_state": 0}
    given = np.asfortranarray(np.ones((23, 3))), np.asfortranarray(np.ones((3, 17)))
    before = {name: set(compiled(name)) for name in KERNELS}
    model = PoissonNMF(3, **arguments).fit(X)
    model.transform(X)
    model.score(X)
    model.partial_fit(X)
    for init in (given, "nndsvd"):
        PoissonNMF(3, init=init, **arguments).fit(X)
    PoissonNMF(3, init=given, inference="multiplicative", **arguments).fit(X)
    PoissonNMF.from_components(given[1], warm_start=True, **arguments).partial_fit(X).fit(X)
    for name in KERNELS:
        new = [signature for signature in compiled(name) if signature not in before[name]]
        layouts = {kind.layout for signature in new for kind in flat(signature) if hasattr(kind, "layout")}
        assert layouts <= {"C"}


KERNELS = ["expected_counts", "coordinate_descent", "kkt_residual"]


def flat(kinds: Any) -> Iterator[Any]:
    """Types of arguments, and of what is inside tuples."""
    for kind in kinds:
        yield from flat(kind.types) if hasattr(kind, "types") else [kind]


def compiled(name: str) -> list[Any]:
    return list(getattr(shared_kernels if hasattr(shared_kernels, name) else kernels, name).signatures)
