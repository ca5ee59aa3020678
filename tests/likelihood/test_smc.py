"""Sequential Monte Carlo: unbiased for any settings, and the test that says so sees planted mistakes."""

from __future__ import annotations

import inspect
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from likelihood_cases import DICTIONARY, LONG, MODEL, RATE, SHAPE, SHORT, repeated, truth, z_of_mean_ratio
from reference import log_probability_of_two

from partwise.errors import InaccurateWarning, InvalidInputError
from partwise.likelihood import annealed, auto, exact, smc
from partwise.likelihood.kernels import smc as kernels

# Every z below is looked at once, with a fixed seed: |z| > 4 is a false alarm in 1 of 16,000 seeds.
STEPPED = np.array([2, 1, 1, 1, 1, 1])
FEW = {"n_draws": 8, "n_islands": 2}


@pytest.mark.parametrize(("shapes", "n_steps"), [([0.5, 2.0, 1e-9], 0), ([0.2, 0.1, 1e-9], 3), ([0.1, 0.2, 1e-9], 3)])
def test_small_shapes_are_reached_in_steps(shapes: list[float], n_steps: int) -> None:
    # Two components are open: from a sum of 1 down to 2 x 0.1, each step half of the one before.
    assert kernels._count_shape_steps(np.array(shapes), 2) == n_steps


@pytest.mark.parametrize("lookahead", [None, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("counts", [SHORT, LONG], ids=["short", "long"])
def test_unbiased(counts: Any, lookahead: float | None) -> None:
    # Four particles, resampled and moved whenever there is a look at the weights.
    result = repeated(smc, counts, 40_000, rng=1, lookahead=lookahead, resample_below=1.0, **FEW)
    assert abs(z_of_mean_ratio(result.values, truth(counts))) < 4


@pytest.mark.parametrize("settings", [{"n_stages": 1}, {"n_draws": 14}, {"n_draws": 256, "n_islands": 4}], ids=str)
def test_unbiased_with_other_numbers(settings: dict[str, Any]) -> None:
    # One look; seven particles, which do not divide a power of two; islands that fill the lanes.
    result = repeated(smc, LONG, 10_000, rng=2, resample_below=1.0, **{**FEW, **settings})
    assert abs(z_of_mean_ratio(result.values, truth(LONG))) < 4


@pytest.mark.parametrize("estimate", [smc, annealed])
def test_rows_too_long_for_memory(estimate: Any) -> None:
    rows = np.array([SHORT, SHORT, SHORT])
    rows[1, 0] = 10**15
    with pytest.raises(InvalidInputError, match=r"^Row 1 of X has 1e\+15 tokens, and \w+ would need \S+ TB for"):
        estimate(rows, *MODEL, rng=0)


def test_rows_that_would_take_hours() -> None:
    rows = np.array([SHORT, SHORT, SHORT])
    rows[2, 0] = 10**7
    for estimate in (partial(smc, n_draws=10**6, n_islands=500_000), partial(annealed, n_temperatures=100_000)):
        with pytest.raises(InvalidInputError, match=r"^Row 2 of X has 1e\+07 tokens: \w+ would take about \S+ hours"):
            estimate(rows, *MODEL, rng=0)


def test_rows_too_long_for_particles_are_drawn_instead() -> None:
    """Sums of 10^15 logarithms are known to some nats, and the error says so."""
    rows = np.array([SHORT, SHORT, SHORT])
    rows[1, 0] = 10**15
    with pytest.warns(InaccurateWarning, match="Row 1 of X"):
        result = auto(rows, *MODEL, rng=0, max_cost=0.0)
    assert np.isfinite(result.values).all()
    assert result.std_errors[1] > 1.0


@pytest.mark.parametrize("shape", [0.05, 1e-3])
def test_unbiased_where_shapes_are_reached_in_steps(shape: float) -> None:
    model = (DICTIONARY, shape, RATE)
    result = repeated(smc, STEPPED, 40_000, model, rng=3, n_draws=64, n_islands=2)
    assert abs(z_of_mean_ratio(result.values, truth(STEPPED, model))) < 4


def _planted(monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any) -> float:
    """The z of 3,000 runs with one function replaced; of the rest, only the loop over rows is not compiled."""
    monkeypatch.setattr(kernels, name, wrong)
    # The name smc is that of the function, in the package.
    monkeypatch.setattr(sys.modules["partwise.likelihood.smc"], "smc_rows", kernels.smc_rows.py_func)  # type: ignore[attr-defined]
    result = repeated(smc, LONG, 3_000, rng=4, resample_below=1.0, n_draws=32, n_islands=2)
    return z_of_mean_ratio(result.values, truth(LONG))


def test_nothing_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tests below do to plant mistakes is itself harmless."""
    assert abs(_planted(monkeypatch, "_move", kernels._move)) < 4


def test_sees_a_scaled_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels.log_mean_weight

    def wrong(*arguments: Any) -> tuple[float, float]:
        log_mean, size = right(*arguments)
        return log_mean + 0.01, size

    assert abs(_planted(monkeypatch, "log_mean_weight", wrong)) > 4


def test_sees_weights_that_outlive_resampling(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels._move

    def wrong(*arguments: Any) -> None:
        weights = arguments[-1].log_weights.copy()
        right(*arguments)
        arguments[-1].log_weights[:] = weights

    assert abs(_planted(monkeypatch, "_move", wrong)) > 4


def test_sees_moves_that_forget_what_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels._move

    def wrong(stream: Any, n_done: int, row: Any, n_open: int, n_particles: int, room: Any) -> None:
        room.shapes[:n_open] = row.shapes[:n_open]
        right(stream, n_done, row, n_open, n_particles, room)
        room.shapes[:n_open] += room.ahead[:n_open]

    assert abs(_planted(monkeypatch, "_move", wrong)) > 4


def test_sees_moves_that_take_no_token_away(monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels._move

    def wrong(*arguments: Any) -> None:
        before = arguments[-1].counts.copy()
        right(*arguments)
        arguments[-1].counts[:] += before

    assert abs(_planted(monkeypatch, "_move", wrong)) > 4


@pytest.mark.slow
def test_sees_moves_at_times_that_depend_on_the_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule of every batch found by itself, without a pilot: biased where two particles decide."""
    source = inspect.getsource(kernels.smc_rows.py_func).removeprefix("@inner_kernel\n")  # type: ignore[attr-defined]
    assert source.count("if batch < 0:") == 1
    namespace = dict(vars(kernels))
    exec(source.replace("if batch < 0:", "if batch > -2:"), namespace)
    monkeypatch.setattr(sys.modules["partwise.likelihood.smc"], "smc_rows", namespace["smc_rows"])
    settings: dict[str, Any] = {"n_draws": 4, "n_islands": 2, "resample_below": 0.8, "lookahead": 0.0}
    planted = repeated(smc, LONG, 100_000, rng=3, **settings)
    assert abs(z_of_mean_ratio(planted.values, truth(LONG))) > 4
    monkeypatch.undo()
    right = repeated(smc, LONG, 100_000, rng=3, **settings)
    assert abs(z_of_mean_ratio(right.values, truth(LONG))) < 4


def test_exact_where_nothing_is_open() -> None:
    # Each feature has one owner.
    result = smc([[3, 0, 2], [0, 0, 0]], np.eye(3) * 0.7, SHAPE, RATE, rng=0)
    np.testing.assert_allclose(result.values, exact([[3, 0, 2], [0, 0, 0]], np.eye(3) * 0.7, SHAPE, RATE).values)
    np.testing.assert_array_equal(result.std_errors, 0.0)


def test_more_islands_do_not_change_the_first() -> None:
    from partwise.likelihood.problem import LikelihoodProblem
    from partwise.likelihood.smc import smc_islands

    problem = LikelihoodProblem.build([LONG, SHORT], *MODEL, rng=5)
    settings = kernels.ParticleSettings(32, kernels.OWN_STAGES, kernels.OWN_LOOKAHEAD, 0.9)
    rows = np.array([1, 0])
    together, _ = smc_islands(problem, rows, 8, settings)
    first, _ = smc_islands(problem, rows, 4, settings)
    rest, _ = smc_islands(problem, rows, 4, settings, first_island=4)
    np.testing.assert_array_equal(together, np.hstack((first, rest)))
    other_order, _ = smc_islands(problem, rows[::-1], 8, settings)
    np.testing.assert_array_equal(other_order[::-1], together)


def test_a_hundred_thousand_tokens() -> None:
    counts = np.array([[40_000, 25_000, 35_000]])
    model = (np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 0.8, 1e-5)
    result = smc(counts, *model, rng=0, n_draws=512, n_islands=16)
    wanted = log_probability_of_two(counts[0], model[0], [0.8, 0.8], [1e-5, 1e-5])
    assert abs(result.values[0] - wanted) < 5 * result.std_errors[0]
    assert result.std_errors[0] < 0.5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_islands": 1}, "n_islands = 1"),
        ({"n_draws": 20}, "n_draws = 20"),
        ({"lookahead": 1.5}, "lookahead"),
        ({"lookahead": float("nan")}, "lookahead"),
        ({"n_stages": 0}, "n_stages"),
        ({"resample_below": 1.1}, "resample_below"),
    ],
    ids=str,
)
def test_bad_settings_get_one_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        smc([SHORT], *MODEL, **settings)
    assert str(caught.value).count(". ") == 0
