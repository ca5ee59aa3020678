"""Exact EM climbs, and every Monte Carlo variant ends where exact EM from the same start ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partwise import GammaPoissonNMF
from partwise.core.keys import Key
from partwise.gamma_poisson import GammaPoissonModel
from partwise.likelihood import exact

TRUE = np.array([[0.638, 0.075], [0.009, 0.568], [0.044, 0.126], [0.309, 0.231]])
START = np.array([[3.0, 1.0, 0.4, 2.0], [0.5, 2.0, 0.6, 1.0]])
RATE = np.array([1.0, 2.0])
SHAPE = np.array([1.0, 0.7])


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    """120 samples of about 10 counts."""
    return GammaPoissonModel(5 * TRUE, SHAPE, 1.0).simulate(Key(3), 120).toarray()


def log_likelihood(X: Any, model: GammaPoissonNMF) -> float:
    return exact(X, model.components_.T, model.shape_, model.rate_).total


def fit(X: Any, inference: str, **parameters: Any) -> GammaPoissonNMF:
    settings = {"shape": SHAPE, "rate": RATE, "init": START, "random_state": 0, **parameters}
    return GammaPoissonNMF(2, inference=inference, **settings).fit(X)


@pytest.fixture(scope="module")
def optimum(counts: np.ndarray) -> GammaPoissonNMF:
    return fit(counts, "exact-em", max_iter=400, tol=0.0)


@pytest.mark.parametrize("shape", [SHAPE, "estimate"])
@pytest.mark.parametrize("hidden", [0.0, 0.2])
def test_exact_em_never_falls(counts: np.ndarray, shape: Any, hidden: float) -> None:
    X = np.where(np.random.default_rng(0).random(counts.shape) < hidden, np.nan, counts)
    model = fit(X, "exact-em", shape=shape, max_iter=60, tol=0.0)
    objective = model.trace_["objective"]
    # Values of size 1,000, to rounding.
    assert np.all(np.diff(objective) > -1e-9)
    assert objective[-1] > objective[0] + 1
    assert log_likelihood(X, model) >= objective[-1] - 1e-9


def test_even_start_is_stationary(counts: np.ndarray) -> None:
    even = np.tile(counts.mean(axis=0) / 2, (2, 1))
    model = fit(counts, "exact-em", shape=1.0, rate=1.0, init=even, max_iter=5, tol=0.0)
    np.testing.assert_allclose(model.components_, even, rtol=1e-9)


class Iterates:
    """Keeps the dictionaries after a number of iterations."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.dictionaries: list[np.ndarray] = []

    def __call__(self, iteration: int, state: Any, trace: Any) -> None:
        if iteration > self.after:
            self.dictionaries.append(state.dictionary.copy())


@pytest.mark.parametrize("e_step", ["sampled", "rao-blackwell"])
@pytest.mark.parametrize("inference", ["mcem-c", "mcem-h", "mcem-ch"])
def test_monte_carlo_em_ends_at_the_optimum(
    counts: np.ndarray, optimum: GammaPoissonNMF, inference: str, e_step: str
) -> None:
    iterates = Iterates(after=100)
    model = fit(
        counts, inference, e_step=e_step, draws_per_iter=15, burn_in_per_iter=5, max_iter=300, callbacks=[iterates]
    )
    kept = np.array(iterates.dictionaries)
    # Error bars of its own: the spread of ten batches. |t| with 9 degrees of freedom exceeds 8 once in 45,000, and
    # there are 8 entries in each of 6 variants: a false alarm in 900 runs. Entries near 0 also show the noise's bias.
    batches = kept.reshape(10, -1, *kept.shape[1:]).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(10)
    assert np.all(np.abs(kept.mean(axis=0) - optimum.components_.T) < 8 * error + 2e-3)
    # The gain that it reports is that of the exact log-likelihood, within its own error.
    objective, spread = model.trace_["objective"], model.trace_["objective_error"]
    start = exact(counts, START.T, SHAPE, RATE).total
    before_last = exact(counts, kept[-2], SHAPE, RATE).total
    assert abs((objective[-1] - objective[0]) - (before_last - start)) < 5 * spread[-1]
    assert spread[-1] < 0.5 * (before_last - start)


def test_error_bars_would_show_a_wrong_step(counts: np.ndarray, optimum: GammaPoissonNMF) -> None:
    # The other shape in the M-step moves the dictionary by far more than the error bars of the test above.
    wrong = fit(counts, "exact-em", shape=1.1 * SHAPE, max_iter=400, tol=0.0)
    assert np.abs(wrong.components_ - optimum.components_).max() > 0.1


@pytest.mark.parametrize(
    ("inference", "parameters", "loss"),
    [
        ("saem", {"max_iter": 600}, 0.05),
        ("saem", {"max_iter": 600, "e_step": "sampled"}, 0.1),
        ("online", {"max_iter": 600, "batch_size": 40}, 0.5),
        ("thorough", {"tol": 1e-6}, 0.25),
    ],
)
def test_stochastic_em_ends_at_the_optimum(
    counts: np.ndarray, optimum: GammaPoissonNMF, inference: str, parameters: Any, loss: float
) -> None:
    best = log_likelihood(counts, optimum)
    start = exact(counts, START.T, SHAPE, RATE).total
    assert best > start + 10
    model = fit(counts, inference, **parameters)
    assert best - loss < log_likelihood(counts, model) < best + 1e-6


def test_auto_reports_its_gain_with_its_error(counts: np.ndarray) -> None:
    model = fit(counts, "thorough", tol=1e-6)
    objective, error = model.trace_["objective"], model.trace_["objective_error"]
    sampled = np.flatnonzero(np.isfinite(error))
    reached = objective[sampled[-1]] - objective[sampled[0]]
    start = exact(counts, START.T, SHAPE, RATE).total
    # The first phase, variational EM, starts from the same dictionary and gains on top.
    assert reached < log_likelihood(counts, model) - start + 5 * error[-1]
    assert model.status_.code == "converged"
    assert model.trace_["remaining_gain"][-1] * counts.sum() <= 0.05


@pytest.mark.parametrize("e_step", ["sampled", "rao-blackwell"])
@pytest.mark.parametrize("hidden", [0.0, 0.3])
def test_rows_of_mcem_c_sum_to_the_means_at_every_iteration(counts: np.ndarray, e_step: str, hidden: float) -> None:
    """GaP, Eq. 49 (and for unequal a/b: Σ_k (a_k / b_k) w_fk is the mean of feature f)."""
    X = np.where(np.random.default_rng(0).random(counts.shape) < hidden, np.nan, counts)
    iterates = Iterates(after=0)
    fit(X, "mcem-c", e_step=e_step, draws_per_iter=3, burn_in_per_iter=2, max_iter=20, callbacks=[iterates])
    expected = np.array(iterates.dictionaries) @ (SHAPE / RATE)
    if hidden:
        # Then the missing cells are imputed, and the equation is no longer one.
        assert not np.allclose(expected, counts.mean(axis=0), atol=1e-10)
    else:
        np.testing.assert_allclose(expected, np.tile(counts.mean(axis=0), (20, 1)), rtol=1e-10)


@pytest.mark.parametrize("inference", ["mcem-c", "saem", "vem", "exact-em", "thorough", "online"])
def test_scale_of_the_rates_is_arbitrary(counts: np.ndarray, inference: str) -> None:
    """GaP, Eq. 32: columns of the dictionary take over the scale of the rates, here powers of 2, to the bit."""
    scale = np.array([4.0, 0.5])
    settings = (
        {"max_iter": 30, "tol": 0.0, "draws_per_iter": 5, "burn_in_per_iter": 5} if inference != "thorough" else {}
    )
    one = fit(counts, inference, **settings)
    other = fit(counts, inference, rate=RATE * scale, init=START * scale[:, None], **settings)
    np.testing.assert_allclose(other.components_, one.components_ * scale[:, None], rtol=1e-9)
    assert log_likelihood(counts, other) == pytest.approx(log_likelihood(counts, one), abs=1e-8)


@pytest.mark.parametrize("inference", ["mcem-c", "mcem-h", "mcem-ch"])
def test_why_only_mcem_c_is_fast_where_counts_are_over_dispersed(inference: str) -> None:
    """With one component MCEM-C is there at once; the others keep c / (a + c) = 1 - mean / variance of the distance."""
    shape, rate, start = 0.5, 2.0, 3.0
    X = GammaPoissonModel(np.array([[30.0], [10.0]]), shape, rate).simulate(Key(0), 200)
    mean = X.sum() / 200
    model = GammaPoissonNMF(
        1, shape=shape, rate=rate, inference=inference, init=[[start, start]], max_iter=1, draws_per_iter=200
    )
    norm = model.set_params(random_state=0).fit(X).components_.sum()
    top = mean * rate / shape
    kept = 0.0 if inference == "mcem-c" else mean / (shape + mean)
    # Runs with five seeds spread by 2.5e-4: six standard errors.
    assert (norm - top) / (2 * start - top) == pytest.approx(kept, abs=1.5e-3)
