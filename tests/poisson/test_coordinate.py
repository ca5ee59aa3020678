"""The fast algorithm: accepted values never fall, are what they are said to be, and end at a stationary point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from poisson_reference import Example, example, kkt_residual, log_likelihood

from partwise import PoissonNMF, Table
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines.local import LocalEngine
from partwise.poisson import kernels
from partwise.poisson.inference.coordinate import CoordinateDescent, ExtrapolatedState

Floats = NDArray[np.float64]


def table(given: Example) -> Table:
    return Table(given.X, missing=~given.observed)


def run_steps(
    given: Example, n_components: int, n_steps: int, init: Any = "random", seed: int = 0, careless: bool = False
) -> list[Any]:
    """States (copied) and what was reported, step by step; if careless, every step is accepted."""
    algorithm = CoordinateDescent(n_components, init, LocalEngine())
    data, key = given.data, Key(seed)
    state = algorithm.init(key.at(0), data)
    steps = []
    for iteration in range(1, n_steps + 1):
        state.objective = -np.inf if careless else state.objective
        state, info = algorithm.step(key.at(iteration), data, state)
        kept = ExtrapolatedState(state.activations.copy(), state.dictionary.copy(), state.dictionary_ahead.copy())
        steps.append((kept, info.get("objective")))
    return steps


@pytest.mark.parametrize("n_components", [1, 3, 30])
@pytest.mark.parametrize("missing", [0.0, 0.2, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_accepted_values_never_fall_and_are_true(seed: int, missing: float, n_components: int) -> None:
    given = example(seed, missing=missing, real=seed == 2)
    steps = run_steps(given, n_components, 120, seed=seed)
    reported = [(state, value) for state, value in steps if value is not None]
    assert len(reported) > 20
    for state, value in reported:
        assert value == pytest.approx(log_likelihood(given, state.activations, state.dictionary), rel=1e-11)
    values = np.array([value for _, value in reported])
    assert np.all(np.diff(values) >= -1e-12 * np.abs(values[1:]))
    # Between reports too: the first steps are EM, and a rejected step leaves all as it was.
    every = np.array([log_likelihood(given, state.activations, state.dictionary) for state, _ in steps])
    assert np.all(np.diff(every) >= -1e-12 * np.abs(every[1:]))


def test_objective_agrees_up_to_log_factorials() -> None:
    given = example(0)
    state, value = run_steps(given, 3, 30)[-1]
    exact = log_likelihood(given, state.activations, state.dictionary, constant=True)
    assert value is not None
    constant = exact - log_likelihood(given, state.activations, state.dictionary)
    assert value + constant == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("init", ["random", "nndsvd"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(5))
def test_reaches_what_em_reaches(seed: int, missing: float, init: str) -> None:
    """In 200 iterations from the same start; the seeds are such that both climb the same hill."""
    given = example(100 + seed, (40, 30), missing=missing)

    def value(inference: str) -> float:
        model = PoissonNMF(3, inference=inference, init=init, max_iter=200, tol=0.0, random_state=seed).fit(
            table(given)
        )
        return model.trace_.latest("objective")[0][1]

    assert value("coordinate") >= value("multiplicative") - 1e-9 * given.X.sum()


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_ends_at_a_stationary_point(seed: int, missing: float) -> None:
    given = example(seed, (30, 25), missing=missing)
    model = PoissonNMF(3, max_iter=2000, tol=1e-13, random_state=seed).fit(table(given))
    assert model.status_.converged
    assert model.kkt_residual_ < 1e-5
    # The same from what is stored, where entries at the floor have become zeros.
    activations = model.transform(table(given))
    assert kkt_residual(given, activations, model.components_.T) < 1e-5


def test_residual_of_wrong_solutions_is_large() -> None:
    given = example(0, (30, 25))
    steps = run_steps(given, 3, 300)
    state = steps[-1][0]
    assert kkt_residual(given, state.activations, state.dictionary) < 1e-5
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert kkt_residual(given, factor * state.activations, state.dictionary) > 5e-3
    swapped = state.activations[:, [1, 0, 2]]
    assert kkt_residual(given, swapped, state.dictionary) > 0.1
    on_an_empty_row = state.activations.copy()
    on_an_empty_row[15] = given.X.sum() / 30
    assert kkt_residual(given, on_an_empty_row, state.dictionary) > 0.1
    early = PoissonNMF(3, max_iter=12, tol=0.0, random_state=0).fit(table(given))
    assert early.kkt_residual_ > 1e-2


def adversarial(name: str) -> tuple[Floats, Any]:
    """Data, and a start, that are unkind to coordinate descent."""
    rng = np.random.default_rng(5)
    if name == "every count has one part of its own":
        return np.diag(10.0 ** np.arange(-3, 9)), "random"
    if name == "very unequal rows and columns":
        scales = 10.0 ** rng.uniform(-8, 8, size=(20, 1)) * 10.0 ** rng.uniform(-8, 8, size=15)
        return scales * rng.gamma(1.0, size=(20, 15)) * (rng.random((20, 15)) < 0.5), "random"
    if name == "start with zeros":
        X = rng.poisson(3.0, size=(20, 15)).astype(float)
        return X, (np.eye(20, 4), np.eye(4, 15))
    if name == "start with zero parts":
        X = rng.poisson(3.0, size=(20, 15)).astype(float)
        return X, (np.zeros((20, 4)), np.zeros((4, 15)))
    if name == "start far away":
        X = rng.poisson(3.0, size=(20, 15)).astype(float)
        return X, (10.0 ** rng.uniform(-20, 20, size=(20, 4)), 10.0 ** rng.uniform(-20, 20, size=(4, 15)))
    if name == "columns given twice":
        X = rng.poisson(2.0, size=(20, 5)).astype(float)
        return np.tile(X, 3), "random"
    if name == "equal parts":
        return rng.poisson(2.0, size=(20, 15)).astype(float), (np.ones((20, 4)), np.ones((4, 15)))
    if name == "rank one":
        return np.outer(np.arange(1.0, 21), np.arange(15.0)), "random"
    if name == "one count":
        X = np.zeros((20, 15))
        X[3, 4] = 1
        return X, "random"
    raise ValueError(name)


CASES = [
    "every count has one part of its own",
    "very unequal rows and columns",
    "start with zeros",
    "start with zero parts",
    "start far away",
    "columns given twice",
    "equal parts",
    "rank one",
    "one count",
]


@pytest.mark.parametrize("inference", ["coordinate", "multiplicative"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("name", CASES)
def test_adversarial_data(name: str, missing: float, inference: str) -> None:
    X, init = adversarial(name)
    observed = np.random.default_rng(1).random(X.shape) >= missing
    observed[np.unravel_index(X.argmax(), X.shape)] = True
    given = Example(np.where(observed, X, 0.0), observed)
    values: list[float] = []

    def judge(iteration: int, state: Any, trace: Any) -> None:
        assert np.all(np.isfinite(state.activations))
        assert np.all(np.isfinite(state.dictionary))
        values.append(log_likelihood(given, state.activations, state.dictionary))

    model = PoissonNMF(
        4 if isinstance(init, tuple) else 5,
        inference=inference,
        init=init,
        max_iter=150,
        tol=0.0,
        random_state=0,
        callbacks=[judge],
    ).fit(table(given))
    falls = np.diff(values)
    assert falls.min() >= -1e-12 * np.abs(values).max()
    assert np.all(np.isfinite(model.components_))
    assert np.isfinite(model.kkt_residual_)
    assert np.all(np.isfinite(model.transform(table(given))))


def test_steps_must_be_judged() -> None:
    """If every step were accepted, values would fall: the tests above can fail."""
    given = example(1, (30, 25), missing=0.0)
    careless = [value for _, value in run_steps(given, 5, 60, careless=True) if value is not None]
    assert np.diff(careless).min() < -1e-6 * abs(careless[-1])


@pytest.mark.parametrize("values", [np.uint16, np.uint32, np.int64, np.float64])
def test_value_types_give_the_same_bits(values: Any) -> None:
    """Whether counts are stored in 2, 4 or 8 bytes changes nothing."""
    given = example(0)
    data = CountMatrix.build(table(given))
    other = np.random.default_rng(0).gamma(1.0, size=(17, 3))
    exposures = np.asarray(~data.missing_matrix().toarray() @ other)
    factors = []
    for kind in (values, np.float64):
        factor = np.ones((23, 3))
        cells = data.indptr, data.indices, data.values.astype(kind)
        kernels.coordinate_descent(cells, (other, exposures, np.zeros(23)), (3, 0.0), 0, 23, factor)
        factors.append(factor)
    np.testing.assert_array_equal(*factors)
