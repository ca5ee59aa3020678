"""The flat prior: count over exposure, nothing where nothing was exposed, and the Poisson likelihood there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import poisson

from partwise.priors.flat import FlatPrior


def test_rates_are_counts_over_exposure(rng: np.random.Generator) -> None:
    counts, exposure = rng.gamma(1.0, size=(5, 3)), rng.gamma(1.0, size=3)
    np.testing.assert_array_equal(FlatPrior().rates(counts, exposure), counts / exposure)


def test_no_exposure_gives_the_floor() -> None:
    with np.errstate(all="raise"):
        rates = FlatPrior(0.1).rates(np.array([[6.0, 0.0, 0.01]]), np.array([2.0, 0.0, 1.0]))
    assert rates.tolist() == [[3.0, 0.1, 0.1]]


def test_floors_of_rows() -> None:
    rates = FlatPrior(np.array([[0.0], [5.0]])).rates(np.ones((2, 2)), np.array([1.0, 0.1]))
    assert rates.tolist() == [[1.0, 10.0], [5.0, 10.0]]


def test_posterior(rng: np.random.Generator) -> None:
    counts, exposure = rng.poisson(3.0, size=(6, 2)).astype(float), rng.gamma(1.0, size=2)
    posterior = FlatPrior().posterior(counts, exposure)
    np.testing.assert_allclose(posterior.mean, counts / exposure)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(posterior.mean_log, np.log(counts / exposure))
    assert posterior.log_evidence == pytest.approx(poisson.logpmf(counts, counts).sum())


@pytest.mark.parametrize("factor", [0.9, 1.1, 2.0])
def test_no_other_rate_has_more_evidence(factor: Any, rng: np.random.Generator) -> None:
    counts, exposure = rng.poisson(3.0, size=8).astype(float) + 1, rng.gamma(1.0, size=8)
    best = FlatPrior().posterior(counts, exposure)
    assert poisson.logpmf(counts, factor * best.mean * exposure).sum() < best.log_evidence
