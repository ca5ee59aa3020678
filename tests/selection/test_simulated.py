"""A tenth of `make simulate`: recommendations lose little on fresh data from the same true rates."""

from __future__ import annotations

import warnings

import pytest
from benchmarks.simulate import FIRST_SEED, KINDS, LOSS, RANKS, judged, table


@pytest.mark.slow
def test_recommendations_lose_little() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [judged(kind, rank, FIRST_SEED) for kind in KINDS for rank in RANKS]
    right = [one["loss"] <= LOSS for one in found]
    assert sum(right) >= 0.9 * len(found)
    sure = [one["loss"] <= LOSS for one in found if one["confidence"] == "high"]
    assert sum(sure) >= 0.9 * len(sure)
    assert len(table(found).splitlines()) == 2 + len(found) + 2
