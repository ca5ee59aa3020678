"""p(X) by sampling: it agrees with enumeration, is unbiased, and knows its error."""

from __future__ import annotations

import itertools
import re
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from partwise.allocation import AllocationModel, exact_log_marginal, log_marginal_likelihood
from partwise.allocation.inference import marginal
from partwise.allocation.inference.marginal import log_normal_error
from partwise.allocation.kernels.particles import log_permanent
from partwise.core.keys import Key
from partwise.errors import InaccurateWarning, InvalidInputError

COUNTS = np.array([[3, 0, 2], [0, 3, 1], [2, 1, 0]])
PRIORS: dict[str, Any] = {
    "dictionary_concentration": [0.2, 0.5, 0.3],
    "activation_concentration": [0.3, 0.7],
    "length_shape": 3.0,
    "length_rate": 0.6,
}
MODEL = AllocationModel(3, 2, **PRIORS)
EXACT = exact_log_marginal(COUNTS, MODEL)


METHODS = ["annealed", "smc"]


def estimate(rng: int, method: str, **settings: Any) -> Any:
    return log_marginal_likelihood(COUNTS, 2, **PRIORS, rng=rng, method=method, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_enumeration(seed: int, method: str) -> None:
    found = estimate(seed, method, n_particles=32, n_islands=32, n_stages=40)
    assert found.total_std_error < 0.05
    assert abs(found.total - EXACT) < 4 * found.total_std_error  # false alarm 6e-5 each


def ratios(n: int, method: str) -> np.ndarray:
    """p(X) of many independent small runs over the exact one."""
    effort = {"n_particles": 2, "n_islands": 4, "n_stages": 6, "n_pilot": 10}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InaccurateWarning)
        runs = [estimate(seed, method, **effort) for seed in range(n)]
    return np.exp([run.total - EXACT for run in runs])


@pytest.mark.parametrize("method", METHODS)
def test_unbiased_on_the_likelihood_scale(method: str) -> None:
    found = ratios(2000, method)
    error = found.std(ddof=1) / np.sqrt(found.size)
    assert error < 0.02  # a bias of a tenth would show at five standard errors
    assert abs(found.mean() - 1.0) < 4 * error
    # Power: averaging log estimates, a usual mistake, is found by the same test.
    logs = np.log(found)
    assert abs(logs.mean()) > 4 * logs.std(ddof=1) / np.sqrt(logs.size)


PLANTED = {
    "orders of equal components are not counted": ("_log_orders", lambda model, sample_counts: 0.0),
    "shares of the other orders are forgotten": ("log_all_orders", lambda logs: 0.0),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistakes_are_seen_to_be_biased(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marginal, *PLANTED[mistake])
    found = ratios(500, "annealed")
    assert abs(found.mean() - 1.0) > 4 * found.std(ddof=1) / np.sqrt(found.size)


@pytest.mark.parametrize("method", METHODS)
def test_standard_errors_are_calibrated(method: str) -> None:
    runs = [estimate(seed, method, n_particles=4, n_stages=20, n_pilot=20) for seed in range(200)]
    totals, errors = np.array([(run.total, run.total_std_error) for run in runs]).T
    assert totals.std(ddof=1) == pytest.approx(errors.mean(), rel=0.25)
    # Two errors are made to cover 95.4%: fewer than 90% of 200 in 1 of 1,000 seeds.
    assert np.mean(np.abs(totals - EXACT) < 2 * errors) > 0.9


def test_errors_of_log_normal_islands_are_calibrated() -> None:
    rng = np.random.default_rng(0)
    for spread in (0.2, 1.0, 2.0, 4.0):
        logs = spread * rng.standard_normal((200, 16))
        misses = np.logaddexp.reduce(logs, axis=1) - np.log(16) - spread**2 / 2
        errors = np.array([log_normal_error(row, n_sets=500) for row in logs])
        # An error estimated from the islands' likelihoods, whose ratio saturates, is 4 times too small at the last.
        assert errors.mean() == pytest.approx(np.sqrt(np.mean(misses**2)), rel=0.25)


def test_islands_that_got_stuck_do_not_count() -> None:
    logs = np.random.default_rng(1).standard_normal(16)
    stuck = np.where(logs == logs.min(), logs - 1000.0, logs)
    assert log_normal_error(stuck) == pytest.approx(log_normal_error(logs), rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("n_components", [3, 5])
def test_errors_are_calibrated_on_three_thousand_tokens(n_components: int) -> None:
    # Too large for enumeration: 12 estimates of little effort against one of much more, which all agree within their
    # errors. Twelve of them beyond 3 errors once: 1 in 30 seeds; twice: 1 in 1,000.
    X = AllocationModel(40, 3, 0.1, 0.3, 1000.0, 10.0).simulate(Key(0), 30).counts
    priors: dict[str, Any] = {"dictionary_concentration": 0.1, "activation_concentration": 0.3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InaccurateWarning)
        truth = log_marginal_likelihood(X, n_components, **priors, rng=1000, n_stages=300, n_pilot=2000)
        runs = [log_marginal_likelihood(X, n_components, **priors, rng=seed, n_particles=4) for seed in range(12)]
    scores = [(run.total - truth.total) / np.hypot(run.total_std_error, truth.total_std_error) for run in runs]
    assert np.sum(np.abs(scores) > 3) <= 1


def test_disagreeing_islands_are_said() -> None:
    X = AllocationModel(40, 3, 0.1, 0.3, 1000.0, 10.0).simulate(Key(0), 30).counts
    with pytest.warns(InaccurateWarning, match="with 3 parts has a standard error of .* islands disagree"):
        log_marginal_likelihood(X, 3, rng=0, method="smc", n_islands=4, n_particles=2, n_stages=10)


@pytest.mark.parametrize("method", METHODS)
def test_one_component_is_exact(method: Any) -> None:
    found = log_marginal_likelihood(COUNTS, 1, rng=0, method=method)
    exact = log_marginal_likelihood(COUNTS, 1, method="exact")
    assert found.total == pytest.approx(exact.total, rel=1e-12)
    assert found.total_std_error < 1e-10


@pytest.mark.parametrize("method", METHODS)
def test_same_bits_for_any_number_of_threads(method: str) -> None:
    assert estimate(3, method, n_jobs=1).total == estimate(3, method, n_jobs=3).total


def test_no_tokens() -> None:
    found = log_marginal_likelihood(np.zeros((2, 3), int), 2, rng=0, length_shape=2.0, length_rate=1.0)
    assert found.total == pytest.approx(2 * 2 * np.log(0.5))


def test_sum_over_all_orders() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 4, 6):
        logs = 3.0 * rng.standard_normal((size, size))
        every = [logs[range(size), order].sum() for order in itertools.permutations(range(size))]
        assert marginal.log_all_orders(logs) == pytest.approx(logsumexp(every) - np.trace(logs), abs=1e-12)
        assert log_permanent(logs) == pytest.approx(logsumexp(every), abs=1e-12)
    # Those far apart need no enumeration; too many alike are refused.
    apart = np.where(np.eye(40, dtype=bool), 0.0, -80.0)
    assert marginal.log_all_orders(apart) == pytest.approx(0.0, abs=1e-12)
    apart[:3, :3] = 0.0
    assert marginal.log_all_orders(apart) == pytest.approx(np.log(6), abs=1e-12)
    with pytest.raises(InvalidInputError, match="cannot tell 15 parts apart"):
        marginal.log_all_orders(np.zeros((15, 15)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_islands": 3}, "n_islands must be at least 4"),
        ({"n_moves": -1}, "n_moves must be at least 0"),
        ({"method": "magic"}, "method must be 'annealed', 'smc' or 'exact'"),
    ],
)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        estimate(0, **{"method": "smc", **settings})


@pytest.mark.parametrize(
    ("counts", "n_components", "method", "sentence"),
    [
        ([[1, 2]], 0, "annealed", "n_components must be at least 1, got 0."),
        ([[10**15, 1]], 2, "annealed", "method='annealed' keeps a label for each token, and X has 1e+15 of them: thin"),
        ([[10**15, 1]], 2, "exact", "p(X) by enumeration needs more than"),
    ],
)
def test_what_cannot_be_done_is_said_at_once(counts: Any, n_components: int, method: str, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(sentence)):
        log_marginal_likelihood(counts, n_components, method=method)
