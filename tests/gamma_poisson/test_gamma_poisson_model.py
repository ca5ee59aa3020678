"""The Gamma-Poisson model: its generators agree, with each other and with the moments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from partwise import CountMatrix
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.gamma_poisson import GammaPoissonModel
from partwise.gamma_poisson.model import GENERATORS

MODEL = GammaPoissonModel(np.array([[0.6, 3.0], [0.0, 1.0], [2.0, 0.5]]), shape=np.array([0.5, 2.0]), rate=[1.0, 1.5])
N_SAMPLES = 20_000


@pytest.fixture(scope="module")
def samples() -> dict[str, np.ndarray]:
    return {
        name: MODEL.simulate(Key(5).for_chain(number), N_SAMPLES, generator=name).toarray()
        for number, name in enumerate(GENERATORS)
    }


def moments(model: GammaPoissonModel) -> tuple[np.ndarray, np.ndarray]:
    covariance = sum(model.component(k).cov() for k in range(model.shape.size))
    return model.mean(), np.asarray(covariance)


@pytest.mark.parametrize("name", GENERATORS)
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
@pytest.mark.parametrize("name", GENERATORS[1:])
def test_generators_agree_in_distribution(samples: dict[str, np.ndarray], name: str) -> None:
    assert two_sample_p_value(samples[GENERATORS[0]], samples[name]) > 1e-4


def test_two_sample_test_has_power(samples: dict[str, np.ndarray]) -> None:
    # Counts of the same means, with the components' totals drawn apart: features are no longer correlated.
    rng = np.random.default_rng(0)
    X = samples[GENERATORS[0]]
    assert two_sample_p_value(X, np.column_stack([rng.permutation(X[:, f]) for f in range(3)])) < 1e-12
    # NumPy's other convention for the negative binomial's p.
    swapped = GammaPoissonModel(MODEL.dictionary, MODEL.shape, MODEL.dictionary.sum(axis=0) ** 2 / MODEL.rate)
    wrong = swapped.simulate(Key(9), N_SAMPLES, generator=GENERATORS[2]).toarray()
    assert two_sample_p_value(X, wrong) < 1e-12


def test_log_joint() -> None:
    activations = np.array([[0.3, 1.2], [2.0, 0.1]])
    X = np.array([[1.0, 0.0, 3.0], [np.nan, 2.0, 0.0]])
    rates = activations @ MODEL.dictionary.T
    expected = stats.gamma.logpdf(activations, MODEL.shape, scale=1 / MODEL.rate).sum()
    observed = ~np.isnan(X)
    expected += stats.poisson.logpmf(X[observed], rates[observed]).sum()
    assert MODEL.log_joint(CountMatrix.build(X), activations) == pytest.approx(expected, rel=1e-12)
    assert MODEL.log_joint(CountMatrix.build(X), activations * [1.0, 0.0]) == -np.inf


def test_empty_component_and_unknown_generator() -> None:
    empty = GammaPoissonModel(np.array([[1.0, 0.0]]))
    for name in GENERATORS:
        assert empty.simulate(Key(0), 5, generator=name).shape == (5, 1)
    with pytest.raises(InvalidInputError, match="generator must be one of"):
        empty.simulate(Key(0), 5, generator="poisson")
