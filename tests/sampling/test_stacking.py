"""Weights of predictions: the maximum of the mixture's log score, and what is left of it where nothing is told."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from partwise.sampling.stacking import stacking_weights


def test_two_weights_are_those_of_a_line_search(rng: np.random.Generator) -> None:
    left_out = rng.beta(2.0, 1.0, size=(2, 400))

    def loss(w: float) -> float:
        prior = 10.0 * np.log(w) + 10.0 * np.log(1.0 - w)
        return float(-np.log(w * left_out[0] + (1.0 - w) * left_out[1]).sum() - prior)

    best = minimize_scalar(loss, bounds=(1e-6, 1.0 - 1e-6), method="bounded")
    assert stacking_weights(left_out)[0] == pytest.approx(best.x, abs=1e-3)


def test_weights_sum_to_one_and_better_predictions_count_more(rng: np.random.Generator) -> None:
    left_out = rng.beta(3.0, 1.0, size=(3, 2000)) * np.array([[1.0], [0.8], [0.6]])
    weights = stacking_weights(left_out)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] > weights[1] > weights[2] > 0.0


def test_equal_predictions_and_no_cells_have_equal_weights() -> None:
    np.testing.assert_allclose(stacking_weights(np.full((4, 10), 0.3)), 0.25)
    np.testing.assert_allclose(stacking_weights(np.empty((2, 0))), 0.5)
