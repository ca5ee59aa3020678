"""Rates of features in parts: maxima of their penalised likelihood, with the curvature there."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.core.data import CountMatrix
from partwise.passes.rate_kernels import feature_rates


@pytest.mark.parametrize("pseudocount", [0.1, 2.0])
def test_rates_are_stationary_and_have_their_curvature(rng: np.random.Generator, pseudocount: float) -> None:
    """In log p the gradient of the objective of the docstring is 0, feature by feature."""
    activations = rng.gamma(0.7, 2.0, (30, 3))
    X = rng.poisson(activations @ rng.gamma(1.0, 1.0, (3, 8)))
    X[:, 5] = 0
    by_feature = CountMatrix.build(X).transposed
    exposures = rng.uniform(0.5, 1.5, (8, 1)) * activations.sum(axis=0)
    rates, covariances = np.full((8, 3), 0.3), np.full((8, 3, 3), np.nan)
    cells = by_feature.indptr, by_feature.indices, by_feature.values
    feature_rates(cells, activations, exposures, pseudocount, 0, 8, (rates, covariances))
    for f in range(8):
        if f == 5:
            assert not rates[f].any()
            assert not covariances[f].any()
            continue
        own, p = X[:, f], rates[f]
        expected = activations @ p
        shrink = pseudocount / (own.sum() / exposures[f].sum())
        gradient = p * ((own / expected) @ activations) + pseudocount - (exposures[f] + shrink) * p
        np.testing.assert_allclose(gradient, 0.0, atol=1e-5 * (own.sum() + pseudocount))
        curvature = np.outer(p, p) * ((activations.T / expected**2 * own) @ activations)
        covariance = np.linalg.inv(pseudocount * np.eye(3) + curvature)
        np.testing.assert_allclose(covariances[f], covariance, rtol=1e-4, atol=1e-8)
