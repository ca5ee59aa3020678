"""Empirical Bayes mixtures on hard counts: the bound is true, and no family is below one that it contains."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from rate_kinds import KINDS, Counts, Floats, dense_means, em_maximum, log_columns, slopes
from scipy.special import logsumexp

from partwise import ebpm
from partwise.empirical_bayes.means import EBPMResult
from partwise.priors.certificate import Slopes
from partwise.priors.families import FAMILIES
from partwise.priors.grid import GridFamily
from partwise.priors.mixture import GammaMixture, saturated
from partwise.priors.observations import Observations
from partwise.priors.search import MixtureSearch

GRIDS = {"exponential-mixture": (1.0,), "gamma-mixture": (0.1, 1.0, 10.0, 100.0), "nonparametric": (np.inf,)}
PER_OBSERVATION = 1e-8


def mixture_logs(fit: EBPMResult) -> Floats:
    """Log evidence of each count under the fitted prior, in plain SciPy."""
    prior = fit.prior
    assert isinstance(prior, GammaMixture)
    exposure = np.broadcast_to(fit.exposure, fit.counts.shape)
    with np.errstate(divide="ignore"):
        columns = [
            log_columns(fit.counts, exposure, shape, np.array([mean]))[:, 0] + np.log(weight)
            for weight, shape, mean in zip(prior.weights, prior.shapes, prior.means, strict=True)
        ]
    return np.asarray(logsumexp(np.stack(columns), axis=0))


def exact_log(x: float, s: float, shape: float, mean: float) -> Any:
    """log p(x | component) but for x!, with as many digits as mpmath is set to."""
    x, expected = mpmath.mpf(x), mpmath.mpf(s) * mpmath.mpf(mean)
    if expected == 0:
        return mpmath.mpf(0) if x == 0 else mpmath.mpf("-inf")
    if shape == np.inf:
        return x * mpmath.log(expected) - expected
    logs = mpmath.loggamma(shape + x) - mpmath.loggamma(shape) - shape * mpmath.log1p(expected / shape)
    return logs + (x * mpmath.log(expected / (shape + expected)) if x else 0)


def exact_slope(fit: EBPMResult, shape: float, mean: float) -> float:
    """D at one mean with 40 digits: of a count of a million, plain numbers lose 1e-8 of the likelihood."""
    prior = fit.prior
    assert isinstance(prior, GammaMixture)
    total = mpmath.mpf(0)
    with mpmath.workdps(40):
        for x, s in zip(fit.counts.tolist(), np.broadcast_to(fit.exposure, fit.counts.shape).tolist(), strict=True):
            components = zip(prior.weights.tolist(), prior.shapes.tolist(), prior.means.tolist(), strict=True)
            mixed = sum(w * mpmath.exp(exact_log(x, s, *component)) for w, *component in components if w > 0)
            total += mpmath.exp(exact_log(x, s, shape, mean)) / mixed
        return float(total * mpmath.fsum(prior.weights.tolist()) / fit.counts.size - 1)


def check(counts: Floats, exposure: Floats, name: str) -> None:
    """Every claim that a fit of each family makes."""
    found = {kind: ebpm(counts, exposure, kind) for kind in FAMILIES if kind != "flat"}
    # What plain SciPy loses with large counts.
    rounding = 1e-15 * float(np.sum(counts * np.log1p(counts))) + 1e-9
    for kind, shapes in GRIDS.items():
        fit = found[kind]
        assert not np.isnan(fit.mean).any()
        assert fit.gap <= max(PER_OBSERVATION * counts.size, 1e-7), (name, kind)
        assert fit.prior.weights.size <= counts.size + 1, (name, kind)
        logs = mixture_logs(fit)
        assert fit.log_likelihood == pytest.approx(logs.sum(), abs=1e-7 + 10 * rounding)
        for shape in shapes:
            means = dense_means(counts, exposure, 1500)
            found_slopes = slopes(counts, exposure, logs, shape, means)
            best, place = float(found_slopes.max()), float(means[found_slopes.argmax()])
            if counts.size * np.log1p(max(best, 0.0)) > fit.gap:
                best = exact_slope(fit, shape, place)
            assert counts.size * np.log1p(max(best, 0.0)) <= fit.gap + 1e-9, (name, kind, shape)
            # Each single component is a mixture, and so is any that EM finds.
            single = log_columns(counts, exposure, shape, means).sum(axis=0).max()
            some = em_maximum(counts, exposure, shape, means[:: max(1, means.size // 150)], 50)
            assert max(single, some) <= fit.log_likelihood + fit.gap + 10 * rounding, (name, kind, shape)
    highest = found["nonparametric"].log_likelihood + found["nonparametric"].gap
    for kind, fit in found.items():
        assert fit.log_likelihood <= highest + rounding + 1e-8, (name, kind)
    assert found["exponential-mixture"].log_likelihood <= found["gamma-mixture"].log_likelihood + 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_hard_counts(kind: str) -> None:
    for seed in range(2):
        check(*KINDS[kind](np.random.default_rng(seed)), name=f"{kind}, seed {seed}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_hard_counts(kind: str) -> None:
    for seed in range(100, 125):
        check(*KINDS[kind](np.random.default_rng(seed)), name=f"{kind}, seed {seed}")


def test_named_failures_are_repaired() -> None:
    # Log-likelihoods that grids without 0, or with at most so many points, missed by up to millions of nats.
    rng = np.random.default_rng(0)
    zeros = np.where(rng.random(500) < 0.7, 0, rng.poisson(200.0, 500)).astype(np.float64)
    two = GammaMixture.points([0.0, zeros[zeros > 0].mean()], [np.mean(zeros == 0), np.mean(zeros > 0)])
    fit = ebpm(zeros, prior="nonparametric")
    assert fit.log_likelihood >= two.log_evidence(zeros, np.ones(1))
    for kind in GRIDS:
        assert ebpm(zeros, prior=kind).mean[zeros == 0].max() < 0.01
    huge = np.append(np.zeros(99), 1e6)
    assert ebpm(huge, prior="nonparametric").log_likelihood == pytest.approx(-13.427, abs=1e-3)
    for size in (1e4, 1e5, 1e6, 1e7):
        counts = np.append(rng.poisson(3.0, 200), size)
        alone = ebpm(counts[:-1], prior="nonparametric").prior
        assert isinstance(alone, GammaMixture)
        both = GammaMixture(
            np.append(alone.weights * 200, 1.0), np.append(alone.shapes, np.inf), np.append(alone.means, size)
        )
        fit = ebpm(counts, prior="nonparametric")
        assert fit.log_likelihood >= both.log_evidence(counts, np.ones(1)) - 1e-6


def test_a_mixture_by_many_digits() -> None:
    # Two counts far apart, where the best mixture is known: a half at each of them.
    fit = ebpm([3.0, 4000.0], prior="nonparametric")
    with mpmath.workdps(30):
        exact = sum(mpmath.log(mpmath.mpf(x) ** x * mpmath.exp(-x) / mpmath.factorial(x) / 2) for x in (3, 4000))
    assert fit.log_likelihood == pytest.approx(float(exact), abs=1e-9)
    assert fit.gap < 1e-7


def outlier() -> tuple[Observations, Floats]:
    """Counts, and the log evidence under a mixture that leaves a narrow peak of D between two of its points."""
    counts = np.append(np.random.default_rng(3).poisson(3.0, 200), [31.0, 33.0]).astype(np.float64)
    prior = GammaMixture.points([0.5, 3.0, 20.0, 60.0], [0.1, 0.85, 0.03, 0.02])
    data = Observations.of(counts, np.ones(1))
    logs = [prior.log_evidence(np.array([x]), np.ones(1)) for x in data.counts]
    return data, np.array(logs)


def best_logs(counts: Floats, shape: float) -> Floats:
    """Log evidence of each count, of exposure 1, under the component of a shape whose mean it is."""
    return np.array([log_columns(np.array([x]), np.ones(1), shape, np.array([x]))[0, 0] for x in counts])


@pytest.mark.parametrize("shape", [0.1, 1.0, 30.0, np.inf])
@pytest.mark.parametrize("tol", [1e-9, 1e-4, 1e-1])
def test_supremum_is_one_and_is_sharp(shape: float, tol: float) -> None:
    data, logs = outlier()
    counts, repeats = data.counts, data.repeats.astype(int)
    means = np.append(0.0, np.geomspace(1e-6, 40.0, 20_000))
    whole, mixed = np.repeat(counts, repeats), np.repeat(logs, repeats)
    best = float(slopes(whole, np.ones(whole.size), mixed, shape, means).max())
    bound, places = Slopes(data, logs - best_logs(counts, shape), shape).supremum(tol)
    assert best - 1e-8 <= bound <= max(1.2 * best + tol, tol)
    if best > tol:
        at = slopes(whole, np.ones(whole.size), mixed, shape, np.exp(places))
        assert at.max() == pytest.approx(best, rel=2e-3)


def test_bound_at_grid_points_only_would_be_wrong() -> None:
    # Planted: D looked at on the support, where it is not above 0, instead of everywhere.
    counts = np.append(np.random.default_rng(3).poisson(3.0, 200), [31.0, 33.0]).astype(np.float64)
    logs = log_columns(counts, np.ones(202), np.inf, np.array([0.5, 3.0, 20.0, 60.0]))
    weights = np.full(4, 0.25)
    for _ in range(3000):
        mixed = logsumexp(logs, axis=1, b=weights)
        weights = weights * np.exp(logs - mixed[:, None]).mean(axis=0)
    at_points = 202 * np.log(np.exp(logs - mixed[:, None]).mean(axis=0).max())
    data = Observations(counts, np.ones(1), np.ones(1))
    everywhere = 202 * np.log1p(Slopes(data, mixed - saturated(counts), np.inf).supremum(1e-8)[0])
    better = ebpm(counts, prior="nonparametric").log_likelihood - mixed.sum()
    assert at_points < 1e-3 < 1.0 < better < everywhere


def test_grids_without_zero_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # Planted: 0 left out of the candidates for good, and no other rate moves there. The bound says so.
    counts = np.where(np.arange(300) < 200, 0.0, np.random.default_rng(1).poisson(200.0, 300))
    family = FAMILIES["nonparametric"]
    assert isinstance(family, GridFamily)
    data = Observations.of(counts, np.ones(1))
    prior, gap = family.solve(data)
    assert gap < 1e-5
    assert 0.0 in prior.means
    supremum = Slopes.supremum
    monkeypatch.setattr(
        Slopes, "supremum", lambda self, tol: (supremum(self, tol)[0], np.maximum(supremum(self, tol)[1], 1.0))
    )
    monkeypatch.setattr("partwise.priors.search.near_zero", lambda data: np.zeros(0))
    monkeypatch.setattr("partwise.priors.search.MixtureSearch.polished", lambda self, points, tol: points)
    without, gap = family.solve(data)
    short = prior.log_evidence(counts, np.ones(1)) - without.log_evidence(counts, np.ones(1))
    assert short > 1.0
    assert gap >= short


def test_a_bound_without_the_error_of_interpolation_would_be_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    # Planted: intervals far too wide for the interpolation, whose error is what saves the bound. D has one peak for
    # each count, and that of 3000 is the highest and narrow.
    data = Observations(np.array([10.0, 3000.0, 30_000.0]), np.ones(1), np.ones(1))
    logs = -np.array([2.0, 3.0, 2.0])
    best = np.exp(3.0) / 3.0 - 1.0
    assert Slopes(data, logs, np.inf).supremum(1e-8)[0] == pytest.approx(best, rel=2e-3)
    monkeypatch.setattr("partwise.priors.certificate._WIDTH", 1e4)
    assert Slopes(data, logs, np.inf).supremum(1e-8)[0] >= best
    monkeypatch.setattr("partwise.priors.certificate._ERROR", 0.0)
    assert Slopes(data, logs, np.inf).supremum(1e-8)[0] < 0.99 * best


def test_equal_pairs_are_counted_once(rng: np.random.Generator) -> None:
    counts, exposure = rng.poisson(4.0, 4000).astype(np.float64), rng.choice([0.5, 2.0, 3.0], 4000)
    data = Observations.of(counts, exposure)
    assert data.counts.size < 60
    assert data.number == 4000
    assert data.total_count == counts.sum()
    assert data.total_exposure == pytest.approx(exposure.sum())
    same = Observations.of(np.full(150, 4.0), np.ones(1))
    assert (same.number, same.total_count, same.total_exposure) == (150, 600, 150)


def test_many_observations_need_few_components(rng: np.random.Generator) -> None:
    exposure = rng.gamma(5.0, 0.2, size=30_000)
    counts: Counts = rng.poisson(exposure * rng.gamma(0.4, 12.0, size=30_000)).astype(np.float64), exposure
    found = {kind: ebpm(*counts, kind) for kind in GRIDS}
    for fit in found.values():
        assert fit.gap <= PER_OBSERVATION * 30_000
        assert isinstance(fit.prior, GammaMixture)
        assert fit.prior.weights.size < 60
    assert found["nonparametric"].log_likelihood > found["gamma-mixture"].log_likelihood
    assert found["gamma-mixture"].log_likelihood > found["exponential-mixture"].log_likelihood


def test_a_heavy_tail_of_many_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    # Rare components have a millionth of the weight of others. Scores are 0 for an observation with a component of its
    # own: scaled by these, Newton's steps strayed, and 112 were needed instead of 21.
    rng, curvature = np.random.default_rng(2), MixtureSearch._curvature
    steps: list[int] = []

    def counted(*given: Any) -> Any:
        steps.append(1)
        return curvature(*given)

    monkeypatch.setattr(MixtureSearch, "_curvature", counted)
    counts = rng.poisson(np.minimum(rng.pareto(0.7, 30_000), 1e8)).astype(np.float64)
    fit = ebpm(counts, prior="nonparametric")
    assert counts.max() > 1e6
    assert fit.gap <= PER_OBSERVATION * 30_000
    assert isinstance(fit.prior, GammaMixture)
    assert fit.prior.weights.size < 150
    assert len(steps) < 60


def extreme(n: int, kind: str) -> Counts:
    """Many counts with exposures of 1e-6 and 1e6, or of all sizes between."""
    rng = np.random.default_rng(0)
    exposure = rng.choice([1e-6, 1e6], n) if kind == "two" else 10.0 ** rng.uniform(-6.0, 6.0, n)
    return rng.poisson(exposure * rng.gamma(0.4, 12.0, n)).astype(np.float64), exposure


@pytest.mark.parametrize("kind", ["two", "decades"])
def test_many_extreme_exposures_are_few_at_first(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # All counts differ, and wide components do not tell them apart: the search is over some hundred of them. It took
    # as long as weights for all counts on every grid, minutes in all with 100,000.
    entries, weighted = [], MixtureSearch.weighted

    def counted(self: MixtureSearch, points: Any, tol: float) -> Any:
        entries.append(self.data.counts.size * points.means.size)
        return weighted(self, points, tol)

    monkeypatch.setattr(MixtureSearch, "weighted", counted)
    counts = extreme(20_000, kind)
    fit = ebpm(*counts, "gamma-mixture")
    assert fit.gap <= PER_OBSERVATION * 20_000
    assert max(entries) < 200 * 20_000


def test_more_rates_than_points_can_stand_for() -> None:
    # Thousands of points: steps of EM end in time, the bound is honest, and no other family is above.
    counts, exposure = extreme(3_000, "two")
    fit = ebpm(counts, exposure, "nonparametric")
    assert isinstance(fit.prior, GammaMixture)
    assert fit.prior.weights.size > 1000
    assert fit.gap < 0.1 * 3_000
    assert fit.log_likelihood > ebpm(counts, exposure, "gamma-mixture").log_likelihood + 100.0
    logs = mixture_logs(fit)
    seen = np.flatnonzero(counts > 0)[::7]
    found = slopes(counts, exposure, logs, np.inf, counts[seen] / exposure[seen])
    # What one point more would gain is part of the gap.
    assert 0.0 < 3_000 * np.log1p(found.max()) <= fit.gap


def test_two_gammas_begin_with_a_sample_of_equal_counts_too(rng: np.random.Generator) -> None:
    data = Observations.of(*extreme(20_000, "two"))
    some = data.sample(1000)
    assert data.repeats.max() > 9_000
    assert some.counts.size <= 1000
    assert some.number == 1000
    assert some.repeats[some.counts == 0].sum() == pytest.approx(1000 * np.mean(extreme(20_000, "two")[0] == 0), abs=2)


def test_grids_of_factorizations_are_fine_enough() -> None:
    # Expected counts, as factorizations have them: grids of ratio 2 lost 0.18 to 0.25 nats for each prior.
    family = FAMILIES["nonparametric"]
    assert isinstance(family, GridFamily)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rates = rng.gamma(0.3, 5.0, 395) * (rng.random(395) < 0.7)
        counts = rates * rng.gamma(3.0, 1.0 / 3.0, 395) + 10.0 ** rng.uniform(-12.0, -2.0, 395)
        best, _ = family.solve(Observations.of(counts, np.ones(1)))
        lost = best.log_evidence(counts, np.ones(1)) - family.fit(counts, np.ones(1)).log_evidence(counts, np.ones(1))
        assert lost < 0.1
