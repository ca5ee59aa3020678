"""Standard errors say how far estimates are spread: by replicates of one document, which have streams of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from likelihood_cases import MODEL, SHORT, repeated, topic_document, truth
from scipy.special import ndtr, stdtrit

from partwise.likelihood import annealed, auto, direct_sampling, left_to_right, smc
from partwise.likelihood.problem import LogLikelihood

# The spread of 200 replicates is known to 5%, so 25% are five of its standard errors.
N_REPLICATES = 200
SIZES = [(5, 10), (5, 100), (5, 1000), (50, 10), (50, 100), (50, 1000)]


def _sizes(most: int) -> list[Any]:
    """All sizes; those of more than so many tokens x components are slow."""
    slow = pytest.mark.slow
    return [
        pytest.param(size, marks=slow if size[0] * size[1] > most else (), id=f"K={size[0]}, L={size[1]}")
        for size in SIZES
    ]


def _replicates(estimator: Any, size: tuple[int, int], n_replicates: int, **settings: Any) -> LogLikelihood:
    counts, *model = topic_document(*size, seed=1)
    result: LogLikelihood = repeated(estimator, counts, n_replicates, model, rng=1, **settings)
    return result


def _spread_over_error(result: LogLikelihood) -> float:
    return float(result.values.std(ddof=1) / result.std_errors.mean())


def _coverage(result: LogLikelihood) -> float:
    """Share of estimates that are within two of their standard errors of the mean of p-hat, which is unbiased."""
    top = result.values.max()
    center = top + np.log(np.exp(result.values - top).mean())
    return float((np.abs(result.values - center) <= 2.0 * result.std_errors).mean())


@pytest.mark.parametrize("size", _sizes(5000))
def test_smc(size: tuple[int, int]) -> None:
    assert 0.75 < _spread_over_error(_replicates(smc, size, N_REPLICATES)) < 1.25


@pytest.mark.parametrize("size", _sizes(500))
def test_annealed(size: tuple[int, int]) -> None:
    # At K = 50, 1,000 tokens need a long path: with 100 steps, 90% of the runs have next to no weight. With 1,000 their
    # logarithms still have a variance of 0.7, for which errors are widened on purpose, because their mean is skewed.
    settings = {"n_draws": 64, "n_temperatures": 2500} if size == (50, 1000) else {}
    n_replicates = 60 if settings else N_REPLICATES
    assert 0.75 < _spread_over_error(_replicates(annealed, size, n_replicates, **settings)) < 1.25


def test_direct_sampling() -> None:
    """Where it can be used at all: six tokens."""
    result = repeated(direct_sampling, SHORT, N_REPLICATES, MODEL, rng=1, n_draws=20_000)
    assert 0.75 < _spread_over_error(result) < 1.25
    assert abs(result.values.mean() - truth(SHORT)) < 4 * result.values.std(ddof=1) / np.sqrt(N_REPLICATES)


def test_left_to_right_says_too_little() -> None:
    """Its draws are successive sweeps of one chain, and its errors do not know: the test can fail."""
    assert _spread_over_error(_replicates(left_to_right, (5, 100), 60)) > 1.25


@pytest.mark.parametrize("size", _sizes(500))
def test_two_errors_of_auto(size: tuple[int, int]) -> None:
    # Of 1,000 replicates, 95.4% +- 0.7% are covered if errors are normal; below 93% is three and a half of these less.
    n_replicates = 1_000 if size != (50, 1000) else 200
    assert _coverage(_replicates(auto, size, n_replicates, max_cost=0.0)) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("std_error", [0.03, 0.07])
def test_two_errors_of_auto_where_islands_are_added(std_error: float) -> None:
    """Rows that stop as soon as their error looks small enough stop too early rather than too late.

    Worst where about every other row stops after the first islands, as with 0.07 here.
    """
    result = _replicates(auto, (50, 100), 300 if std_error < 0.05 else 1_000, max_cost=0.0, std_error=std_error)
    assert (result.std_errors <= std_error).all()
    assert _coverage(result) >= 0.93


def test_auto_is_exact_where_affordable() -> None:
    counts, *model = topic_document(5, 100, seed=1)
    few = np.minimum(counts, counts > np.sort(counts)[-4])
    result = auto(np.stack((few, counts)), *model, rng=0, max_cost=1e4)
    assert result.std_errors[0] == 0.0
    assert result.ess[0] == np.inf
    assert result.std_errors[1] > 0.0
    assert np.isfinite(result.ess[1])
    np.testing.assert_allclose(result.values[0], truth(few, model), rtol=1e-12)


def test_errors_of_auto_are_wider_than_those_of_few_islands() -> None:
    """The same 12 islands, with Student's t of 9 degrees of freedom instead of 11: rows stop when errors look small."""
    counts, *model = topic_document(5, 100, seed=1)
    plain = smc([counts], *model, rng=0, n_draws=384, n_islands=12)
    wide = auto([counts], *model, rng=0, max_cost=0.0)
    np.testing.assert_allclose(wide.values, plain.values)
    np.testing.assert_allclose(wide.std_errors / plain.std_errors, stdtrit(9, ndtr(2.0)) / stdtrit(11, ndtr(2.0)))
