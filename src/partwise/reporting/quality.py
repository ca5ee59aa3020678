"""How much of the data a model explains: deviance, against that of a model without parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from partwise.core.data import SparseData

Floats = NDArray[np.float64]

_MOST_CELLS = 40_000_000
_CELLS_AT_ONCE = 2_000_000
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Quality:
    """Share of the deviance that the parts explain.

    Attributes
    ----------
    explained
        1 - deviance / deviance of the model without parts, in all.
    by_sample
        The same for each sample that was looked at (0 where the model without parts leaves none).
    rows
        These samples: all of them, or evenly spaced ones of large data.
    """

    explained: float
    by_sample: Floats
    rows: NDArray[np.int64]


def deviance_explained(model: Any, data: SparseData, activations: Floats) -> Quality:
    """Deviance of the data under expected values of the model, against rows and columns alone.

    The model without parts is, for counts, the product of row and column sums; for bits, the frequency of each feature.

    Parameters
    ----------
    model
        Fitted estimator.
    data
        Checked data.
    activations
        Of these data.
    """
    n_samples, n_features = data.shape
    n_rows = int(min(n_samples, max(1, _MOST_CELLS // n_features)))
    rows = np.unique(np.linspace(0, n_samples - 1, n_rows).astype(np.int64))
    is_binary = model.declares.data == "bits"
    matrix, missing = data.to_scipy(), data.missing_matrix()
    frequencies = data.column_sums / np.maximum(n_samples - np.asarray(missing.sum(axis=0)).ravel(), 1)
    ours, without = np.zeros(rows.size), np.zeros(rows.size)
    at_once = max(1, _CELLS_AT_ONCE // n_features)
    for start in range(0, rows.size, at_once):
        part = rows[start : start + at_once]
        observed = matrix[part].toarray().astype(np.float64)
        seen = ~missing[part].toarray() if data.n_missing else np.ones(observed.shape, dtype=bool)
        expected = np.maximum(model.expected(activations[part]), 0.0)
        plain = np.where(seen, frequencies, 0.0)
        if not is_binary:
            plain *= (observed.sum(axis=1) / np.maximum(plain.sum(axis=1), _LEAST))[:, None]
        deviance = _bernoulli if is_binary else _poisson
        ours[start : start + at_once] = np.where(seen, deviance(observed, expected), 0.0).sum(axis=1)
        without[start : start + at_once] = np.where(seen, deviance(observed, plain), 0.0).sum(axis=1)
    by_sample = np.divide(without - ours, without, out=np.zeros_like(ours), where=without > _LEAST)
    total = float(without.sum())
    return Quality((total - float(ours.sum())) / total if total > 0 else 0.0, by_sample, rows)


def _poisson(observed: Floats, expected: Floats) -> Floats:
    """2 (x log(x / rate) - x + rate), a cell."""
    rate = np.maximum(expected, _LEAST)
    found: Floats = 2.0 * (xlogy(observed, observed / rate) - observed + rate)
    return found


def _bernoulli(observed: Floats, expected: Floats) -> Floats:
    """-2 log-likelihood, a cell."""
    probability = np.clip(expected, _LEAST, 1.0 - _LEAST)
    found: Floats = -2.0 * np.log(np.where(observed > 0, probability, 1.0 - probability))
    return found
