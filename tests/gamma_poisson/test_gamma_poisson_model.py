"""The Gamma-Poisson model: its draws agree with its moments, and with the two other ways to draw of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from partwise.core.keys import Key
from partwise.gamma_poisson import GammaPoissonModel

MODEL = GammaPoissonModel(np.array([[0.6, 3.0], [0.0, 1.0], [2.0, 0.5]]), shape=np.array([0.5, 2.0]), rate=[1.0, 1.5])
N_SAMPLES = 20_000
OTHERS = ("negative multinomial", "negative binomial and multinomial")


def drawn_by_parts(model: GammaPoissonModel, name: str, rng: np.random.Generator) -> np.ndarray:
    """Counts as a sum over parts: Theorem 1 or Theorem 2 of the paper."""
    counts = np.zeros((N_SAMPLES, len(model.dictionary)), dtype=np.int64)
    for shape, rate, weights in zip(model.shape, model.rate, model.dictionary.T, strict=True):
        if name == OTHERS[0]:
            counts += rng.poisson(rng.gamma(shape, size=(N_SAMPLES, 1)) * weights / rate)
        else:
            lengths = rng.negative_binomial(shape, rate / (weights.sum() + rate), size=N_SAMPLES)
            counts += rng.multinomial(lengths, weights / weights.sum())
    return counts


@pytest.fixture(scope="module")
def samples() -> dict[str, np.ndarray]:
    found = {"": MODEL.simulate(Key(5), N_SAMPLES).toarray()}
    return found | {name: drawn_by_parts(MODEL, name, np.random.default_rng(5)) for name in OTHERS}


def moments(model: GammaPoissonModel) -> tuple[np.ndarray, np.ndarray]:
    covariance = np.zeros((3, 3))
    for shape, rate, weights in zip(model.shape, model.rate, model.dictionary.T, strict=True):
        covariance += shape * (np.diag(weights / rate) + np.outer(weights, weights) / rate**2)
    return model.mean(), covariance


@pytest.mark.parametrize("name", ["", *OTHERS])
def test_moments(samples: dict[str, np.ndarray], name: str) -> None:
    X = samples[name]
    mean, covariance = moments(MODEL)
    # Six moments and more within 5 standard errors each: a false alarm in 100,000 runs.
    assert np.all(np.abs(X.mean(axis=0) - mean) < 5 * np.sqrt(np.diag(covariance) / N_SAMPLES))
    centred = X - mean
    products = centred[:, :, None] * centred[:, None, :]
    errors = products.std(axis=0) / np.sqrt(N_SAMPLES)
    assert np.all(np.abs(products.mean(axis=0) - covariance) < 5 * errors)


def two_sample_p_value(left: np.ndarray, right: np.ndarray) -> float:
    """Chi-squared test of the joint distribution of counts, cut off at 3: 64 cells."""
    tables = [np.bincount(np.minimum(X, 3) @ [16, 4, 1], minlength=64) for X in (left, right)]
    cells = np.array(tables)[:, np.sum(tables, axis=0) >= 20]
    return float(stats.chi2_contingency(cells).pvalue)


# False alarm: one in 10,000 for each pair.
@pytest.mark.parametrize("name", OTHERS)
def test_all_ways_to_draw_agree_in_distribution(samples: dict[str, np.ndarray], name: str) -> None:
    assert two_sample_p_value(samples[""], samples[name]) > 1e-4


def test_two_sample_test_has_power(samples: dict[str, np.ndarray]) -> None:
    # Counts of the same means, with the components' totals drawn apart: features are no longer correlated.
    rng = np.random.default_rng(0)
    X = samples[""]
    assert two_sample_p_value(X, np.column_stack([rng.permutation(X[:, f]) for f in range(3)])) < 1e-12
    # NumPy's other convention for the negative binomial's p.
    swapped = GammaPoissonModel(MODEL.dictionary, MODEL.shape, MODEL.dictionary.sum(axis=0) ** 2 / MODEL.rate)
    wrong = drawn_by_parts(swapped, OTHERS[1], rng)
    assert two_sample_p_value(X, wrong) < 1e-12


def test_an_empty_component_adds_nothing() -> None:
    with_empty = GammaPoissonModel(np.array([[1.0, 0.0], [2.0, 0.0]]))
    np.testing.assert_allclose(with_empty.mean(), [1.0, 2.0])
    assert with_empty.simulate(Key(0), 5).shape == (5, 2)
