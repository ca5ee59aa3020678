"""The models themselves: densities against SciPy, simulation against expectation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from partwise.binary.model import KINDS, BinaryModel
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.errors import InvalidInputError


def model_of(kind: Any) -> BinaryModel:
    return BinaryModel(kind, 3, alpha=1.7, beta=0.8, concentration=0.6, activation_concentration=1.4)


@pytest.mark.parametrize("kind", KINDS)
def test_log_joint(kind: str) -> None:
    model = model_of(kind)
    bits, h, w = model.simulate(Key(0), 7, 5)
    X = bits.astype(float)
    X[2, 3] = X[4] = np.nan
    p = h @ w.T
    expected = np.nansum(np.where(X == 1, np.log(p), np.log1p(-p)) * np.where(np.isnan(X), np.nan, 1))
    data = BinaryMatrix.build(X)
    assert np.isclose(model.log_likelihood(data, h, w), expected)

    def beta(factor: np.ndarray) -> float:
        return float(stats.beta(1.7, 0.8).logpdf(factor).sum())

    def dirichlet(factor: np.ndarray, concentration: float) -> float:
        return float(sum(stats.dirichlet(np.full(3, concentration)).logpdf(row) for row in factor))

    expected += {
        "beta-dir": lambda: beta(h) + dirichlet(w, 0.6),
        "dir-beta": lambda: beta(w) + dirichlet(h, 0.6),
        "dir-dir": lambda: dirichlet(w, 0.6) + dirichlet(h, 1.4),
    }[kind]()
    assert np.isclose(model.log_joint(data, h, w), expected)


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


def test_mirror_image() -> None:
    bits, h, w = model_of("beta-dir").simulate(Key(1), 6, 4)
    here = model_of("beta-dir").log_joint(BinaryMatrix.build(bits), h, w)
    there = model_of("dir-beta").log_joint(BinaryMatrix.build(bits.T), w, h)
    assert np.isclose(here, there)


def test_impossible_bits_have_probability_zero() -> None:
    model = BinaryModel("beta-dir", 1)
    assert model.log_likelihood(BinaryMatrix.build([[1.0]]), np.zeros((1, 1)), np.ones((1, 1))) == -np.inf


def test_one_component_of_dir_dir_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="n_components=1"):
        BinaryModel("dir-dir", 1)
