"""Alias tables hold the weights that they were built from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partwise.kernels.alias import build_tables


@pytest.mark.parametrize(("single", "error"), [(np.float64, 1e-15), (np.float32, 1e-6)])
@pytest.mark.parametrize("concentration", [1e-3, 1.0, 50.0])
def test_alias_tables_hold_the_weights(concentration: float, single: Any, error: float) -> None:
    weights = np.random.default_rng(0).dirichlet(np.full(13, concentration), size=20).astype(single)
    thresholds = np.empty_like(weights)
    aliases = np.empty(weights.shape, np.int32 if single is np.float64 else np.uint8)
    build_tables(weights, 0, 20, thresholds, aliases)
    for row, threshold, alias in zip(weights, thresholds, aliases, strict=True):
        held = (threshold + np.bincount(alias, 1 - threshold, minlength=13)) / 13
        np.testing.assert_allclose(held, row, atol=error)
