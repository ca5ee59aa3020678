"""EM is Lee and Seung's algorithm, step by step, on observed cells only; and it never lowers the log-likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from poisson_reference import Example, em_step, example, log_likelihood

from partwise import PoissonNMF, Table
from partwise.passes.side import Side

Floats = NDArray[np.float64]


def dense(seed: int, *, missing: float) -> Example:
    """Data without zeros in the solution, so that floors play no part."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(2.0, 3.0, size=(15, 12))
    observed = rng.random(X.shape) >= missing
    return Example(np.where(observed, X, 0.0), observed)


def start(given: Example, n_components: int = 3) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(99)
    dictionary = rng.dirichlet(np.ones(given.X.shape[1]), size=n_components).T
    return rng.gamma(2.0, 5.0, size=(given.X.shape[0], n_components)), dictionary


def states_of(given: Example, n_components: int, max_iter: int, **arguments: Any) -> list[tuple[Floats, Floats]]:
    """Factors after each iteration."""
    states: list[tuple[Floats, Floats]] = []

    def keep(iteration: int, state: Any, trace: Any) -> None:
        states.append((state.activations.copy(), state.dictionary.copy()))

    arguments = {"tol": 0.0, "random_state": 0, **arguments}
    model = PoissonNMF(n_components, max_iter=max_iter, callbacks=[keep], **arguments)
    model.fit(Table(given.X, missing=~given.observed))
    return states


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_equals_plain_numpy_step_by_step(seed: int, missing: float) -> None:
    given = dense(seed, missing=missing)
    activations, dictionary = start(given)
    states = states_of(given, 3, 40, inference="multiplicative", init=(activations, dictionary.T))
    for state in states:
        activations, dictionary = em_step(given, activations, dictionary)
        np.testing.assert_allclose(state[0], activations, rtol=1e-10)
        np.testing.assert_allclose(state[1], dictionary, rtol=1e-10)


@pytest.mark.parametrize("n_components", [1, 3, 30])
@pytest.mark.parametrize("missing", [0.0, 0.2, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_log_likelihood_never_falls(seed: int, missing: float, n_components: int) -> None:
    given = example(seed, missing=missing, real=seed == 3)
    states = states_of(given, n_components, 150, inference="multiplicative", random_state=seed)
    values = np.array([log_likelihood(given, *state) for state in states])
    assert np.all(np.diff(values) >= -1e-13 * np.abs(values[1:]))
    assert n_components == 1 or values[-1] > values[0] + 1


def test_reported_objective() -> None:
    """Every tenth iteration: the value between the two updates of that iteration."""
    given = example(1)
    states = states_of(given, 3, 40, inference="multiplicative")
    model = PoissonNMF(3, inference="multiplicative", max_iter=40, tol=0.0, random_state=0)
    model.fit(Table(given.X, missing=~given.observed))
    iterations, values = model.trace_.evaluated()
    assert iterations.tolist() == [10, 20, 30, 40]
    for iteration, value in zip(iterations, values, strict=True):
        between = log_likelihood(given, states[iteration - 1][0], states[iteration - 2][1])
        assert value == pytest.approx(between, rel=1e-12)


def test_masked_fit_is_a_fit_of_the_observed_cells() -> None:
    """A row and a column that are wholly missing leave the fit of the rest as it is."""
    given = dense(4, missing=0.2)
    activations, dictionary = start(given)
    larger = Example(np.zeros((16, 13)), np.zeros((16, 13), dtype=bool))
    larger.X[:15, :12], larger.observed[:15, :12] = given.X, given.observed
    init = np.vstack([activations, np.ones((1, 3))]), np.hstack([dictionary.T, np.zeros((3, 1))])
    small = states_of(given, 3, 30, inference="multiplicative", init=(activations, dictionary.T))
    large = states_of(larger, 3, 30, inference="multiplicative", init=init)
    np.testing.assert_allclose(large[-1][0][:15], small[-1][0], rtol=1e-10)
    np.testing.assert_allclose(large[-1][1][:12], small[-1][1], rtol=1e-10)
    assert np.all(large[-1][0][15] == 0)
    assert np.all(large[-1][1][12] == 0)


class TestPlantedBugs:
    def equals_reference(self) -> bool:
        given = dense(0, missing=0.3)
        activations, dictionary = start(given)
        states = states_of(given, 3, 5, inference="multiplicative", init=(activations, dictionary.T))
        for _ in range(5):
            activations, dictionary = em_step(given, activations, dictionary)
        return np.allclose(states[-1][0], activations, rtol=1e-6)

    def test_missing_taken_for_zeros(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.equals_reference()
        monkeypatch.setattr(Side, "exposure", lambda self, other, totals: np.atleast_2d(totals))
        assert not self.equals_reference()

    def test_exposures_swapped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given = example(0, (17, 17), missing=0.3)
        right = states_of(given, 3, 20, inference="multiplicative")
        exposure = Side.exposure
        monkeypatch.setattr(
            Side,
            "exposure",
            lambda self, other, totals: exposure(Side(self.data.transposed, self.engine), other, totals=totals),
        )
        wrong = states_of(given, 3, 20, inference="multiplicative")
        values = [log_likelihood(given, *state) for state in wrong]
        assert min(np.diff(values)) < -1e-3 or values[-1] < log_likelihood(given, *right[-1]) - 1

    def test_without_floors_zeros_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A start with zeros grows out of the floor, and could not without it."""
        given = example(2, missing=0.0)
        activations, dictionary = start(given)
        activations[:, 1:] = 0
        init = (activations, dictionary.T)
        free = states_of(given, 3, 400, inference="multiplicative", init=init)
        assert np.all(free[-1][0][given.X.sum(axis=1) > 0].max(axis=0) > 1e-4)
        for module in ("passes.side", "poisson.inference.multiplicative"):
            monkeypatch.setattr(f"partwise.{module}.FLOOR", 0.0)
        stuck = states_of(given, 3, 400, inference="multiplicative", init=init)
        assert np.all(stuck[-1][0][:, 1:] == 0)
