"""A pass over rows on disk brings every row to its optimum, the first and last of a block included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partwise import on_disk
from partwise.engines import resolve_engine
from partwise.poisson.inference.passes import step_by_rows
from partwise.poisson.inference.state import PoissonState

RNG = np.random.default_rng(3)
DICTIONARY = RNG.dirichlet(np.full(15, 0.3), size=3).T
X = RNG.poisson(RNG.gamma(0.7, 20.0, size=(12, 3)) @ DICTIONARY.T)
X[:, 0] += 1  # no empty row


@pytest.mark.parametrize("max_sweeps", [0, 300])
def test_a_pass_is_its_formulas(max_sweeps: int, tmp_path: Path) -> None:
    start = RNG.gamma(1.0, 10.0, size=(12, 3))
    state, objective = step_by_rows(
        on_disk(X, tmp_path / "counts"),
        resolve_engine(),
        PoissonState(start.copy(), DICTIONARY.copy()),
        max_sweeps=max_sweeps,
        with_objective=True,
    )
    activations = np.asarray(state.activations)
    if max_sweeps:
        # each row at its optimum: a part is used and its gradient 0, or unused and its gradient not positive
        gradient = (X / (activations @ DICTIONARY.T)) @ DICTIONARY - 1.0
        worst = np.abs(np.minimum(activations / X.sum(axis=1, keepdims=True), -gradient))
        assert worst.max() < 1e-4
    else:
        np.testing.assert_allclose(activations, start * ((X / (start @ DICTIONARY.T)) @ DICTIONARY), rtol=1e-10)
    rates = activations @ DICTIONARY.T
    assert objective == pytest.approx(np.sum(X * np.log(rates)) - activations.sum())
    expected = DICTIONARY * ((X / rates).T @ activations) / activations.sum(axis=0)
    np.testing.assert_allclose(state.dictionary, expected, rtol=1e-6, atol=1e-12)
