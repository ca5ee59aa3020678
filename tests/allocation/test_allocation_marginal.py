"""p(X) by sequential Monte Carlo: it agrees with enumeration, is unbiased, and knows its error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partwise.allocation import AllocationModel, exact_log_marginal, log_marginal_likelihood
from partwise.errors import InvalidInputError

COUNTS = np.array([[3, 0, 2], [0, 3, 1], [2, 1, 0]])
PRIORS: dict[str, Any] = {
    "dictionary_concentration": [0.2, 0.5, 0.3],
    "activation_concentration": [0.3, 0.7],
    "length_shape": 3.0,
    "length_rate": 0.6,
}
MODEL = AllocationModel(3, 2, **PRIORS)
EXACT = exact_log_marginal(COUNTS, MODEL)


def estimate(rng: int, **settings: Any) -> Any:
    return log_marginal_likelihood(COUNTS, 2, **PRIORS, rng=rng, **settings)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_enumeration(seed: int) -> None:
    found = estimate(seed, n_particles=32, n_islands=32)
    assert found.total_std_error < 0.05
    assert abs(found.total - EXACT) < 4 * found.total_std_error  # false alarm 6e-5 each


def ratios(n: int, **settings: Any) -> np.ndarray:
    """p(X) of many independent small runs over the exact one."""
    runs = [estimate(seed, n_particles=2, n_islands=2, n_stages=6, **settings) for seed in range(n)]
    return np.exp([run.total - EXACT for run in runs])


def test_unbiased_on_the_likelihood_scale() -> None:
    found = ratios(3000)
    error = found.std(ddof=1) / np.sqrt(found.size)
    assert error < 0.02  # a bias of a tenth would show at five standard errors
    assert abs(found.mean() - 1.0) < 4 * error


def test_a_mean_of_logarithms_is_seen_to_be_biased() -> None:
    # Power: averaging log estimates, a usual mistake, is found by the same test.
    found = ratios(3000)
    logs = np.log(found)
    assert abs(logs.mean()) > 4 * logs.std(ddof=1) / np.sqrt(logs.size)


def test_standard_errors_are_calibrated() -> None:
    runs = [estimate(seed, n_particles=8, n_islands=16) for seed in range(400)]
    scores = np.array([(run.total - EXACT) / run.total_std_error for run in runs])
    # Student's with 15 degrees of freedom has variance 15/13; chi-square bounds for 400 runs at 1e-3.
    assert 0.75 < scores.std() < 1.45
    assert np.mean(np.abs(scores) < 2) > 0.9


def test_one_component_is_exact() -> None:
    found = log_marginal_likelihood(COUNTS, 1, rng=0)
    exact = log_marginal_likelihood(COUNTS, 1, method="exact")
    assert found.total == pytest.approx(exact.total, rel=1e-12)
    assert found.total_std_error < 1e-10


def test_same_bits_for_any_number_of_threads() -> None:
    assert estimate(3, n_jobs=1).total == estimate(3, n_jobs=3).total


def test_no_tokens() -> None:
    found = log_marginal_likelihood(np.zeros((2, 3), int), 2, rng=0, length_shape=2.0, length_rate=1.0)
    assert found.total == pytest.approx(2 * 2 * np.log(0.5))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"n_islands": 1}, "n_islands must be at least 2"), ({"method": "magic"}, "method must be 'smc' or 'exact'")],
)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        estimate(0, **settings)
