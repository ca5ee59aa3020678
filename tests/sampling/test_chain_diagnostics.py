"""Diagnostics of chains: chains that agree and chains that do not, and draws that cannot be diagnosed."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.sampling.agreement import check_chains, diagnose


def test_chains_that_agree_and_chains_that_do_not(rng: np.random.Generator) -> None:
    draws = rng.normal(3.0, 1.0, size=(4, 500))
    found = diagnose(draws)
    assert found.mean == pytest.approx(draws.mean())
    # Independent draws are worth about their number; R-hat of 2,000 of them is within 0.02 of 1.
    assert found.r_hat == pytest.approx(1.0, abs=0.02)
    assert 1400 < found.ess_bulk < 2800
    assert 1000 < found.ess_tail < 2800
    assert diagnose(draws + 3.0 * np.arange(4)[:, None]).r_hat > 1.5
    repeated = diagnose(np.repeat(draws[:, ::10], 10, axis=1))
    assert repeated.ess_bulk < 0.3 * found.ess_bulk, "draws that repeat are worth less"


@pytest.mark.parametrize("draws", [np.ones((2, 50)), np.arange(6.0).reshape(2, 3), np.empty((2, 0))])
def test_draws_that_cannot_be_diagnosed(draws: np.ndarray) -> None:
    found = diagnose(draws)
    assert np.isnan([found.r_hat, found.ess_bulk, found.ess_tail]).all()
    assert np.isnan(found.mean) if draws.size == 0 else found.mean == draws.mean()


@pytest.mark.parametrize("n_chains", [2, 3, 4, 6])
def test_chains_stuck_at_different_values(n_chains: int) -> None:
    draws = np.repeat(8.0 + np.arange(n_chains)[:, None], 100, axis=1)
    assert diagnose(draws).r_hat == np.inf, "rounding must not make it a large number"


def test_four_draws_are_enough(rng: np.random.Generator) -> None:
    assert np.isfinite(diagnose(rng.normal(size=(4, 4))).r_hat)


@pytest.mark.parametrize(
    "chains",
    [
        {"a": np.zeros(3)},
        {"a": np.zeros((2, 3)), "b": np.zeros((2, 4))},
        {"a": np.zeros((2, 3)), "b": np.full((2, 3), "x")},
        {"a": np.zeros((2, 3), bool)},
        {"a": np.zeros((2, 3, 1))},
    ],
)
def test_draws_must_be_numbers_of_chains_x_draws(chains: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="not numbers of chains x draws"):
        check_chains(chains)


def test_numbers_of_chains_x_draws_are_accepted() -> None:
    check_chains({})
    check_chains({"a": np.zeros((2, 3)), "b": np.zeros((2, 3), int), "c": np.zeros((2, 3), np.uint8)})
