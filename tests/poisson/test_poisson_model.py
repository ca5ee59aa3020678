"""The model itself: its log-likelihood against SciPy's, and data drawn from it."""

from __future__ import annotations

import numpy as np
import pytest
from poisson_reference import example
from scipy.stats import poisson

from partwise import CountMatrix
from partwise.core.keys import Key
from partwise.poisson.model import PoissonModel


@pytest.fixture
def model(rng: np.random.Generator) -> PoissonModel:
    return PoissonModel(rng.gamma(1.0, 5.0, size=(23, 3)), rng.gamma(1.0, size=(17, 3)))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_log_likelihood(missing: float, model: PoissonModel) -> None:
    given = example(0, missing=missing)
    expected = poisson.logpmf(given.X, model.rates())[given.observed].sum()
    assert model.log_likelihood(given.data) == pytest.approx(expected, rel=1e-12)


def test_impossible_counts_have_no_likelihood() -> None:
    model = PoissonModel(np.ones((1, 1)), np.array([[1.0], [0.0]]))
    with np.errstate(all="raise"):
        assert model.log_likelihood(CountMatrix.build([[1, 1]])) == -np.inf
        assert model.log_likelihood(CountMatrix.build([[1, 0]])) == pytest.approx(-1.0)


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
