"""The mean of p-hat / p over many runs: 1 for estimators that are unbiased, and measured for those that are not."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest
from likelihood_cases import LONG, MODEL, SHORT, repeated, truth, z_of_mean_ratio

from partwise.errors import InaccurateWarning
from partwise.likelihood import annealed, direct_sampling, harmonic_mean, importance, left_to_right
from partwise.likelihood.kernels import annealed as kernels

# Every z below is looked at once, with a fixed seed: |z| > 4 is a false alarm in 1 of 16,000 seeds. `smc` has a file
# of its own.
SPARSE = (np.array([[0.5, 0.3], [0.3, 0.5], [0.2, 0.1], [0.1, 0.4]]), 0.2, 0.5)
REPEATS = np.array([4, 3, 4, 3])


def _masked(counts: Any) -> Any:
    return np.where(np.arange(counts.size) == 2, np.nan, counts)


CASES = {
    "direct": (direct_sampling, SHORT, MODEL, 60_000, {"n_draws": 20}),
    "direct, sparse": (direct_sampling, np.array([2, 0, 1, 1]), SPARSE, 80_000, {"n_draws": 20}),
    "direct, a missing cell": (direct_sampling, _masked(SHORT), MODEL, 60_000, {"n_draws": 20}),
    "annealed": (annealed, SHORT, MODEL, 60_000, {"n_draws": 4, "n_temperatures": 4}),
    "annealed, sparse": (annealed, REPEATS, SPARSE, 40_000, {"n_draws": 8, "n_temperatures": 8}),
    "annealed, long": (annealed, LONG, MODEL, 20_000, {"n_draws": 32, "n_temperatures": 4}),
    "annealed, a missing cell": (annealed, _masked(SHORT), MODEL, 60_000, {"n_draws": 4, "n_temperatures": 4}),
    "importance": (importance, LONG, MODEL, 4_000, {"n_draws": 128}),
    "importance, sparse": (importance, REPEATS, SPARSE, 4_000, {"n_draws": 128}),
    "importance, a missing cell": (importance, _masked(LONG), MODEL, 4_000, {"n_draws": 128}),
    "annealed, one step": (annealed, LONG, MODEL, 20_000, {"n_draws": 64, "n_temperatures": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_unbiased(case: str) -> None:
    estimator, counts, model, n_runs, settings = CASES[case]
    with warnings.catch_warnings():  # of importance: a few of thousands of runs look as if they had heavy tails
        warnings.simplefilter("ignore", InaccurateWarning)
        values = repeated(estimator, counts, n_runs, model, rng=1, **settings).values
    right = truth(counts, model)
    assert abs(z_of_mean_ratio(values, right)) < 4
    # The power of the line above: estimates that are two percent too large or too small would fail.
    assert z_of_mean_ratio(values + np.log(1.02), right) > 4
    assert z_of_mean_ratio(values + np.log(0.98), right) < -4


def test_sees_a_prior_that_is_a_little_off(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["partwise.likelihood.direct_sampling"]
    right = module.activation_draws

    def wrong(model: Any, *rest: Any) -> None:
        right(model._replace(shape=1.05 * model.shape), *rest)

    monkeypatch.setattr(module, "activation_draws", wrong)
    values = repeated(direct_sampling, SHORT, 60_000, rng=1, n_draws=20).values
    assert abs(z_of_mean_ratio(values, truth(SHORT))) > 4


def _planted(monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any) -> float:
    """The z of 4,000 runs with one function replaced; of the rest, only the loop over rows is not compiled."""
    monkeypatch.setattr(kernels, name, wrong)
    # The name annealed is that of the function, in the package.
    loop = kernels.annealed_rows.py_func  # type: ignore[attr-defined]
    monkeypatch.setattr(sys.modules["partwise.likelihood.annealed"], "annealed_rows", loop)
    values = repeated(annealed, REPEATS, 4_000, SPARSE, rng=2, n_draws=16, n_temperatures=5).values
    return z_of_mean_ratio(values, truth(REPEATS, SPARSE))


def test_nothing_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests below do to plant mistakes is itself harmless."""
    assert abs(_planted(monkeypatch, "_move", kernels._move)) < 4


def test_sees_weights_from_after_the_move(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(stream: Any, n_open: int, n_tokens: int, room: Any) -> None:
        before = room.log_gammas.copy()
        kernels_move(stream, n_open, n_tokens, room)
        room.log_gammas[:] = before

    kernels_move = kernels._move
    assert abs(_planted(monkeypatch, "_move", wrong)) > 4


def test_sees_moves_for_another_target(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(stream: Any, n_open: int, n_tokens: int, room: Any) -> None:
        shapes = room.shapes.copy()
        room.shapes[:n_open] *= 2.0
        kernels_move(stream, n_open, n_tokens, room)
        room.shapes[:] = shapes
        kernels.log_gamma_sums(room.shapes, room.ahead, room.counts, n_open, room.table, room.log_gammas)

    kernels_move = kernels._move
    assert abs(_planted(monkeypatch, "_move", wrong)) > 4


def test_sees_a_path_without_its_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(row: Any, n_open: int, share: float, room: Any) -> None:
        set_shapes(row, n_open, min(share, 0.9), room)

    set_shapes = kernels._set_shapes
    assert abs(_planted(monkeypatch, "_set_shapes", wrong)) > 4


@pytest.mark.parametrize("conditionals", ["sampled", "exact"])
def test_left_to_right_is_biased(conditionals: str) -> None:
    """Averages over one chain are correlated from feature to feature: 14% too large with 10 draws, 10% with 100."""
    right = truth(REPEATS, SPARSE)
    for n_draws, n_runs, bias in [(10, 20_000, 1.14), (100, 8_000, 1.10)]:
        values = repeated(
            left_to_right, REPEATS, n_runs, SPARSE, rng=1, n_draws=n_draws, conditionals=conditionals
        ).values
        ratios = np.exp(values - right)
        error = ratios.std(ddof=1) / np.sqrt(n_runs)
        assert ratios.mean() > 1.0 + 6.0 * error
        assert abs(ratios.mean() - bias) < 4.0 * error + 0.005


def test_left_to_right_on_a_long_row_is_low() -> None:
    """Where the chain is slow or inner draws are few, a typical log p-hat is nats too low, and its error too small."""
    right = truth(LONG)
    for conditionals, low, high in [("sampled", -1.5, -0.7), ("exact", -0.3, -0.05)]:
        result = repeated(left_to_right, LONG, 1_000, rng=3, n_draws=100, conditionals=conditionals)
        assert low < (result.values - right).mean() < high
        assert result.values.std(ddof=1) > 1.5 * result.std_errors.mean()


def test_harmonic_mean_is_biased_upwards() -> None:
    """By 16% for six tokens and by a factor of 10,000 for 49, with 1,000 draws; more draws hardly help."""
    ratios = np.exp(repeated(harmonic_mean, SHORT, 1_000, rng=1).values - truth(SHORT))
    assert 1.1 < ratios.mean() < 1.25
    for n_draws, n_runs, low, high in [(100, 500, 10.0, 11.5), (1_000, 200, 9.0, 10.0), (10_000, 50, 8.0, 9.0)]:
        result = repeated(harmonic_mean, LONG, n_runs, rng=1, n_draws=n_draws)
        bias = result.values.mean() - truth(LONG)
        assert low < bias < high
        assert bias > 5.0 * result.std_errors.mean()
