"""A piece of the simulations whose table stands in docs/tutorials/signatures.md."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.refitting import catalogue, ours


@pytest.mark.slow
@pytest.mark.parametrize(("n_parts", "size", "f1"), [(86, 1000, 0.82), (86, 20000, 0.93), (8, 1000, 0.9)])
def test_presence_and_intervals(n_parts: int, size: int, f1: float) -> None:
    found = ours(catalogue()[:n_parts], size, piece=2)  # 50 samples that are not in the table
    assert np.mean(found["f1"]) > f1
    assert size < 5000 or found["absent"] < 0.01
    # Of about 200 parts above 50 counts, 90% or more are covered; fewer than 86% have a chance below 2% then.
    assert found["covered_large"] > 0.86 * found["n_large"]
    assert found["covered"] > 0.93
    # Probabilities add up to the number of parts that are present: within four standard errors at most.
    assert abs(found["probability"] - found["n_present"]) < 4 * np.sqrt(found["n_present"])
