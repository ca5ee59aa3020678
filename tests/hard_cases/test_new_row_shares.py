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


# Most that the mean over rows may be: half of the sum of absolute differences. The page rounds these.
BOUNDS = {
    (distinct, 15, 0.05): 0.003,
    (distinct, 15, 0.5): 0.003,
    (distinct, 60, 0.05): 0.003,
    (distinct, 60, 0.5): 0.002,
    (alike, 15, 0.05): 0.05,
    (alike, 15, 0.5): 0.02,
    (alike, 60, 0.05): 0.03,
    (alike, 60, 0.5): 0.02,
    (nearly_equal, 15, 0.05): 0.10,
    (nearly_equal, 15, 0.5): 0.04,
    (nearly_equal, 60, 0.05): 0.10,
    (nearly_equal, 60, 0.5): 0.04,
}


@pytest.mark.parametrize(("kind", "length", "concentration"), BOUNDS)
def test_distance_from_exact_shares(kind: Any, length: int, concentration: float) -> None:
    rng = np.random.default_rng(7)
    dictionary = kind(rng)
    beta = np.full(N_PARTS, concentration)
    rates = rng.dirichlet(beta, N_ROWS) @ dictionary.T
    counts = np.array([rng.multinomial(length, row / row.sum()) for row in rates])
    model = AllocationModel(N_FEATURES, N_PARTS, np.full(N_FEATURES, 0.1), beta)
    found = expected_activations(CountMatrix.build(counts), model, dictionary, resolve_engine())
    exact = posterior_moments(counts, dictionary, beta, 1.0).totals + beta
    distance = 0.5 * np.abs(found / found.sum(axis=1)[:, None] - exact / exact.sum(axis=1)[:, None]).sum(axis=1)
    assert distance.mean() <= BOUNDS[kind, length, concentration]
