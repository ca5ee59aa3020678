"""With more free parameters than counts, maximum likelihood overfits: the status says so, and names what predicts."""

from __future__ import annotations

import numpy as np
import pytest

from partwise import GammaPoissonNMF, PoissonNMF
from partwise.contract.heldout import Background, ThinnedCounts, poisson_rows
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.selection.fitting import count_fold


@pytest.fixture(scope="module")
def fold() -> ThinnedCounts:
    """About 2,000 counts of 100 samples and 150 features from three parts; a fifth is held out."""
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(150, 0.2), size=3)
    counts = rng.poisson(20.0 * rng.dirichlet(np.full(3, 0.2), size=100) @ parts)
    return count_fold(CountMatrix.build(counts), Key(0), 0)


def loss(model: object, fold: ThinnedCounts, smoothing: float = 1e-3) -> float:
    return float(-poisson_rows(model, fold, smoothing).sum() / fold.size)


def test_a_fit_with_more_free_numbers_than_counts_says_what_to_use(fold: ThinnedCounts) -> None:
    model = PoissonNMF(10, random_state=0).fit(fold.train)
    told = f"But there are more free parameters (2,490) than counts ({fold.train.to_scipy().sum():,}): to predict, fit"
    assert told in model.status_.message
    assert "GammaPoissonNMF or AllocationNMF" in model.status_.message
    assert model.status_.converged
    assert "But" not in PoissonNMF(3, random_state=0).fit(fold.train).status_.message


def test_amounts_that_are_no_counts_are_not_compared_with_free_numbers(fold: ThinnedCounts) -> None:
    shares = fold.train.to_scipy() / fold.train.to_scipy().sum()
    assert "But" not in PoissonNMF(10, random_state=0).fit(shares).status_.message


def test_what_the_status_warns_of_is_true(fold: ThinnedCounts) -> None:
    """Its rates predict worse than totals of rows and columns alone; those of the model that it names do not."""
    overfitted = PoissonNMF(10, random_state=0).fit(fold.train)
    popularity = loss(overfitted, fold, smoothing=1.0)  # all of the prediction follows totals
    totals = Background.of(fold.train)
    by_hand = fold.odds * np.outer(totals.row_totals, totals.column_shares)
    held = fold.held_out.tocoo()
    assert popularity == pytest.approx(
        (by_hand.sum() - held.data @ np.log(by_hand[held.coords]) + log_factorials(held.data)) / fold.size
    )
    assert loss(overfitted, fold) > popularity
    assert loss(GammaPoissonNMF(10, random_state=0).fit(fold.train), fold) < popularity


def log_factorials(counts: np.ndarray) -> float:
    return float(sum(np.log(np.arange(1, n + 1)).sum() for n in counts))
