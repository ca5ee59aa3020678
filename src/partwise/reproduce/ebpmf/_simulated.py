"""Sparse factors and the counts that they give."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.core.keys import Key
from partwise.empirical_bayes.model import EmpiricalBayesModel
from partwise.poisson.model import PoissonModel
from partwise.priors.mixture import GammaMixture


def mixture(weights: list[float], shapes: list[float], means: list[float]) -> GammaMixture:
    """A prior from plain numbers."""
    return GammaMixture(np.array(weights), np.array(shapes), np.array(means))


# Seven entries of ten are next to nothing, the others of one size.
SPARSE = mixture([0.7, 0.3], [1.0, 2.0], [0.01, 2.0])


def sparse_factors(
    seed: int, n_samples: int, n_features: int, n_components: int, depth: float
) -> tuple[NDArray[np.int64], PoissonModel]:
    """Counts whose samples have about ``depth`` counts each, and the factors behind them."""
    share = depth / (n_features * n_components * SPARSE.mean**2)
    priors = (SPARSE,) * n_components
    model = EmpiricalBayesModel(tuple(prior.scaled(share) for prior in priors), priors)
    counts, factors = model.simulate(Key(seed), n_samples, n_features)
    dense: NDArray[np.int64] = counts.toarray()
    return dense, factors
