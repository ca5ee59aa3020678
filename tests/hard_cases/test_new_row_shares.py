"""How far the shares of parts in new rows are from exact posterior means, as the page of the allocation model says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partwise.allocation.inference.new_rows import expected_activations
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.engines import resolve_engine
from partwise.kernels.arrays import Floats
from partwise.likelihood import posterior_moments

N_ROWS, N_FEATURES, N_PARTS = 60, 60, 4


def distinct(rng: np.random.Generator) -> Floats:
    return rng.dirichlet(np.full(N_FEATURES, 0.05), N_PARTS).T


def alike(rng: np.random.Generator) -> Floats:
    return rng.dirichlet(np.full(N_FEATURES, 0.5), N_PARTS).T


def nearly_equal(rng: np.random.Generator) -> Floats:
    dictionary = alike(rng)
    dictionary[:, 1::2] = 0.7 * dictionary[:, ::2] + 0.3 * dictionary[:, 1::2]
    return dictionary


# Mean distances over ten data sets, half of the sum of absolute differences of shares. The page has these, rounded.
MEANS = {
    (distinct, 15, 0.05): 0.0054,
    (distinct, 15, 0.5): 0.0036,
    (distinct, 60, 0.05): 0.0036,
    (distinct, 60, 0.5): 0.0028,
    (alike, 15, 0.05): 0.0443,
    (alike, 15, 0.5): 0.0139,
    (alike, 60, 0.05): 0.0268,
    (alike, 60, 0.5): 0.0150,
    (nearly_equal, 15, 0.05): 0.0906,
    (nearly_equal, 15, 0.5): 0.0286,
    (nearly_equal, 60, 0.05): 0.1013,
    (nearly_equal, 60, 0.5): 0.0323,
}


def mean_distance(kind: Any, length: int, concentration: float, seed: int) -> float:
    rng = np.random.default_rng(seed)
    dictionary = kind(rng)
    beta = np.full(N_PARTS, concentration)
    rates = rng.dirichlet(beta, N_ROWS) @ dictionary.T
    counts = np.array([rng.multinomial(length, row / row.sum()) for row in rates])
    model = AllocationModel(N_FEATURES, N_PARTS, np.full(N_FEATURES, 0.1), beta)
    found = expected_activations(CountMatrix.build(counts), model, dictionary, resolve_engine())
    exact = posterior_moments(counts, dictionary, beta, 1.0).totals + beta
    difference = found / found.sum(axis=1, keepdims=True) - exact / exact.sum(axis=1, keepdims=True)
    return float(0.5 * np.abs(difference).sum(axis=1).mean())


@pytest.mark.parametrize(("kind", "length", "concentration"), MEANS)
def test_distance_from_exact_shares(kind: Any, length: int, concentration: float) -> None:
    found = np.mean([mean_distance(kind, length, concentration, seed) for seed in range(20, 30)])
    # Half of the last digit, and single precision.
    assert found == pytest.approx(MEANS[kind, length, concentration], abs=2e-4)
