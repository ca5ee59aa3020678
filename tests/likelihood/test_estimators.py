"""What all estimators of the likelihood have in common: edge cases, missing cells, streams, sentences for mistakes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from likelihood_cases import DICTIONARY, LONG, MODEL, RATE, SHAPE, SHORT
from scipy.special import gammaln
from scipy.stats import nbinom

from partwise.errors import ImpossibleRowsWarning, InaccurateWarning, InvalidInputError
from partwise.likelihood import annealed, auto, direct_sampling, exact, harmonic_mean, importance, left_to_right, smc
from partwise.likelihood.problem import LogLikelihood

UNBIASED = [direct_sampling, smc, annealed, importance]
SAMPLED = [*UNBIASED, harmonic_mean, left_to_right]
ALL = [*SAMPLED, auto]


def run(estimator: Any, X: Any, *model: Any, **settings: Any) -> LogLikelihood:
    """Any estimator, from one seed; `auto` without its short cut."""
    if estimator is auto:
        settings = {"max_cost": 0.0, **settings}
    with warnings.catch_warnings():
        if estimator is importance:  # it needs some draws, and says where these cannot be trusted
            settings = {**settings, "n_draws": max(settings.get("n_draws", 0), 128)}
            warnings.simplefilter("ignore", InaccurateWarning)
        result: LogLikelihood = estimator(X, *model, rng=1, **settings)
    for numbers in (result.values, result.std_errors, result.ess):
        assert numbers.shape == (len(X),)
        assert not np.isnan(numbers).any()
    assert (result.std_errors >= 0.0).all()
    assert (result.ess >= 0.0).all()
    return result


def close(found: LogLikelihood, wanted: Any, n_errors: float = 5.0) -> bool:
    """Within so many standard errors, and rounding."""
    return bool((np.abs(found.values - wanted) <= n_errors * found.std_errors + 1e-9).all())


@pytest.mark.parametrize("estimator", ALL)
def test_near_the_truth(estimator: Any) -> None:
    # Biased ones are only asked for the first digits; their own tests measure the bias.
    X = np.stack((SHORT, SHORT[::-1], 0 * SHORT))
    settings = {"n_draws": 20_000} if estimator is direct_sampling else {}
    result = run(estimator, X, *MODEL, **settings)
    wanted = exact(X, *MODEL).values
    if estimator in (harmonic_mean, left_to_right):
        assert (np.abs(result.values - wanted) < 0.5).all()
    else:
        assert close(result, wanted)
        assert (result.std_errors < 0.1).all()


@pytest.mark.parametrize("estimator", ALL)
def test_empty_row(estimator: Any) -> None:
    wanted = -np.log1p(DICTIONARY.sum(axis=0) / RATE) @ SHAPE
    result = run(estimator, np.zeros((2, 6), int), *MODEL)
    if estimator is harmonic_mean:
        assert (np.abs(result.values - wanted) < 1.0).all()
    else:
        assert close(result, wanted)
    if estimator not in (direct_sampling, harmonic_mean):
        np.testing.assert_array_equal(result.std_errors, 0.0)


@pytest.mark.parametrize("estimator", ALL)
def test_one_component_is_a_negative_multinomial(estimator: Any) -> None:
    weights, shape, rate = DICTIONARY[:, :1] + 0.1, 0.7, 0.4
    length = SHORT.sum()
    total = weights.sum()
    wanted = nbinom.logpmf(length, shape, rate / (rate + total)) + gammaln(length + 1)
    wanted += SHORT @ np.log(weights[:, 0] / total) - gammaln(SHORT + 1).sum()
    result = run(estimator, [SHORT], weights, shape, rate)
    if estimator is harmonic_mean:
        assert abs(result.values[0] - wanted) < 1.5
    else:
        assert close(result, wanted)
    if estimator in (smc, annealed, auto):
        assert result.std_errors[0] == 0.0


@pytest.mark.parametrize("estimator", ALL)
def test_impossible_rows(estimator: Any) -> None:
    dictionary = DICTIONARY.copy()
    dictionary[1] = 0.0
    rows = np.stack((SHORT, SHORT * [1, 0, 1, 1, 1, 1]))
    # Others are for those who know their dictionary: pruning asks them whether it can do without a part.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ImpossibleRowsWarning)
        result = run(estimator, rows, dictionary, SHAPE, RATE)
    told = (
        "Row 0 of X has a count of feature 1, which no part holds, so its log-likelihood is -inf: leave the feature"
        " out, or give it some weight in the dictionary, as background= of log_likelihood does."
    )
    assert [str(each.message) for each in caught] == ([told] if estimator is auto else [])
    assert result.values[0] == -np.inf
    assert result.std_errors[0] == 0.0
    assert np.isfinite(result.values[1])


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize("shape", [1e-8, 1e8])
@pytest.mark.parametrize("rate", [1e-8, 1e8])
def test_extreme_parameters(estimator: Any, shape: float, rate: float) -> None:
    # No NaN and no warning (checked by `run` and by the runner); the good ones are also right.
    X = np.stack((SHORT, 0 * SHORT, LONG))
    result = run(estimator, X, DICTIONARY, shape, rate)
    wanted = exact(X, DICTIONARY, shape, rate).values
    rows = slice(None) if shape > 1.0 else slice(2)  # LONG has separate explanations that no shape of 1e-8 lets mix
    if estimator in (smc, auto, annealed):
        np.testing.assert_allclose(
            result.values[rows], wanted[rows], rtol=1e-12, atol=float(6 * result.std_errors[rows].max() + 1e-6)
        )
    if estimator is direct_sampling and (shape, rate) == (1e8, 1e8):
        assert close(result, wanted)


@pytest.mark.parametrize("estimator", ALL)
def test_long_rows_do_not_underflow(estimator: Any) -> None:
    settings: dict[str, Any] = {
        smc: {"n_draws": 32, "n_islands": 4},
        auto: {"max_draws": 512, "std_error": 10.0},
        annealed: {"n_draws": 10, "n_temperatures": 10},
        left_to_right: {"n_draws": 10},
    }.get(estimator, {"n_draws": 20})
    counts = 10_000 * DICTIONARY.sum(axis=1) / DICTIONARY.sum() + 1
    result = run(estimator, [counts.astype(int)], DICTIONARY, SHAPE, 1e-4 * RATE, **settings)
    assert np.isfinite(result.values).all()
    assert (result.values < 0.0).all()


@pytest.mark.parametrize("estimator", ALL)
def test_missing_cells_are_dropped_columns(estimator: Any) -> None:
    table = np.stack((SHORT, LONG // 2)).astype(float)
    table[:, [1, 4]] = np.nan
    kept = [0, 2, 3, 5]
    found = run(estimator, table, *MODEL)
    wanted = run(estimator, table[:, kept].astype(int), DICTIONARY[kept], SHAPE, RATE)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-9)
    np.testing.assert_allclose(found.std_errors, wanted.std_errors, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("estimator", ALL)
def test_rows_with_other_missing_cells(estimator: Any) -> None:
    table = np.stack((SHORT, SHORT, SHORT)).astype(float)
    table[1, 0] = table[2, 3] = np.nan
    result = run(estimator, table, *MODEL)
    wanted = exact(table, *MODEL).values
    if estimator in (harmonic_mean, left_to_right):
        assert (np.abs(result.values - wanted) < 1.5).all()
    else:
        assert close(result, wanted)


@pytest.mark.parametrize("estimator", ALL)
def test_same_bits_for_any_number_of_threads(estimator: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0 * rng.random((300, 6)))
    settings: dict[str, Any] = {smc: {}, auto: {"std_error": 0.01}}.get(estimator, {"n_draws": 20})
    one = run(estimator, X, *MODEL, **settings)
    two = run(estimator, X, *MODEL, n_jobs=2, **settings)
    for name in ("values", "std_errors", "ess"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("estimator", ALL)
def test_a_row_depends_on_its_place_and_on_no_other_row(estimator: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(2.0 * rng.random((40, 6)))
    settings: dict[str, Any] = {smc: {}, auto: {"std_error": 0.01}}.get(estimator, {"n_draws": 20})
    other = X.copy()
    other[::2] = rng.poisson(20.0, size=other[::2].shape)
    values = run(estimator, X, *MODEL, **settings).values
    np.testing.assert_array_equal(run(estimator, other, *MODEL, **settings).values[1::2], values[1::2])
    np.testing.assert_array_equal(run(estimator, X[:7], *MODEL, **settings).values, values[:7])
    # Equal rows in different places have streams of their own, so none is as good as another.
    equal = run(estimator, np.tile(LONG, (2, 1)), *MODEL, **settings).values
    assert equal[0] != equal[1]


@pytest.mark.parametrize("estimator", SAMPLED)
def test_seeds(estimator: Any) -> None:
    values = [estimator([LONG], *MODEL, rng=seed).values[0] for seed in (1, 1, 2, np.random.default_rng(3))]
    assert values[0] == values[1]
    assert len(set(values)) == 3


@pytest.mark.parametrize("estimator", [*ALL, exact])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros((0, 6), int), *MODEL), "0 sample"),
        (([[1.5, 0, 0, 0, 0, 0]], *MODEL), "1.5"),
        (([[-1, 0, 0, 0, 0, 0]], *MODEL), "-1"),
        (([SHORT], DICTIONARY.T, SHAPE, RATE), "dictionary"),
        (([SHORT], -DICTIONARY, SHAPE, RATE), r"dictionary\[0, 0\]"),
        (([SHORT], "words", SHAPE, RATE), "dictionary must be an array of numbers"),
        (([SHORT], np.full(DICTIONARY.shape, 1e308), SHAPE, RATE), "column 0 of dictionary has no finite sum"),
        (([SHORT], DICTIONARY, [1.0, 2.0], RATE), "shape"),
        (([SHORT], DICTIONARY, 0.0, RATE), r"shape\[0\]"),
        (([SHORT], DICTIONARY, SHAPE, np.nan), r"rate\[0\]"),
    ],
    ids=[
        "no rows",
        "a fraction",
        "negative",
        "transposed",
        "negative weights",
        "words",
        "overflow",
        "two shapes",
        "no shape",
        "rate",
    ],
)
def test_mistakes_get_one_sentence(estimator: Any, arguments: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        estimator(*arguments)
    assert ". " not in str(caught.value)


@pytest.mark.parametrize(
    ("estimator", "settings"),
    [
        (direct_sampling, {"n_draws": 1}),
        (harmonic_mean, {"n_draws": 1}),
        (harmonic_mean, {"burn_in": -1}),
        (annealed, {"n_draws": 1}),
        (annealed, {"n_temperatures": 0}),
        (left_to_right, {"n_draws": 1}),
        (left_to_right, {"n_inner": 0}),
        (left_to_right, {"conditionals": "both"}),
        (auto, {"std_error": -1.0}),
        (auto, {"std_error": float("nan")}),
        (auto, {"max_cost": float("nan")}),
        (auto, {"max_draws": 100}),
        (smc, {"rng": -1}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_bad_settings_get_one_sentence(estimator: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        estimator([SHORT], *MODEL, **settings)
    assert ". " not in str(caught.value)


@pytest.mark.parametrize("std_error", [0.1, 0.0])
def test_an_infinite_standard_error_is_said(std_error: float) -> None:
    # Counts so large that rounding of the log-likelihood decides over the weights of the draws.
    rng = np.random.default_rng(0)
    counts = np.floor(np.append(np.ones((1, 4)), rng.random((1, 4)) * 2.0**50, axis=0))
    dictionary = rng.dirichlet(np.full(4, 0.3), 3).T
    with pytest.warns(InaccurateWarning, match="Row 1 of X has draws that are not reliable.*do not use its value"):
        found = auto(counts, dictionary, 0.5, 1.0, std_error=std_error, rng=0)
    assert found.std_errors[0] < 0.2
    assert found.std_errors[1] == np.inf
