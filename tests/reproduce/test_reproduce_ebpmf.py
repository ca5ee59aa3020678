"""The reproduction of empirical Bayes Poisson factorization: its measures, and its short version as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma, gammaln
from scipy.stats import gamma, nbinom, poisson

from partwise import ebpm
from partwise.metrics.matching import match_parts
from partwise.reproduce import find
from partwise.reproduce.ebpmf import poisson_means, prediction, recovery
from partwise.reproduce.ebpmf.prediction import KEPT, Judge
from partwise.reproduce.ebpmf.recovery import SPARSE, sparse_factors


def test_counts_have_the_depth_that_is_asked_for() -> None:
    # 40 sets of 50 samples; the factors vary more than the counts: 10% is beyond 5 standard errors of what seeds give.
    totals = [sparse_factors(seed, 50, 80, 5, 60.0)[0].sum() / 50 for seed in range(40)]
    assert np.mean(totals) == pytest.approx(60.0, rel=0.1)
    counts, factors = sparse_factors(1, 50, 80, 5, 60.0)
    assert abs(counts.sum() - factors.rates().sum()) < 5 * np.sqrt(counts.sum())


def test_true_prior_is_best_on_average() -> None:
    found = poisson_means.errors(SPARSE, 4, 400)
    assert set(found) == {"true prior", *poisson_means.FAMILIES}
    means = {name: np.mean(values) for name, values in found.items()}
    assert means["true prior"] < min(0.9, means["gamma"])
    # Eight sets: a family may be luckier than the truth, but not by much.
    assert all(value > 0.95 * means["true prior"] for value in means.values())


def test_parts_are_matched_and_compared_without_scale(rng: np.random.Generator) -> None:
    truth = rng.gamma(0.5, 1.0, (4, 30))
    shuffled = np.array([2, 0, 3, 1])
    parts = 7.0 * truth[shuffled]
    order = match_parts(truth, parts)[1]
    np.testing.assert_array_equal(shuffled[order], np.arange(4))
    assert recovery.affinity(parts[order], truth) == pytest.approx(1.0)
    assert recovery.affinity(parts, truth) < 0.99


def test_judge_is_the_poisson_log_probability(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "SEVERAL", (0.0,))
    activations, dictionary = rng.gamma(1.0, 3.0, (20, 2)), rng.gamma(1.0, 1.0, (15, 2))
    rates = activations @ dictionary.T
    kept = rng.poisson(KEPT * rates)
    held = rng.poisson((1.0 - KEPT) * rates)
    judge = Judge(sp.csr_array(kept), sp.csr_array(held))
    expected = poisson.logpmf(held, (1.0 - KEPT) * rates).sum() / held.sum()
    assert judge.scores(KEPT * activations, dictionary)["best"] == pytest.approx(expected, rel=1e-12)
    assert judge.scores(KEPT * activations, np.ones_like(dictionary))["best"] < expected


def test_judge_does_not_break_on_rates_of_zero() -> None:
    kept, held = np.array([[3, 0], [0, 0]]), np.array([[0, 1], [1, 0]])
    score = Judge(sp.csr_array(kept), sp.csr_array(held)).scores(np.zeros((2, 1)), np.zeros((2, 1)))
    assert np.isfinite(list(score.values())).all()


def test_divergence_from_the_likelihood_of_poisson_means() -> None:
    """B.1 of the write-up has a plus for a minus and lacks x log s: with a gamma prior that is not the divergence."""
    x, s, shape, rate = 3, 2.0, 2.0, 1.0
    log_likelihood = nbinom.logpmf(x, shape, rate / (rate + s))
    posterior = gamma(shape + x, scale=1.0 / (rate + s))
    mean, mean_log = posterior.mean(), digamma(shape + x) - np.log(rate + s)
    divergence = posterior.expect(lambda rates: posterior.logpdf(rates) - gamma(shape, scale=1.0 / rate).logpdf(rates))
    expected = -s * mean + x * np.log(s) + x * mean_log - gammaln(x + 1)
    printed = s * mean + x * mean_log - gammaln(x + 1)
    assert log_likelihood - expected == pytest.approx(-divergence, abs=1e-6)
    assert divergence == pytest.approx(0.204, abs=5e-4)
    assert log_likelihood - printed == pytest.approx(-4.791, abs=5e-4)


def test_estimates_depend_on_the_exposure() -> None:
    """Section 5.3 says that they do not. Families closed under scaling give the same sλ, fixed grids not even that."""
    x = np.array([0, 1, 1, 4, 9])
    means = [ebpm(x, s, prior="gamma").mean for s in (1.0, 2.0)]
    np.testing.assert_allclose(means[0], 2.0 * means[1], rtol=1e-6)
    # All counts 2 and a grid of the rates 1 and 2: all mass is on the likelier one.
    grid = np.array([1.0, 2.0])
    rates = [s * grid[poisson.pmf(2, s * grid).argmax()] for s in (1.0, 1.5, 2.0)]
    assert rates == [2.0, 1.5, 2.0]


@pytest.mark.slow
def test_short_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTWISE_DATA", raising=False)
    find("ebpmf").run(tmp_path, True)
    names = {path.name for path in tmp_path.iterdir()}
    figures = {f"{name}.{suffix}" for name in ("poisson_means", "recovery", "prediction") for suffix in ("png", "pdf")}
    assert names == {"results.json", "report.md", *figures}
    report = (tmp_path / "report.md").read_text()
    assert "ap: not computed, as PARTWISE_DATA is not set." in report
