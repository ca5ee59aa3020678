"""Concentrations of Dirichlet (and beta) priors, drawn given counts of labels: an exact Gibbs step.

Given the labels, a Dirichlet factor gives Π_k Γ(α_k + count_k) / Γ(α_+ + size) in each row, up to a constant. These are
products of rising factors, so all that is needed of the counts is how many of them exceed 0, 1, 2 and so on.

Counts in a row are as if its labels had been seated in a Chinese restaurant: label i + 1 opens a table with probability
α / (α + i). Given the number of tables, and -Σ log q with q ~ Beta(α_+, size of the row), a concentration with a gamma
prior is gamma distributed (Escobar & West 1995; Teh et al. 2006). Tables that open at i are binomial over the rows that
exceed i, and -log q is a sum of exponentials with rates α_+ + i, which makes sums over rows gamma distributed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.arrays import Floats


def exceeding(counts: NDArray[np.integer], size: int | None = None) -> NDArray[np.int64]:
    """How many rows have a count above i: components x i, for rows x components counts.

    Parameters
    ----------
    counts
        Rows x components.
    size
        Number of i; None = as many as the largest count needs.

    Examples
    --------
    >>> exceeding(np.array([[2, 0], [1, 3]]))
    array([[2, 1, 0],
           [1, 1, 1]])
    """
    n_components = counts.shape[1]
    size = (int(counts.max(initial=0)) if size is None else size) + 1
    places = counts + size * np.arange(n_components)
    found = np.bincount(places.ravel(), minlength=n_components * size).reshape(n_components, size)
    above: NDArray[np.int64] = found[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    return above


def tables(generator: np.random.Generator, above: NDArray[np.int64], concentration: Floats) -> Floats:
    """Tables that were opened, of each component."""
    # Few components have a large count: the others take no draw there.
    components, sizes = np.nonzero(above)
    base = concentration[components]
    drawn = generator.binomial(above[components, sizes], base / (base + sizes))
    return np.asarray(np.bincount(components, drawn, minlength=concentration.size), dtype=np.float64)


def waits(generator: np.random.Generator, above: NDArray[np.int64], concentration: Floats) -> Floats:
    """-Σ over rows of log q, of each row of ``above``."""
    rates = concentration[:, None] + np.arange(above.shape[1])
    return np.asarray((generator.standard_gamma(above) / rates).sum(axis=1))
