"""Negative-binomial factorization as a model: x_nf ~ Poisson(ε_nf Σ_k h_nk w_fk), ε_nf ~ Gamma(r, r)."""

from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from partwise.kernels.arrays import Floats

# From here on, two terms of the series of log Γ are exact to double precision.
_LARGE = 100.0


def log_probabilities(counts: Floats, rates: Floats, sizes: Any) -> Floats:
    """Log probability of each count, with mean ``rates`` and variance ``rates + rates² / sizes``.

    Parameters
    ----------
    counts, rates, sizes
        Arrays that go together by NumPy's rules.
    """
    sizes = np.asarray(sizes, dtype=np.float64)
    large, total = np.maximum(sizes, _LARGE), counts + np.maximum(sizes, _LARGE)
    # The difference by Stirling's series: that of two large logarithms would lose digits.
    series = (large - 0.5) * np.log1p(counts / large) + xlogy(counts, total) - counts
    series += (1.0 / total - 1.0 / large) / 12.0 - (total**-3.0 - large**-3.0) / 360.0
    rising = np.where(sizes < _LARGE, gammaln(counts + sizes) - gammaln(sizes), series)
    return np.asarray(
        rising - gammaln(counts + 1.0) - sizes * np.log1p(rates / sizes) + xlogy(counts, rates / (rates + sizes))
    )


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
