"""First and second moments of the factors given counts of labels, and of the cells' probabilities given these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.binary.model import BinaryModel

Floats = NDArray[np.float64]
Numbers = NDArray[np.int32] | Floats


class Moments(NamedTuple):
    """Means of a factor, its variances, and for a Dirichlet factor the precision of each row (None for a beta one)."""

    mean: Floats
    variance: Floats
    precision: Floats | None

    def rows(self, start: int, stop: int) -> Moments:
        """Those of some rows."""
        precision = None if self.precision is None else self.precision[start:stop]
        return Moments(self.mean[start:stop], self.variance[start:stop], precision)


def beta_moments(counts: Numbers, alpha: float, beta: float) -> Moments:
    """Of h_nk ~ Beta(alpha + ones, beta + zeros), counts being rows x components x bit (Eq. 27, 29)."""
    ones, zeros = alpha + counts[..., 1], beta + counts[..., 0]
    both = ones + zeros
    mean = ones / both
    return Moments(mean, mean * (zeros / both) / (both + 1.0), None)


def dirichlet_moments(counts: Numbers, concentration: float) -> Moments:
    """Of w_f. ~ Dirichlet(concentration + counts): its precision counts observed cells alone (Eq. 26, 28)."""
    parameters = concentration + counts
    precision = parameters.sum(axis=1)
    mean = parameters / precision[:, None]
    return Moments(mean, mean * (1.0 - mean) / (precision[:, None] + 1.0), precision)


def row_moments(model: BinaryModel, counts: Numbers) -> Moments:
    """Of the factor of the rows: beta, or for Dir-Dir Dirichlet."""
    if model.kind == "dir-dir":
        return dirichlet_moments(counts, model.activation_concentration)
    return beta_moments(counts, model.alpha, model.beta)


def cell_moments(rows: Moments, columns: Moments) -> tuple[Floats, Floats]:
    """E[p] and E[p²] of p = Σ_k w_k h_k for every cell, the two factors being independent.

    With s the precision of w and m its mean, E[w_k w_l] = (s m_k m_l + [k = l] m_k) / (s + 1); h the same, or, for a
    beta factor, independent over k.
    """
    assert columns.precision is not None
    mean, s = columns.mean, columns.precision[None, :]
    first = rows.mean @ mean.T
    if rows.precision is None:
        squares = (rows.mean**2 + rows.variance) @ mean.T
        spread = rows.variance @ (mean**2).T
        return first, (s * (first**2 + spread) + squares) / (s + 1.0)
    t = rows.precision[:, None]
    cross = s * (rows.mean @ (mean**2).T) + t * ((rows.mean**2) @ mean.T)
    return first, (s * t * first**2 + cross + first) / ((s + 1.0) * (t + 1.0))
