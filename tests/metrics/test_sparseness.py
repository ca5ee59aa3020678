"""Hoyer's sparseness against its formula, and at its ends."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.errors import InvalidInputError
from partwise.metrics import hoyer_sparseness


def test_formula() -> None:
    values = np.random.default_rng(0).gamma(0.5, size=(5, 7))
    root = np.sqrt(7)
    expected = (root - values.sum(axis=1) / np.linalg.norm(values, axis=1)) / (root - 1)
    np.testing.assert_allclose(hoyer_sparseness(values), expected, rtol=1e-12)
    np.testing.assert_allclose(hoyer_sparseness(-values.T, axis=0), expected, rtol=1e-12)
    np.testing.assert_allclose(hoyer_sparseness(1e-200 * values), expected, rtol=1e-12)


def test_ends() -> None:
    assert hoyer_sparseness([0, 0, 5.0]) == 1.0
    assert hoyer_sparseness([1e300] * 4) == 0.0
    assert np.isnan(hoyer_sparseness([0.0, 0.0]))


@pytest.mark.parametrize(("values", "message"), [([1.0], "two entries"), ([1.0, np.nan], "finite"), (3.0, "two")])
def test_refused(values: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        hoyer_sparseness(values)
