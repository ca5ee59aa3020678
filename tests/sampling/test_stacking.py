"""Weights of predictions: the maximum of the mixture's log score, and what is left of it where nothing is told."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from partwise.sampling.draws import stacking_weights


def test_two_weights_are_those_of_a_line_search(rng: np.random.Generator) -> None:
    left_out = rng.beta(2.0, 1.0, size=(2, 400))
    best = minimize_scalar(
        lambda w: -np.log(w * left_out[0] + (1.0 - w) * left_out[1]).sum(), bounds=(0.0, 1.0), method="bounded"
    )
    assert stacking_weights(left_out)[0] == pytest.approx(best.x, abs=1e-3)


def test_the_mixture_is_no_worse_than_any_of_its_parts(rng: np.random.Generator) -> None:
    left_out = rng.beta(3.0, 1.0, size=(5, 200)) * rng.uniform(0.5, 1.0, size=(5, 1))
    weights = stacking_weights(left_out)
    assert weights.sum() == pytest.approx(1.0)
    assert np.all(weights >= 0.0)
    assert np.log(weights @ left_out).sum() >= np.log(left_out).sum(axis=1).max() - 0.01 * 200


def test_equal_predictions_and_no_cells_have_equal_weights() -> None:
    np.testing.assert_allclose(stacking_weights(np.full((4, 10), 0.3)), 0.25)
    np.testing.assert_allclose(stacking_weights(np.empty((2, 0))), 0.5)
