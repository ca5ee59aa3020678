"""The model itself: data drawn from it."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.core.keys import Key
from partwise.poisson.model import PoissonModel


@pytest.fixture
def model(rng: np.random.Generator) -> PoissonModel:
    return PoissonModel(rng.gamma(1.0, 5.0, size=(23, 3)), rng.gamma(1.0, size=(17, 3)))


def test_simulated_counts(model: PoissonModel) -> None:
    """The total, and Pearson's statistic, of 23 x 17 cells in 200 draws; a false alarm has a chance of 3e-6."""
    rates = model.rates()
    draws = np.array([model.simulate(Key(seed)).toarray() for seed in range(200)])
    total = 200 * rates.sum()
    assert abs(draws.sum() - total) < 4.9 * np.sqrt(total)
    # (Pearson's statistic has a larger variance than chi-square where rates are small: 2 + 1 / rate a cell.)
    spread = np.sqrt(200 * (2 + 1 / rates).sum())
    assert abs(((draws - rates) ** 2 / rates).sum() - draws.size) < 4.9 * spread
    assert 4.9 * spread < 0.05 * draws.size  # a variance 5% too large would be seen
    np.testing.assert_array_equal(model.simulate(Key(3)).toarray(), draws[3])
    assert not np.array_equal(draws[3], draws[4])
