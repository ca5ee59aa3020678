"""Importance sampling of activations: where its proposals come from, large counts, and when it warns."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from likelihood_cases import LONG, MODEL, SHORT, repeated, truth, z_of_mean_ratio
from reference import log_probability_of_two

from partwise import GammaPoissonNMF
from partwise.datasets import load_counts
from partwise.errors import InaccurateWarning, InvalidInputError
from partwise.likelihood import auto, exact, importance, smc
from partwise.likelihood.averages import log_mean, pareto_k
from partwise.likelihood.importance import importance_draws
from partwise.likelihood.kernels import importance as kernels
from partwise.likelihood.kernels import mode as kernel_of_mode
from partwise.likelihood.kernels.mode import find_mode, narrowness, new_mode
from partwise.likelihood.kernels.rows import gather_row, row_buffers
from partwise.likelihood.problem import LikelihoodProblem


def _open_row(counts: Any, model: Any = MODEL) -> tuple[Any, Any, Any]:
    problem = LikelihoodProblem.build([counts], *model)
    row = row_buffers(problem.data.indptr, np.array([0]), problem.shape.size, problem.model.stop)
    size = gather_row(problem.model, 0, row)
    mode = new_mode(size.n_features, size.n_components)
    find_mode(row, size, row.shapes, mode)
    return row, size, mode


@pytest.mark.parametrize("scale", [1, 1000, 10**6])
def test_mode(scale: int) -> None:
    row, size, mode = _open_row(LONG * scale)
    weights, counts = row.weights[: size.n_features], row.counts[: size.n_features]
    allocated = weights * mode.shares / (weights @ mode.shares)[:, None]
    gradient = row.shapes + counts @ allocated - (size.total_shape + size.n_tokens) * mode.shares
    precision = np.diag(row.shapes) + (counts[:, None] * allocated).T @ allocated
    # What a further Newton step would gain is a fraction of a nat.
    assert gradient @ np.linalg.solve(precision, gradient) < 0.02
    np.testing.assert_allclose(mode.factor @ mode.factor.T, precision, rtol=1e-9)


def test_density_and_allocations_at_given_shares() -> None:
    row, size, mode = _open_row(LONG)
    weights, counts = row.weights[: size.n_features], row.counts[: size.n_features]
    shares = np.random.default_rng(1).dirichlet(np.ones(size.n_components))
    rates = weights @ shares
    assert kernel_of_mode._allocate(row, size, row.shapes, shares, mode) == pytest.approx(
        row.shapes @ np.log(shares) + counts @ np.log(rates), rel=1e-12
    )
    np.testing.assert_allclose(mode.allocated, weights * shares / rates[:, None], rtol=1e-12)
    np.testing.assert_allclose(mode.totals, counts @ mode.allocated, rtol=1e-12)


def test_mode_where_components_are_absent() -> None:
    """Every share is at least that of the prior alone: a step that overshoots must not end far below."""
    dictionary = np.random.default_rng(3).dirichlet(np.ones(6), size=4).T
    counts = np.round(4e7 * dictionary[:, 0] + 3e6 * dictionary[:, 1]).astype(int)
    row, size, mode = _open_row(counts, (dictionary, 1.0, 1e-6))
    assert (mode.shares >= 0.9 / (size.total_shape + size.n_tokens)).all()
    np.testing.assert_allclose(mode.shares * (size.total_shape + size.n_tokens), row.shapes + mode.totals, rtol=0.2)


def test_every_row_is_drawn_once_whatever_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = LikelihoodProblem.build(np.tile(LONG, (5, 1)), *MODEL)
    shell, drawn = sys.modules["partwise.likelihood.importance"], []
    whole, draw = importance_draws(problem, np.arange(5), 64), kernels.importance_rows

    def noted(model: Any, rows: Any, *others: Any) -> None:
        drawn.extend(rows)
        assert rows.size == others[-1].shape[0]
        draw(model, rows, *others)

    monkeypatch.setattr(shell, "importance_rows", noted)
    monkeypatch.setattr(shell, "_NONZEROS_AT_ONCE", LONG.size + 1)
    np.testing.assert_array_equal(importance_draws(problem, np.arange(5), 64), whole)
    assert drawn == list(range(5))


def test_narrowness() -> None:
    row, size, mode = _open_row(LONG)
    ahead = np.array([20.0, 1.0, 5.0])
    c = row.shapes + ahead
    spread = np.diag(c) - np.outer(c, c) / c.sum()
    wanted = np.linalg.eigvals(np.linalg.solve(mode.factor @ mode.factor.T, spread)).real.max()
    buffers = np.append(row.shapes, 70.0), np.append(ahead, 30.0)  # longer than the components that are open
    found, of_shapes, of_ahead = narrowness(size.n_components, *buffers, mode, 50)
    assert found == pytest.approx(wanted, rel=1e-6)
    assert of_shapes + of_ahead == pytest.approx(found)


@pytest.mark.parametrize("n_tokens", [10**3, 10**5, 10**7])
def test_gets_better_as_counts_grow(n_tokens: int) -> None:
    counts = np.array([[4, 3, 3]]) * n_tokens // 10
    model = (np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 0.8, 1.0 / n_tokens)
    result = importance(counts, *model, rng=0)
    wanted = log_probability_of_two(counts[0], model[0], [0.8, 0.8], [model[2]] * 2)
    assert abs(result.values[0] - wanted) < 4 * result.std_errors[0] + 1e-6
    assert result.ess[0] > 700
    assert result.pareto_k is not None
    assert result.pareto_k[0] < 0.5


def test_sees_a_density_that_is_a_little_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are two percent too large: the test of the mean sees it."""
    right = kernels._log_mixture

    def wrong(portions: Any, densities: Any, s: int) -> float:
        return right(portions, densities, s) - 0.02

    monkeypatch.setattr(kernels, "_log_mixture", wrong)
    module = sys.modules["partwise.likelihood.importance"]
    monkeypatch.setattr(module, "importance_rows", kernels.importance_rows.py_func)  # type: ignore[attr-defined]
    assert abs(z_of_mean_ratio(repeated(importance, LONG, 400, rng=1, n_draws=1024).values, truth(LONG))) > 4


def test_more_draws_do_not_change_the_first() -> None:
    problem = LikelihoodProblem.build([LONG, SHORT], *MODEL, rng=5)
    rows = np.array([1, 0])
    first, rest = importance_draws(problem, rows, 128), importance_draws(problem, rows, 64, first_draw=128)
    np.testing.assert_array_equal(importance_draws(problem, rows, 192), np.hstack((first, rest)))


def test_too_few_draws() -> None:
    with pytest.raises(InvalidInputError, match="n_draws must be at least 128, got 100"):
        importance([SHORT], *MODEL, n_draws=100)


def test_warns_of_heavy_tails() -> None:
    rng = np.random.default_rng(0)
    dictionary = rng.dirichlet(np.full(40, 0.5), size=6).T
    counts = rng.multinomial(60, dictionary @ rng.dirichlet(np.full(6, 0.3)))
    with pytest.warns(InaccurateWarning, match="^Row 0 of X and 4 more cannot be trusted: .* tail index"):
        importance(np.tile(counts, (5, 1)), dictionary, 1e-3, 1e-4, rng=0)


@pytest.mark.parametrize("index", [0.2, 0.5, 0.9])
def test_pareto_index(index: float) -> None:
    draws = np.random.default_rng(0).pareto(1.0 / index, size=(200, 1024)) + 1.0
    # Shrunk towards 1/2, by a tenth; the mean of 200 is known to 0.012.
    assert pareto_k(np.log(draws)).mean() == pytest.approx(index, abs=0.08)


def test_pareto_index_of_equal_terms() -> None:
    assert pareto_k(np.zeros((1, 200)))[0] == -np.inf


def test_errors_of_few_skewed_terms() -> None:
    """Of 2,000 means of 12 log-normal terms, two errors cover 94%; without widening they cover 85%."""
    logs = np.random.default_rng(0).normal(0.0, 0.8, size=(2000, 12))
    values, errors, _ = log_mean(logs, log_normal=True)
    assert (np.abs(values - 0.32) <= 2 * errors).mean() > 0.93
    terms = np.exp(logs)
    plain = terms.std(axis=1, ddof=1) / terms.mean(axis=1) / np.sqrt(12)
    assert (np.abs(values - 0.32) <= 2 * plain).mean() < 0.9


def test_counts_below_two_to_the_24() -> None:
    counts = np.random.default_rng(0).integers(0, 2**24, (6, 5))
    for n_components in (2, 4):
        model = GammaPoissonNMF(n_components, inference="vem", random_state=0, max_iter=200, tol=1.0).fit(counts)
        began = time.process_time()
        result = model.log_likelihood(counts)
        assert time.process_time() - began < 20  # compilation included
        assert (result.std_errors <= 0.1).all()


def test_reads_of_a_cell_line(data_folder: Path) -> None:
    counts = load_counts("mcf7_rnaseq").matrix.tocsr()[:3].toarray()
    rng = np.random.default_rng(0)
    profiles = (counts[rng.integers(0, 3, 10)] + 1) * rng.gamma(3.0, size=(10, counts.shape[1]))
    dictionary = (profiles / profiles.sum(axis=1, keepdims=True)).T
    auto(counts[:1], dictionary, 1.0, 1e-6, rng=0)  # compilation
    began = time.process_time()
    result = auto(counts, dictionary, 1.0, 1e-6, rng=0)
    assert time.process_time() - began < 3.0
    assert (result.std_errors <= 0.1).all()


def test_auto_chooses_by_counted_cost() -> None:
    """A row of few tokens goes to particles, the same with many to importance draws; exact is the judge of both."""
    dictionary = np.random.default_rng(1).dirichlet(np.ones(5), size=3).T
    rows = np.array([[9, 5, 7, 3, 8], [1800, 1000, 1400, 600, 1600]])
    result = auto(rows, dictionary, 1.0, 1e-3, rng=0, max_cost=0.0)
    wanted = exact(rows, dictionary, 1.0, 1e-3).values
    assert (np.abs(result.values - wanted) <= 4 * result.std_errors).all()
    assert result.ess[0] <= 12 * 32
    assert result.ess[1] > 12 * 32


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_interrupt_takes_effect_within_a_second() -> None:
    dictionary = np.random.default_rng(0).dirichlet(np.ones(8), size=6).T
    smc(np.ones((1, 8), int), dictionary, 1.0, 1.0, rng=0)  # compilation
    pressed: list[float] = []

    def press() -> None:
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.5, press)
    timer.start()
    # A shell starts background jobs with this signal ignored: the test would then run for minutes.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            smc(np.full((1, 8), 10**6), dictionary, 1.0, 1.0, rng=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - pressed[0] < 1.0
    timer.join()


def test_absent_components_of_large_counts() -> None:
    """Two of three components all but absent: the posterior is cut off at 0."""
    dictionary = np.random.default_rng(3).dirichlet(np.ones(6), size=3).T
    counts = np.round(4e6 * dictionary[:, 0] + 300 * dictionary[:, 1]).astype(int)
    result = importance([counts], dictionary, 1.0, 1e-6, rng=0)
    assert result.ess[0] > 300
    assert result.pareto_k is not None
    assert result.pareto_k[0] < 0.5
    many = importance([counts], dictionary, 1.0, 1e-6, rng=1, n_draws=2**16)
    assert abs(result.values[0] - many.values[0]) < 4 * result.std_errors[0]
