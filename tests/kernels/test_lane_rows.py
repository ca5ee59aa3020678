"""Draws over lanes look at the row of factors that they are given, and at no other."""

from __future__ import annotations

import numpy as np

from partwise.kernels.lanes import last_positive


def test_the_last_component_of_positive_weight() -> None:
    factors = np.array([[0.0, 0.0, 5.0, 5.0, 5.0], [1.0, 2.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    shares = np.array([1.0, 1.0, 1.0, 0.0, 1.0])
    for shift in (0.0, 0.5):
        for n_components in range(1, 6):
            positive = np.flatnonzero(((shift + factors[1]) * shares)[:n_components])
            assert last_positive(factors, 1, shift, shares, n_components) == positive[-1]
    assert last_positive(factors, 2, 0.0, shares, 5) == 0
