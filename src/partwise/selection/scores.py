"""Scores of one fit, row by row, in nats: thinned counts, and held-out cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.poisson.model import cell_rates
from partwise.selection.folds import N_FOLDS, BitFold, CountFold

Floats = NDArray[np.float64]

SMOOTHING = 1e-3
"""Share of a prediction that goes by the totals of rows and columns alone, the same for all models: maximum likelihood
has rates of 0, and certain bits, where something else is seen."""

# Of the totals: a row, or a column, that has nothing in the training data may have something held out.
_ROW_EXTRA, _COLUMN_EXTRA = 0.5, 0.01


def train_activations(model: Any, train: Any) -> Floats:
    """Activations of the training rows: those that the fit has left, or what the model finds for its dictionary."""
    stored = getattr(model, "activations_", None)
    return np.asarray(model.transform(train) if stored is None else stored, dtype=np.float64)


def thinned_rows(model: Any, fold: CountFold) -> Floats:
    """Poisson log-likelihood of each row's held-out counts, under the fitted rates scaled by 1/4.

    Parameters
    ----------
    model
        Fitted to ``fold.train``.
    fold
        Training and held-out counts.
    """
    activations, dictionary = train_activations(model, fold.train), model.components_.T
    held = fold.held_out.tocoo()
    row_totals = np.asarray(fold.train.matrix.sum(axis=1), dtype=np.float64) + _ROW_EXTRA
    column_totals = np.asarray(fold.train.matrix.sum(axis=0), dtype=np.float64) + _COLUMN_EXTRA
    column_shares = column_totals / column_totals.sum()
    odds = 1.0 / (N_FOLDS - 1.0)
    rows, columns = held.coords
    plain = row_totals[rows] * column_shares[columns]
    mixed = odds * ((1.0 - SMOOTHING) * cell_rates(activations, dictionary, rows, columns) + SMOOTHING * plain)
    expected = (1.0 - SMOOTHING) * (activations @ dictionary.sum(axis=0)) + SMOOTHING * row_totals
    if fold.train.missing is not None:
        hidden = fold.train.missing.tocoo()
        at, of = hidden.coords
        absent = (1.0 - SMOOTHING) * cell_rates(activations, dictionary, at, of)
        absent += SMOOTHING * row_totals[at] * column_shares[of]
        expected = expected - np.bincount(at, weights=absent, minlength=expected.size)
    logs = held.data * np.log(mixed) - gammaln(held.data + 1.0)
    return np.asarray(np.bincount(rows, weights=logs, minlength=expected.size) - odds * expected)


def cell_rows(model: Any, fold: BitFold) -> Floats:
    """Sum over each row's held-out cells of the log probability of what they hold.

    Parameters
    ----------
    model
        Fitted to ``fold.train``. A model of counts predicts by its rates, cut off at 1.
    fold
        Training bits and held-out cells.
    """
    cells = fold.rows, fold.columns
    if hasattr(model, "predict_proba"):
        found = model.predict_proba(cells=cells)
    else:
        found = np.minimum(cell_rates(train_activations(model, fold.train), model.components_.T, *cells), 1.0)
    n_rows = fold.train.shape[0]
    seen = n_rows - np.asarray(fold.train.missing.sum(axis=0), dtype=np.float64)
    plain = (np.asarray(fold.train.matrix.sum(axis=0), dtype=np.float64) + 0.5) / (seen + 1.0)
    ones = (1.0 - SMOOTHING) * found + SMOOTHING * plain[fold.columns]
    logs = np.where(fold.bits, np.log(ones), np.log1p(-ones))
    return np.bincount(fold.rows, weights=logs, minlength=n_rows).astype(np.float64)
