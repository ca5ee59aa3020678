"""Gamma-Poisson given the lengths is latent Dirichlet allocation: the two likelihoods differ by that of the length."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import nbinom

from partwise.likelihood import annealed, auto, exact, smc

DICTIONARY = np.array([[0.5, 0.1, 0.2], [0.3, 0.2, 0.0], [0.2, 0.7, 0.8]])  # columns sum to 1
CONCENTRATION = np.array([0.4, 1.3, 0.8])
RATE = 0.6
ROWS = np.array([[2, 1, 1], [0, 0, 3], [4, 0, 1], [0, 0, 0]])


def _lda_by_enumeration(counts: Any) -> float:
    """Log p(counts | length) with h ~ Dirichlet: over all labels of the tokens, each a Pólya urn, and all orders."""
    tokens = np.repeat(np.arange(counts.size), counts)
    total = 0.0
    for labels in itertools.product(range(CONCENTRATION.size), repeat=tokens.size):
        sizes = np.bincount(np.array(labels, dtype=int), minlength=CONCENTRATION.size)
        urn = gammaln(CONCENTRATION + sizes) - gammaln(CONCENTRATION)
        urn_total = gammaln(CONCENTRATION.sum()) - gammaln(CONCENTRATION.sum() + tokens.size)
        total += np.exp(urn.sum() + urn_total) * np.prod(DICTIONARY[tokens, np.array(labels, dtype=int)])
    orders = gammaln(tokens.size + 1.0) - gammaln(counts + 1.0).sum()
    return float(np.log(total) + orders)


def _log_length(length: Any, shape: float, rate: float) -> Any:
    """Log NB(length; shape, p = 1 / (1 + rate)) (MATH 1, iii); scipy takes 1 - p."""
    return nbinom.logpmf(length, shape, rate / (1.0 + rate))


def test_given_its_length_a_row_is_a_document_of_lda() -> None:
    lengths = ROWS.sum(axis=1)
    found = exact(ROWS, DICTIONARY, CONCENTRATION, RATE).values - _log_length(lengths, CONCENTRATION.sum(), RATE)
    np.testing.assert_allclose(found, [_lda_by_enumeration(row) for row in ROWS], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("length_shape", "length_rate"), [(2.5, RATE), (100.0, 7.0)])
def test_allocation_model(length_shape: float, length_rate: float) -> None:
    """MATH 3: log p_GaP(x) - log NB(L; beta_+, b) + log NB(L; a, b) is log p(x) of the allocation model given W."""
    lengths = ROWS.sum(axis=1)
    gap = exact(ROWS, DICTIONARY, CONCENTRATION, RATE).values
    found = gap - _log_length(lengths, CONCENTRATION.sum(), RATE) + _log_length(lengths, length_shape, length_rate)
    # The allocation model: a length from its gamma-Poisson, then a document of LDA of that length.
    wanted = [
        _log_length(length, length_shape, length_rate) + _lda_by_enumeration(row)
        for length, row in zip(lengths, ROWS, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_the_rate_does_not_matter_given_the_length() -> None:
    lengths = ROWS.sum(axis=1)
    values = [
        exact(ROWS, DICTIONARY, CONCENTRATION, rate).values - _log_length(lengths, CONCENTRATION.sum(), rate)
        for rate in (1e-3, 1.0, 50.0)
    ]
    np.testing.assert_allclose(values[1:], [values[0]] * 2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("estimator", [smc, annealed, auto])
def test_sampled_likelihoods_of_lda(estimator: Any) -> None:
    lengths = ROWS.sum(axis=1)
    settings = {"max_cost": 0.0} if estimator is auto else {}
    result = estimator(ROWS, DICTIONARY, CONCENTRATION, RATE, rng=0, **settings)
    found = result.values - _log_length(lengths, CONCENTRATION.sum(), RATE)
    wanted = np.array([_lda_by_enumeration(row) for row in ROWS])
    assert (np.abs(found - wanted) <= 5 * result.std_errors + 1e-9).all()


def test_scales_of_dictionary_and_rate_cancel() -> None:
    """p(X | W diag(s), b s) = p(X | W, b)."""
    scales = np.array([1e-3, 2.0, 1e4])
    np.testing.assert_allclose(
        exact(ROWS, DICTIONARY * scales, CONCENTRATION, RATE * scales).values,
        exact(ROWS, DICTIONARY, CONCENTRATION, RATE).values,
        rtol=1e-12,
    )
