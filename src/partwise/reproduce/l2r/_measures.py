"""How far estimated probabilities of documents are from the exact ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def divergence(exact: Floats, estimated: Floats) -> float:
    """Kullback-Leibler divergence of log probabilities of documents, Σ p log(p / q) - p + q, over Σ p.

    The paper sums p log(p / q) alone. Over a sample of documents p and q do not sum to 1 (it has a corpus of a single
    document), so that sum can be negative; with - p + q it is a divergence, and the same where they do sum to 1.
    """
    weights = np.exp(exact - exact.max())
    ratio = estimated - exact
    with np.errstate(over="ignore"):
        terms = weights * (np.expm1(ratio) - ratio)
    return float(terms.sum() / weights.sum())


def root_mean_square(errors: Floats) -> float:
    """``sqrt(mean(errors²))``."""
    return float(np.sqrt(np.mean(np.square(errors))))
