"""Samplers say whether their chains agree: in the status, as a warning, and by going on until they do."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from partwise import AllocationNMF, BetaGammaPFA, BinaryNMF
from partwise.core.result import Trace
from partwise.errors import InterruptedFitWarning
from partwise.sampling.agreement import SAME_PART, ChainsAgree, agreement, listed, naming_parts, part_agreement
from partwise.sampling.draws import KeptDraws


def draws_of(values: np.ndarray) -> KeptDraws:
    """Draws whose log_joint has the values given, chains x draws."""
    draws = KeptDraws(KeptDraws.no_numbers(*values.shape), 0)
    for column in values.T:
        draws.record(log_joint=column, n_active=np.arange(values.shape[0]))
    return draws


def test_chains_that_agree_and_chains_that_do_not() -> None:
    rng = np.random.default_rng(0)
    same = rng.normal(size=(2, 200))
    found = agreement(draws_of(same))
    assert found["r_hat"] < 1.02
    assert found["ess"] > 250
    apart = agreement(draws_of(same + np.array([[0.0], [3.0]])))
    assert apart["r_hat"] > 1.5
    assert apart["ess"] < 10
    still = agreement(draws_of(np.repeat([[0.0], [1.0]], 8, axis=1)))
    assert still["r_hat"] == np.inf
    slow = agreement(draws_of(np.cumsum(same, axis=1)))
    assert slow["r_hat"] > 1.05
    assert slow["ess"] < 30


def test_what_cannot_be_told_is_not_called_agreement() -> None:
    assert agreement(draws_of(np.zeros((2, 3)))) == {}
    assert agreement(draws_of(np.ones((2, 8)))) == {"r_hat": 1.0, "ess": 16.0}
    rule, trace = ChainsAgree(), Trace()
    trace.append(1, 0.0, {})
    assert rule.check(trace) is None
    assert "four draws" in rule.advice(trace, 1, "")
    trace.append(2, 0.0, {"r_hat": 1.01, "ess": 150.0})
    assert rule.check(trace) == "the chains agree (R-hat 1.010, effective sample size 150)"
    trace.append(3, 0.0, {})
    assert rule.check(trace) is None  # it was asked already


@pytest.fixture(scope="module")
def hard_counts() -> np.ndarray:
    """Overlapping parts and many tokens: labels move slowly."""
    rng = np.random.default_rng(1)
    return rng.poisson(rng.gamma(0.5, 60.0, size=(40, 4)) @ rng.dirichlet(np.full(12, 2.0), size=4))


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inference", ["gibbs", "gibbs-partial", "gibbs-distributed"])
def test_an_allocation_sampler_says_that_its_chains_disagree(hard_counts: np.ndarray, inference: str) -> None:
    model = AllocationNMF(8, inference=inference, burn_in=2, n_draws=10, random_state=0)
    needed = r"R-hat [\d.]+, effective sample size \d+; needed: at most 1.05"
    with pytest.warns(ConvergenceWarning, match=needed) as said:
        model.fit(hard_counts)
    assert model.status_.code == "max_iter"
    # The warning names the same parts as the status, and the line that called fit.
    assert [(str(one.message), one.filename) for one in said] == [(model.status_.message, __file__)]
    assert "as tentative: raise burn_in and n_draws, or set max_iter='auto'" in model.status_.message
    tentative = model.tentative_parts()
    assert tentative == [k for k in model.active_components_ if model.part_agreement_[k] < SAME_PART]
    named = (
        "all parts" if len(tentative) == model.n_active_components_ else f"parts {listed(list(map(str, tentative)))}"
    )
    assert f"so treat {named} as tentative" in model.status_.message
    worst = max(own.r_hat for name, own in model.diagnostics().items() if name != "n_active")
    assert model.trace_["r_hat"][-1] == pytest.approx(worst)


def test_parts_are_matched_over_chains() -> None:
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(30, 0.1), size=5).T
    second, third = parts[:, [3, 1, 4, 0, 2]].copy(), parts.copy()
    third[:, 2] = rng.dirichlet(np.full(30, 0.1))
    found = part_agreement([second, parts, third], 1)
    np.testing.assert_allclose(found[[0, 1, 3, 4]], 1.0)
    assert found[2] < 0.5
    assert np.isnan(part_agreement([parts], 0)).all()


def test_words_about_parts_that_chains_do_not_share() -> None:
    bad, good = "Ended: the chains disagree, so treat the parts as tentative: raise burn_in.", "Converged: all agree."
    assert "disagree, so treat parts 3, 7 and 12 as tentative: raise burn_in." in naming_parts(bad, [3, 7, 12], 20)
    assert "treat part 3 as tentative" in naming_parts(bad, [3], 20)
    assert "treat all parts as tentative" in naming_parts(bad, [0, 1], 2)
    assert "11 and 3 more as tentative" in naming_parts(bad, list(range(15)), 20)
    assert "disagree, but found the same parts (cosines of 0.8 or more): raise" in naming_parts(bad, [], 20)
    assert naming_parts(bad, [], 0) == bad  # a single chain
    assert naming_parts(good, [], 20) == good
    assert naming_parts(good, [4], 20).endswith("But not every chain found the same parts: treat part 4 as tentative.")


def test_bits_compare_parts_of_chains_too() -> None:
    rng = np.random.default_rng(2)
    bits = np.kron(np.eye(2, dtype=int), np.ones((15, 6), int)) ^ (rng.random((30, 12)) < 0.02)
    for kind in ("dir-beta", "beta-dir"):
        model = BinaryNMF(2, model=kind, n_chains=2, inference="gibbs", burn_in=20, n_draws=20, random_state=0).fit(
            bits
        )
        assert model.part_agreement_.shape == (2,)
        assert model.part_agreement_[model.active_components_].min() > 0.95
        assert model.tentative_parts() == []


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_other_samplers_say_it_too(hard_counts: np.ndarray) -> None:
    with pytest.warns(ConvergenceWarning, match="treat parts 0 and 2 as tentative"):
        BinaryNMF(4, inference="gibbs", burn_in=0, n_draws=10, thin=1, random_state=0).fit(hard_counts > 10)
    with pytest.warns(ConvergenceWarning, match="treat the parts as tentative: raise burn_in and n_draws"):
        BetaGammaPFA(5, burn_in=0, n_draws=12, random_state=0).fit(hard_counts)
    with pytest.warns(ConvergenceWarning, match="it takes four draws"):
        AllocationNMF(3, burn_in=0, n_draws=2, random_state=0).fit(hard_counts)


def easy(**settings: Any) -> AllocationNMF:
    flat = {"dictionary_concentration": 1.0, "activation_concentration": 1.0}
    settings = {**flat, "max_iter": "auto", "burn_in": 5, "n_draws": 100, "random_state": 0, **settings}
    return AllocationNMF(2, **settings)


@pytest.fixture(scope="module")
def easy_counts() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.poisson(rng.gamma(1.0, 3.0, size=(20, 2)) @ rng.dirichlet(np.full(6, 0.5), size=2))


def test_auto_goes_on_until_chains_agree(easy_counts: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = easy().fit(easy_counts)
    assert model.status_.code == "converged"
    assert "the chains agree" in model.status_.message
    assert model.n_iter_ in [5 + 100 * (2**rounds - 1) for rounds in range(1, 6)]
    found = model.diagnostics()["log_joint"]
    assert found.r_hat <= 1.05
    assert found.ess_bulk >= 100
    assert model.log_joint_draws_.shape == (2, 100)


def test_auto_resumes_to_the_same_bits(easy_counts: np.ndarray, tmp_path: Path) -> None:
    # Ten draws of two chains are never worth a hundred: all rounds are used.
    whole = easy(n_draws=10).fit(easy_counts)
    assert whole.n_iter_ == 5 + 10 * (2**8 - 1)

    def interrupt(iteration: int, state: Any, trace: Any) -> None:
        if iteration == 777:
            raise KeyboardInterrupt

    path = tmp_path / "fit.checkpoint"
    with pytest.warns(InterruptedFitWarning):
        easy(n_draws=10, checkpoint=path, callbacks=[interrupt]).fit(easy_counts)
    resumed = easy(n_draws=10, checkpoint=path, resume=True).fit(easy_counts)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    np.testing.assert_array_equal(resumed.log_joint_draws_, whole.log_joint_draws_)


def test_chains_that_just_reach_the_limits_agree() -> None:
    rule = ChainsAgree()
    for r_hat, ess, enough in (
        (rule.r_hat, rule.ess, True),
        (np.nextafter(rule.r_hat, 2.0), rule.ess, False),
        (rule.r_hat, np.nextafter(rule.ess, 0.0), False),
    ):
        trace = Trace()
        trace.append(1, 0.0, {"r_hat": float(r_hat), "ess": float(ess)})
        assert (rule.check(trace) is not None) == enough


def test_a_single_chain_is_compared_with_itself() -> None:
    """A chain that still climbs has not converged, although there is no other chain to disagree with."""
    rng = np.random.default_rng(0)
    settled = agreement(draws_of(rng.normal(size=(1, 400))))
    assert settled["r_hat"] < 1.05
    assert settled["ess"] > 100
    climbing = agreement(draws_of(np.cumsum(rng.normal(1.0, 1.0, size=(1, 400)), axis=1)))
    assert climbing["r_hat"] > 1.5
    assert climbing["ess"] < 20
    assert agreement(draws_of(rng.normal(size=(1, 7)))) == {}
    counts = rng.poisson(rng.gamma(0.3, 1.0, (60, 8)) @ rng.gamma(0.3, 4.0, (8, 80)))
    for model in (AllocationNMF(12, n_chains=1, burn_in=0, n_draws=100), BetaGammaPFA(12, burn_in=0, n_draws=100)):
        with pytest.warns(ConvergenceWarning, match="Did not converge"):
            model.set_params(random_state=0).fit(counts)
