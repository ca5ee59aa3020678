"""Negative-binomial factorization as a model: x_nf ~ Poisson(ε_nf Σ_k h_nk w_fk), ε_nf ~ Gamma(r, r)."""

from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from partwise.kernels.arrays import Floats


def log_probabilities(counts: Floats, rates: Floats, sizes: Any) -> Floats:
    """Log probability of each count, with mean ``rates`` and variance ``rates + rates² / sizes``.

    Parameters
    ----------
    counts, rates, sizes
        Arrays that go together by NumPy's rules.
    """
    logs = gammaln(counts + sizes) - gammaln(sizes) - gammaln(counts + 1.0)
    return np.asarray(logs - sizes * np.log1p(rates / sizes) + xlogy(counts, rates / (rates + sizes)))


def draw(rates: Floats, sizes: Any, generator: np.random.Generator) -> Floats:
    """Counts with these means and sizes.

    Parameters
    ----------
    rates, sizes
        Arrays that go together by NumPy's rules.
    generator
        Source of random numbers.
    """
    noise = generator.gamma(np.broadcast_to(sizes, rates.shape)) / sizes
    return np.asarray(generator.poisson(np.maximum(rates, 0.0) * noise), dtype=np.float64)
