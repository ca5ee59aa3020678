"""The models themselves: densities against SciPy, simulation against expectation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from partwise.binary.model import KINDS, BinaryModel
from partwise.core.keys import Key
from partwise.errors import InvalidInputError


def model_of(kind: Any) -> BinaryModel:
    return BinaryModel(kind, 3, alpha=1.7, beta=0.8, concentration=0.6, activation_concentration=1.4)


@pytest.mark.parametrize("kind", KINDS)
def test_log_prior(kind: str) -> None:
    """Of log odds and logarithms: SciPy's density of a factor, times the derivative of the factor."""
    model = model_of(kind)
    _, h, w = model.simulate(Key(0), 7, 5)

    def beta(factor: np.ndarray) -> float:
        return float((stats.beta(1.7, 0.8).logpdf(factor) + np.log(factor) + np.log1p(-factor)).sum())

    def dirichlet(factor: np.ndarray, concentration: float) -> float:
        own = stats.dirichlet(np.full(3, concentration))
        return float(sum(own.logpdf(row) + np.log(row).sum() for row in factor))

    expected = {
        "beta-dir": lambda: beta(h) + dirichlet(w, 0.6),
        "dir-beta": lambda: beta(w) + dirichlet(h, 0.6),
        "dir-dir": lambda: dirichlet(w, 0.6) + dirichlet(h, 1.4),
    }[kind]()
    assert np.isclose(model.log_prior(h, w), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_simulated_bits_have_the_expected_mean(kind: str) -> None:
    model = model_of(kind)
    means = [model.simulate(Key(seed), 8, 8).bits.mean() for seed in range(400)]
    expected = 1 / 3 if kind == "dir-dir" else 1.7 / 2.5
    # 4.5 standard errors: a false alarm in 150,000 seeds
    assert abs(np.mean(means) - expected) < 4.5 * np.std(means) / np.sqrt(400)
    _, h, w = model.simulate(Key(0), 8, 9)
    assert h.shape == (8, 3)
    assert w.shape == (9, 3)


def test_one_component_of_dir_dir_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="n_components=1"):
        BinaryModel("dir-dir", 1)
