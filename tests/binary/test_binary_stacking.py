"""Chains from two starts: probabilities of cells that are left out, and the weights that follow from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from binary_samples import planted
from enumeration import enumerate_posterior

import partwise
from partwise import BinaryNMF
from partwise.binary.inference.cells import Cells
from partwise.binary.inference.gibbs import BinaryCollapsedGibbs
from partwise.binary.inference.posterior import BinaryDraws
from partwise.binary.inference.starts import starts_of
from partwise.binary.model import KINDS, BinaryModel
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.engines import resolve_engine

X = np.array([[1.0, 0.0, 1.0], [0.0, np.nan, 1.0], [0.0, 0.0, 1.0]])


def left_out_of(model: BinaryModel, n_draws: int) -> tuple[Cells, np.ndarray]:
    """Harmonic means over draws, of both starts together, of what is said of each observed cell without it."""
    cells = Cells.of(BinaryMatrix.build(X), model.kind)
    settings: dict[str, Any] = {"n_draws": n_draws, "burn_in": 50, "thin": 2, "n_chains": 4, "active_threshold": 0.0}
    algorithm = BinaryCollapsedGibbs(model, "mixed", engine=resolve_engine(), **settings)
    draws = run(algorithm, cells, key=Key(3), max_iter=algorithm.n_sweeps, progress=False).state.draws
    return cells, 4 * n_draws / draws.left_out.sum(axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_left_out_cells_agree_with_enumeration(kind: Any) -> None:
    """p(x of a cell | all others) is the evidence of all cells over that of the others."""
    own = np.linspace(0.6, 1.7, 2)
    model = BinaryModel(kind, 2, 1.3 * own, 0.6 / own, 0.7 * own, 0.4 * own[::-1])
    cells, found = left_out_of(model, 4000)
    whole, turned = enumerate_posterior(model, X).log_evidence, kind == "dir-beta"
    for p, (row, column) in enumerate(zip(cells.rows_of_cells(), cells.codes >> 1, strict=True)):
        without = X.copy()
        without[(column, row) if turned else (row, column)] = np.nan
        exact = np.exp(whole - enumerate_posterior(model, without).log_evidence)
        # 16,000 draws: standard errors are below 0.004, so that this is at least four of them.
        assert found[p] == pytest.approx(exact, abs=0.016)


def short(**settings: Any) -> BinaryNMF:
    lengths = {"n_draws": 4, "burn_in": 4, "thin": 1, "n_chains": 5, "random_state": 0, "progress": False}
    return BinaryNMF(3, **{**lengths, **settings}).fit(planted(n_samples=14, n_features=9))


@pytest.mark.parametrize("model", KINDS)
def test_predictions_are_weighted_means_over_chains(model: str) -> None:
    """The same chains one by one: a chain does not depend on how many others there are."""
    mixed = short(model=model, init="mixed")
    assert mixed.chain_weights_.sum() == pytest.approx(1.0)
    assert mixed.chain_weights_[0] == mixed.chain_weights_[2] == mixed.chain_weights_[4]
    assert mixed.chain_weights_[1] == mixed.chain_weights_[3]
    # Means of one start: of chains 0, 2 and 4, which begin as those of init="random" do, and of chains 1 and 3.
    from_random, from_fit = (
        _chains_of(model, init, chains) for init, chains in (("random", (0, 2, 4)), ("vb20", (1, 3)))
    )
    weights = 3 * mixed.chain_weights_[0], 2 * mixed.chain_weights_[1]
    expected = weights[0] * from_random + weights[1] * from_fit
    np.testing.assert_allclose(mixed.probabilities_, expected, rtol=1e-12)


def _chains_of(model: str, init: str, chains: tuple[int, ...]) -> np.ndarray:
    """Mean prediction of some chains: n of them are n times the mean of n less n - 1 times that of n - 1."""
    sums = {0: np.zeros(())}
    for n in range(1, max(chains) + 2):
        sums[n] = n * short(model=model, init=init, n_chains=n).probabilities_
    return np.asarray(np.mean([sums[chain + 1] - sums[chain] for chain in chains], axis=0))


def test_one_start_has_equal_weights_and_keeps_nothing_by_start() -> None:
    assert starts_of("mixed", 1) == ("random",)
    assert starts_of("vb", 8) == ("vb",)
    np.testing.assert_array_equal(short(init="random").chain_weights_, 0.2)
    np.testing.assert_array_equal(short(init="mixed", n_chains=1).chain_weights_, 1.0)
    partial = {"model": "beta-dir", "inference": "gibbs-partial"}
    np.testing.assert_array_equal(short(**partial).probabilities_, short(**partial, init="random").probabilities_)


def test_starts_that_predict_the_same_count_the_same_whatever_their_chains() -> None:
    cells = Cells.of(BinaryMatrix.build(X), "beta-dir")
    draws = BinaryDraws.empty(cells, 2, n_chains=5, n_draws=1, n_starts=2)
    draws.left_out += np.array([[3.0], [2.0]]) / np.linspace(0.1, 0.9, cells.n_cells)
    np.testing.assert_allclose(draws.chain_weights(), [1 / 6, 1 / 4, 1 / 6, 1 / 4, 1 / 6])


def test_weights_are_reproducible_and_saved(tmp_path: Path) -> None:
    model, threaded = short(init="mixed"), short(init="mixed", n_jobs=2)
    np.testing.assert_array_equal(model.chain_weights_, threaded.chain_weights_)
    np.testing.assert_array_equal(model.probabilities_, threaded.probabilities_)
    model.save(tmp_path / "model.partwise")
    np.testing.assert_array_equal(partwise.load(tmp_path / "model.partwise").chain_weights_, model.chain_weights_)


def test_the_weight_of_a_start_is_told() -> None:
    mixed = short(init="mixed")
    assert mixed.facts()["weight of chains from random labels"] == pytest.approx(mixed.chain_weights_[::2].sum())
    assert "weight of chains from random labels" not in short(init="random").facts()
