"""Weighted chains: probabilities of cells that are left out, and the weights that follow from them."""

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
    """Harmonic means over draws, of all chains together, of what is said of each observed cell without it."""
    cells = Cells.of(BinaryMatrix.build(X), model.kind)
    settings: dict[str, Any] = {"n_draws": n_draws, "burn_in": 50, "thin": 2, "n_chains": 4, "active_threshold": 0.0}
    algorithm = BinaryCollapsedGibbs(model, "mixed", True, engine=resolve_engine(), **settings)
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
    assert np.unique(mixed.chain_weights_).size == 5
    # Chains 0 to 2 begin as those of init="random" do, the other two as those of init="vb20".
    chains = [_chain_of(model, init, chain) for chain, init in enumerate(["random"] * 3 + ["vb20"] * 2)]
    np.testing.assert_allclose(mixed.probabilities_, np.tensordot(mixed.chain_weights_, chains, 1), rtol=1e-12)


def _chain_of(model: str, init: str, chain: int) -> np.ndarray:
    """Prediction of one chain: n times the mean of n of them less n - 1 times that of n - 1."""
    with_it, without = (
        n * short(model=model, init=init, n_chains=max(n, 1)).probabilities_ for n in (chain + 1, chain)
    )
    return np.asarray(with_it - without)


def test_a_third_of_mixed_chains_starts_from_a_fit() -> None:
    assert starts_of("mixed", 1) == ("random",)
    assert starts_of("mixed", 2) == ("random", "vb20")
    assert starts_of("mixed", 12) == ("random",) * 8 + ("vb20",) * 4
    assert starts_of("vb", 3) == ("vb",) * 3


def test_chains_of_one_start_have_equal_weights() -> None:
    np.testing.assert_array_equal(short(init="random").chain_weights_, 0.2)
    np.testing.assert_array_equal(short(init="mixed", n_chains=1).chain_weights_, 1.0)
    partial = {"model": "beta-dir", "inference": "gibbs-partial"}
    np.testing.assert_array_equal(short(**partial).probabilities_, short(**partial, init="random").probabilities_)


def test_chains_that_predict_the_same_count_the_same() -> None:
    cells = Cells.of(BinaryMatrix.build(X), "beta-dir")
    draws = BinaryDraws.empty(cells, 2, n_chains=3, n_draws=1, weighs=True)
    draws.n_kept = 1
    draws.left_out += 1 / np.linspace(0.1, 0.9, cells.n_cells)
    np.testing.assert_allclose(draws.chain_weights(), 1 / 3)
    draws.left_out[1] *= 5  # says a fifth of what the others say of every cell
    np.testing.assert_allclose(draws.chain_weights(), [0.5, 0.0, 0.5], atol=1e-12)


def test_chains_count_the_same_where_memory_does_not_suffice_for_weights() -> None:
    """The fit itself needs 25 kB, and with weights 14 kB more."""
    weighted, tight = short(init="mixed"), short(init="mixed", max_memory=30e3)
    np.testing.assert_array_equal(tight.chain_weights_, 0.2)
    assert np.ptp(weighted.chain_weights_) > 0
    np.testing.assert_array_equal(tight.log_joint_draws_, weighted.log_joint_draws_)
    assert not np.array_equal(tight.probabilities_, weighted.probabilities_)


def test_weights_are_reproducible_and_saved(tmp_path: Path) -> None:
    model, threaded = short(init="mixed"), short(init="mixed", n_jobs=2)
    np.testing.assert_array_equal(model.chain_weights_, threaded.chain_weights_)
    np.testing.assert_array_equal(model.probabilities_, threaded.probabilities_)
    model.save(tmp_path / "model.partwise")
    np.testing.assert_array_equal(partwise.load(tmp_path / "model.partwise").chain_weights_, model.chain_weights_)


def test_the_weight_of_a_start_is_told() -> None:
    mixed = short(init="mixed")
    assert mixed.facts()["weight of chains from random labels"] == pytest.approx(mixed.chain_weights_[:3].sum())
    assert "weight of chains from random labels" not in short(init="random").facts()
