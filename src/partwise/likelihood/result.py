"""What a likelihood estimator gives back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LogLikelihood:
    """Estimated log p(x) of each row, in nats.

    Attributes
    ----------
    values
        Log-likelihood of each row; -inf where a row has a count that the model makes impossible.
    std_errors
        Standard error of each value; 0 where it is exact, infinite where nothing could be learnt.
    ess
        Effective sample size of the particles or draws behind each value; inf where it is exact.
    """

    values: Floats
    std_errors: Floats
    ess: Floats

    @property
    def total(self) -> float:
        """Log-likelihood of all rows together."""
        return float(self.values.sum())

    @property
    def total_std_error(self) -> float:
        """Standard error of `total`: rows have independent streams."""
        return float(np.sqrt(np.sum(np.square(self.std_errors))))


def log_mean(logs: Floats) -> tuple[Floats, Floats, Floats]:
    """Log of the mean of each row's exponentials, its standard error, and the effective number of terms.

    The terms of a row are independent and of equal expectation: draws, annealed runs or islands. Where all of them are
    zero, nothing is known: the error is infinite.
    """
    n_terms = logs.shape[1]
    top = logs.max(axis=1, keepdims=True)
    known = top[:, 0] > -np.inf
    terms = np.exp(logs - np.where(known[:, None], top, 0.0))
    mean = np.where(known, terms.mean(axis=1), 1.0)
    errors = terms.std(axis=1, ddof=1) / (mean * np.sqrt(n_terms))
    ess = np.where(known, n_terms * mean**2, 0.0) / np.where(known, np.square(terms).mean(axis=1), 1.0)
    return top[:, 0] + np.log(mean), np.where(known, errors, np.inf), ess
