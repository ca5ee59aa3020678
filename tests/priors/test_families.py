"""Every family finds the prior that makes the counts most probable, whatever the counts."""

from __future__ import annotations

import numpy as np
import pytest
from rate_sets import RateSet, duality_gap, rate_sets, slow_maximum

from partwise import ebpm
from partwise.errors import InvalidInputError
from partwise.priors.base import Fixed
from partwise.priors.exponential_mixture import ExponentialMixture
from partwise.priors.families import FAMILIES, resolve_family
from partwise.priors.flat import FlatPrior
from partwise.priors.gamma import GammaFamily
from partwise.priors.mixture import GammaMixture
from partwise.priors.observations import Observations
from partwise.priors.two_gamma import Pair, TwoGammaFamily

PARAMETRIC = ["gamma", "point-gamma", "two-gamma"]
GRIDS = ["exponential-mixture", "gamma-mixture", "nonparametric"]


def shortfalls(kind: str, n_sets: int, seed: int, n_starts: int) -> list[tuple[float, str]]:
    """By how much the log-likelihood is below that of the slow maximiser, set by set."""
    rng = np.random.default_rng(seed)
    found = []
    for rates in rate_sets(n_sets, seed):
        fit = ebpm(rates.counts, rates.exposure, kind)
        assert not np.isnan([fit.mean, fit.mean_log]).any(), rates.name
        assert np.isfinite(fit.log_likelihood)
        found.append((slow_maximum(rates, kind, n_starts, rng) - fit.log_likelihood, rates.name))
    return found


@pytest.mark.parametrize("kind", ["gamma", "point-gamma"])
def test_no_slow_maximiser_does_better(kind: str) -> None:
    assert max(shortfalls(kind, 30, 1, 4))[0] < 1e-6


def test_no_slow_maximiser_does_better_with_two_gammas() -> None:
    found = sorted(shortfalls("two-gamma", 16, 2, 4))
    assert found[-2][0] < 1e-6
    assert found[-1][0] < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gamma", "point-gamma"])
def test_no_slow_maximiser_does_better_on_many_sets(kind: str) -> None:
    worst = max(shortfalls(kind, 216, 3, 12))
    assert worst[0] < 1e-6, worst


@pytest.mark.slow
def test_no_slow_maximiser_does_better_with_two_gammas_on_many_sets() -> None:
    found = sorted(shortfalls("two-gamma", 200, 4, 15))
    assert found[194][0] < 1e-6, found[194:]
    assert found[-1][0] < 1e-3, found[-1]


def test_one_start_would_be_found_out() -> None:
    # The power of the comparison above: from one start, two gammas end in lesser maxima.
    short = 0
    rng = np.random.default_rng(5)
    for rates in rate_sets(27, 5):
        if rates.counts.size > 5 and rates.counts.sum() > 0:
            data = Observations.of(rates.counts, rates.exposure)
            mean = data.overall_rate
            one = Pair(0.0, np.array([1.0, 2.0]), np.array([0.9 * mean, 1.1 * mean])).refined(data, 1e-8).prior()
            value = one.log_evidence(rates.counts, rates.exposure)
            short += slow_maximum(rates, "two-gamma", 4, rng) - value > 1e-3
    assert short >= 2


def check_gap(rates: RateSet, kind: str, tol: float = 1e-6) -> None:
    fit = ebpm(rates.counts, rates.exposure, kind)
    assert isinstance(fit.prior, GammaMixture)
    assert not np.isnan([fit.mean, fit.mean_log]).any(), rates.name
    gap = duality_gap(rates, fit.prior.weights, fit.prior.shapes, fit.prior.means)
    assert gap < tol, (kind, rates.name, gap)
    assert fit.gap < tol


@pytest.mark.parametrize("kind", GRIDS)
def test_weights_have_a_certified_gap(kind: str) -> None:
    for rates in rate_sets(45, 6):
        check_gap(rates, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", GRIDS)
def test_weights_have_a_certified_gap_on_many_sets(kind: str) -> None:
    for rates in rate_sets(252, 7):
        check_gap(rates, kind)


def test_certificate_sees_weights_that_are_not_best() -> None:
    # Planted: weights of a solver that stops early.
    early = ExponentialMixture(tol=1e-3)
    gaps = []
    for rates in rate_sets(27, 8):
        prior = early.fit(rates.counts, rates.exposure)
        gaps.append(duality_gap(rates, prior.weights, prior.shapes, prior.means))
    assert sum(gap > 1e-6 for gap in gaps) >= 5
    assert all(gap <= 1e-3 * 150 * (1 + 1e-9) for gap in gaps)


def test_many_observations_have_a_gap_of_a_hundred_millionth_each(rng: np.random.Generator) -> None:
    exposure = rng.gamma(5.0, 0.2, size=20_000)
    counts = rng.poisson(exposure * rng.gamma(0.4, 12.0, size=20_000)).astype(np.float64)
    for kind in GRIDS:
        check_gap(RateSet(counts, exposure, "many"), kind, tol=1e-8 * counts.size)


def test_two_gammas_are_found_again(rng: np.random.Generator) -> None:
    rates = np.where(rng.random(20_000) < 0.6, rng.gamma(1.0, 1.0, size=20_000), rng.gamma(10.0, 3.0, size=20_000))
    prior = ebpm(rng.poisson(rates), prior="two-gamma").prior
    assert isinstance(prior, GammaMixture)
    order = np.argsort(prior.means)
    # Four standard errors or more of each, from the inverse Hessian.
    np.testing.assert_allclose(prior.weights[order], [0.6, 0.4], atol=0.02)
    np.testing.assert_allclose(prior.means[order], [1.0, 30.0], rtol=0.05)
    np.testing.assert_allclose(prior.shapes[order], [1.0, 10.0], rtol=0.1)


def test_under_dispersed_counts_give_a_point() -> None:
    for counts in (np.full(40, 7.0), np.array([5.0]), np.array([3.0, 4.0, 5.0, 4.0])):
        prior = GammaFamily().fit(counts, np.ones(1))
        assert prior.shapes.tolist() == [np.inf]
        assert prior.means[0] == pytest.approx(counts.mean(), rel=1e-12)
        assert ebpm(counts, prior="gamma").mean == pytest.approx(counts.mean())


@pytest.mark.parametrize("kind", [*PARAMETRIC, *GRIDS])
def test_all_zero(kind: str) -> None:
    fit = ebpm(np.zeros(7), prior=kind)
    assert fit.log_likelihood > -0.011
    assert np.all(fit.mean < 0.01)
    assert not np.isnan(fit.mean_log).any()


@pytest.mark.parametrize("kind", [*PARAMETRIC, *GRIDS])
def test_without_exposure_the_posterior_is_the_prior(kind: str) -> None:
    fit = ebpm([4.0, 0.0, 1.0, 12.0], [1.0, 0.0, 2.0, 1.0], prior=kind)
    assert isinstance(fit.prior, GammaMixture)
    assert fit.mean[1] == pytest.approx(fit.prior.mean, rel=1e-9)
    alone = ebpm([4.0, 1.0, 12.0], [1.0, 2.0, 1.0], prior=fit.prior)
    assert fit.log_likelihood == pytest.approx(alone.log_likelihood, rel=1e-12)


@pytest.mark.parametrize("kind", [*PARAMETRIC, *GRIDS])
def test_scale_of_rates_does_not_matter(kind: str, rng: np.random.Generator) -> None:
    counts = rng.poisson(rng.gamma(0.5, 6.0, size=60)).astype(np.float64)
    exposure = rng.gamma(3.0, 0.3, size=60)
    one, other = ebpm(counts, exposure, kind), ebpm(counts, 2.0**30 * exposure, kind)
    assert other.log_likelihood == pytest.approx(one.log_likelihood, abs=1e-5)
    np.testing.assert_allclose(other.mean, one.mean / 2.0**30, rtol=1e-4)


@pytest.mark.parametrize("kind", [*PARAMETRIC, *GRIDS])
def test_going_on_never_goes_down_and_keeps_the_grid(kind: str, rng: np.random.Generator) -> None:
    family = FAMILIES[kind]
    for rates in rate_sets(27, 9):
        exposure = rates.exposure
        prior = family.fit(rates.counts, exposure)
        counts = rates.counts * rng.gamma(20.0, 0.05, size=rates.counts.size)
        again = family.fit(counts, exposure, prior)
        before, after = prior.posterior(counts, exposure).log_evidence, again.posterior(counts, exposure).log_evidence
        assert after >= before - 1e-9 * (1.0 + abs(before)), rates.name
        assert family.unpack(family.pack(again)).posterior(counts, exposure).log_evidence == after
        if kind in GRIDS:
            assert isinstance(prior, GammaMixture)
            assert isinstance(again, GammaMixture)
            assert np.isin(prior.means, again.means).all()


def test_zeros_come_back(rng: np.random.Generator) -> None:
    # A start from weights that are exactly 0 where the weight should be.
    family = ExponentialMixture()
    counts = rng.poisson(rng.exponential(5.0, size=300)).astype(np.float64)
    grid = family.fit(counts, np.ones(1))
    stuck = GammaMixture(np.eye(grid.means.size)[0], grid.shapes, grid.means)
    found = family.fit(counts, np.ones(1), stuck)
    assert found.log_evidence(counts, np.ones(1)) == pytest.approx(grid.log_evidence(counts, np.ones(1)), abs=1e-6)


def test_grid_grows_with_the_range() -> None:
    family = ExponentialMixture()
    first = family.fit(np.array([1.0, 2.0, 3.0]), np.ones(1))
    then = family.fit(np.array([1.0, 2.0, 3000.0]), np.ones(1), first)
    assert then.means.size > first.means.size
    assert then.means.max() >= 3000.0


def test_names_and_objects_are_resolved() -> None:
    assert resolve_family("two-gamma") == TwoGammaFamily()
    family = GammaFamily(tol=1e-3)
    assert resolve_family(family) is family
    prior = GammaMixture.gamma(1.0, 2.0)
    fixed = resolve_family(prior)
    assert isinstance(fixed, Fixed)
    assert fixed.fit(np.ones(3), np.ones(1)) is prior
    assert fixed.unpack(fixed.pack(prior)) is prior
    flat = resolve_family("flat")
    assert isinstance(flat, Fixed)
    assert isinstance(flat.prior, FlatPrior)
    with pytest.raises(InvalidInputError, match="which is not a family of priors: choose from gamma, point-gamma"):
        resolve_family("gama")
    for wrong in (3, None, GammaFamily):
        with pytest.raises(InvalidInputError, match="activation_prior must be the name"):
            resolve_family(wrong, "activation_prior")


def test_few_observations_with_rates_of_any_size_end_soon() -> None:
    # Hundreds of components for four observations: all had a weight at first, and removing them took minutes.
    counts, exposure = np.array([1.0, 2.0, 0.0, 5.0]), 10.0 ** np.array([-150.0, -100.0, -125.0, -50.0])
    family = ExponentialMixture()
    found = family.fit(counts, exposure)
    assert found.weights.size > 300
    best, gap = family.solve(Observations.of(counts, exposure))
    assert found.log_evidence(counts, exposure) == pytest.approx(best.log_evidence(counts, exposure), abs=0.3)
    assert gap < 1e-7
