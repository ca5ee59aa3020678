"""Empirical Bayes for Poisson means: what comes back, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partwise import ebpm
from partwise.errors import InvalidInputError
from partwise.priors.base import Floats, RatePosterior
from partwise.priors.families import FAMILIES
from partwise.priors.flat import FlatPrior
from partwise.priors.mixture import GammaMixture

KINDS = [kind for kind in FAMILIES if kind != "flat"]


@pytest.mark.parametrize("kind", KINDS)
def test_result_hangs_together(kind: str, rng: np.random.Generator) -> None:
    exposure = rng.gamma(4.0, 0.25, size=80)
    counts = rng.poisson(exposure * rng.gamma(0.6, 8.0, size=80))
    fit = ebpm(counts, exposure, kind)
    posterior = fit.prior.posterior(counts.astype(np.float64), exposure)
    assert fit.log_likelihood == posterior.log_evidence
    np.testing.assert_array_equal(fit.mean, posterior.mean)
    np.testing.assert_array_equal(fit.mean_log, posterior.mean_log)
    assert np.isnan(fit.gap) == (kind in ("gamma", "point-gamma", "two-gamma"))
    assert np.all(fit.variance >= 0)
    ends = fit.interval(0.8)
    assert np.all(ends[:, 0] <= ends[:, 1])
    np.testing.assert_array_equal(ends[:, 1], fit.quantile(0.9))
    draws = fit.sample(2000, random_state=4)
    assert draws.shape == (2000, 80)
    # Jensen; and posterior means keep the total, nearly: both sides are shrunk towards the middle
    finite = np.isfinite(fit.mean_log)
    assert np.all(fit.mean_log[finite] <= np.log(fit.mean[finite]) + 1e-12)
    # 80 intervals with at least 80% each, 2000 draws: below 0.77 is beyond 5 standard errors.
    assert np.mean((draws >= ends[:, 0]) & (draws <= ends[:, 1])) > 0.77


def test_empirical_bayes_beats_maximum_likelihood(rng: np.random.Generator) -> None:
    rates = rng.gamma(0.4, 5.0, size=2000)
    counts = rng.poisson(rates)
    plain = np.mean((counts - rates) ** 2)
    for kind in KINDS:
        assert np.mean((ebpm(counts, prior=kind).mean - rates) ** 2) < 0.9 * plain


def test_intervals_cover(rng: np.random.Generator) -> None:
    # The prior is learnt from 5000 rates, so coverage is 0.9 to within 5 binomial errors of 0.0042. (Families with
    # narrow components learn priors with spikes, whose intervals are too short.)
    rates = rng.gamma(0.8, 4.0, size=5000)
    for kind in ("gamma", "exponential-mixture"):
        ends = ebpm(rng.poisson(rates), prior=kind).interval(0.9)
        assert abs(np.mean((rates >= ends[:, 0]) & (rates <= ends[:, 1])) - 0.9) < 0.022


def test_same_seed_same_draws() -> None:
    fit = ebpm([0, 3, 9], prior="gamma")
    np.testing.assert_array_equal(fit.sample(5, random_state=1), fit.sample(5, random_state=1))
    assert not np.array_equal(fit.sample(5, random_state=1), fit.sample(5, random_state=2))


def test_given_priors_stay() -> None:
    prior = GammaMixture.gamma(2.0, 1.0)
    fit = ebpm([0, 4], 3.0, prior)
    assert fit.prior is prior
    np.testing.assert_allclose(fit.mean, [2.0 / 4.0, 6.0 / 4.0])
    flat = ebpm([0, 4], 2.0, FlatPrior())
    assert flat.mean.tolist() == [0.0, 2.0]
    with pytest.raises(InvalidInputError, match="FlatPrior gives posterior means only"):
        flat.quantile(0.5)


def test_family_of_ones_own() -> None:
    class Halving:
        """The overall rate, halved, whatever the counts."""

        def posterior(self, counts: Floats, exposure: Floats) -> RatePosterior:
            return RatePosterior(counts / 2, np.log(counts / 2), -1.0)

        def fit(self, counts: Floats, exposure: Floats, start: Any = None) -> Halving:
            return self

        def pack(self, prior: Any) -> Floats:
            return np.zeros(0)

        def unpack(self, numbers: Floats) -> Halving:
            return self

    assert ebpm([2.0, 4.0], prior=Halving()).mean.tolist() == [1.0, 2.0]


def test_equal_exposures_are_one() -> None:
    counts = np.random.default_rng(2).poisson(3.0, size=300)
    one, many = ebpm(counts, 2.0, "gamma-mixture"), ebpm(counts, np.full(300, 2.0), "gamma-mixture")
    np.testing.assert_array_equal(one.mean, many.mean)


@pytest.mark.parametrize(
    ("x", "s", "message"),
    [
        ([], 1.0, "x is empty"),
        ([1.0, -2.0], 1.0, r"x\[1\] = -2.0 must be a finite nonnegative"),
        ([1.0, np.nan], 1.0, r"x\[1\] = nan"),
        ([1.0, 2.0], [1.0, np.inf], r"s\[1\] = inf"),
        ([1.0, 2.0, 3.0], [1.0, 1.0], "s must be one exposure, or 3"),
        ([1.0, 2.0], [1.0, 1e-300], r"s\[1\] = 1e-300 must be 0 or from 1e-50 to 1e\+50 .*: use another unit"),
        ([1.0, 2.0], [1e300, 1.0], r"s\[0\] = 1e\+300 must be"),
        ([1.0, 1e300], 1.0, r"x\[1\] = 1e\+300 must be"),
        ([0.0, 2.0], [0.0, 0.0], r"x\[1\] = 2 with exposure s = 0"),
        ([[1.0]], 1.0, "x must have one dimension"),
        (["a"], 1.0, "x must be numbers"),
    ],
)
def test_bad_input_gets_one_sentence(x: Any, s: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ebpm(x, s)


def test_bad_levels_are_refused() -> None:
    fit = ebpm([1, 2, 3], prior="gamma")
    for level in (0.0, 1.0, 1.5):
        with pytest.raises(InvalidInputError, match="level must be between 0 and 1"):
            fit.quantile(level)
        with pytest.raises(InvalidInputError, match="level must be between 0 and 1"):
            fit.interval(level)
    with pytest.raises(InvalidInputError, match="n_draws must be at least 1"):
        fit.sample(0)


@pytest.mark.parametrize(
    "kind", ["gamma", "point-gamma", "two-gamma", "exponential-mixture", "gamma-mixture", "nonparametric"]
)
@pytest.mark.parametrize("decades", [30.0, 100.0])
def test_rates_of_all_sizes(kind: str, decades: float) -> None:
    # Warnings are errors: overflow in squares of rates was one.
    rng = np.random.default_rng(0)
    counts = rng.poisson(3.0, 100).astype(np.float64)
    ends = 10.0 ** (0.5 * decades * rng.choice([-1.0, 1.0], 100))
    for exposure in (10.0 ** (decades * (rng.random(100) - 0.5)), ends, ends.min() * rng.uniform(1.0, 2.0, 100)):
        fit = ebpm(counts, exposure, kind)
        assert np.isfinite(fit.log_likelihood)
        assert np.isfinite(fit.mean).all()
        assert not np.isnan(fit.mean_log).any()
