"""Data held out of a fit, and their score: row by row, in nats, under a model's own noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from partwise.core.data import BinaryMatrix, CountMatrix, SparseData
from partwise.kernels.arrays import Bools, Floats, Positions

SMOOTHING = 1e-3
"""Every prediction is mixed with this share of a background that follows row and column totals alone. Without it,
maximum likelihood can give probability 0 to something that is observed."""

# Added to the totals: a row or column without training counts may still have held-out counts.
_ROW_EXTRA, _COLUMN_EXTRA = 0.5, 0.01


@dataclass(frozen=True, eq=False)
class ThinnedCounts:
    """Counts to fit, and counts of the same cells that were held out.

    The two are independent if the noise is the one they were split for.

    Attributes
    ----------
    train
        What the model is fitted to.
    held_out
        Held-out counts, a sparse matrix of the same shape.
    odds
        Expected held-out counts per training count.
    noise
        Size r of the negative-binomial noise that they were split for; infinite = Poisson.
    """

    train: CountMatrix
    held_out: Any
    odds: float
    noise: float = np.inf

    @property
    def size(self) -> float:
        """Number of held-out tokens."""
        return float(self.held_out.sum())


@dataclass(frozen=True, eq=False)
class HiddenCells:
    """Training data with some cells hidden, the rows and columns of these cells, and their bits or counts."""

    train: CountMatrix | BinaryMatrix
    rows: Positions
    columns: Positions
    bits: Bools
    counts: Floats | None = None

    @property
    def size(self) -> float:
        """Number of held-out cells, or tokens in them."""
        return float(self.rows.size if self.counts is None else self.counts.sum())


@dataclass(frozen=True, eq=False)
class Background:
    """Expected counts from row and column totals alone. Every prediction is mixed with them."""

    row_totals: Floats
    column_shares: Floats

    @classmethod
    def of(cls, train: SparseData) -> Background:
        """The background for training counts."""
        columns = train.column_sums + _COLUMN_EXTRA
        return cls(train.row_sums + _ROW_EXTRA, columns / columns.sum())

    def mixed(self, expected: Floats, rows: Positions, columns: Positions, smoothing: float = SMOOTHING) -> Floats:
        """Expected values of some cells, smoothed."""
        plain: Floats = self.row_totals[rows] * self.column_shares[columns]
        return (1.0 - smoothing) * expected + smoothing * plain


def poisson_rows(model: Any, fold: ThinnedCounts, smoothing: float = SMOOTHING) -> Floats:
    """Poisson log-likelihood of each row's held-out counts under the smoothed expected counts of a fitted model.

    Parameters
    ----------
    model
        Fitted to ``fold.train``.
    fold
        Training and held-out counts.
    smoothing
        Share of the background in the predictions.
    """
    activations = model.training_activations(fold.train)
    background, held = Background.of(fold.train), fold.held_out.tocoo()
    rows, columns = held.coords
    mixed = background.mixed(model.expected_cells(activations, rows, columns), rows, columns, smoothing)
    expected = (1.0 - smoothing) * model.expected_totals(activations) + smoothing * background.row_totals
    if fold.train.n_missing:
        at, of = fold.train.missing_matrix().tocoo().coords
        absent = background.mixed(model.expected_cells(activations, at, of), at, of, smoothing)
        expected = expected - np.bincount(at, weights=absent, minlength=expected.size)
    logs = held.data * np.log(fold.odds * mixed) - gammaln(held.data + 1.0)
    return np.asarray(np.bincount(rows, weights=logs, minlength=expected.size) - fold.odds * expected)


def count_cell_rows(model: Any, fold: HiddenCells, logs: Callable[[Floats, Floats], Floats]) -> Floats:
    """Log-likelihood of each row's hidden counts, for a function of counts and smoothed expected counts.

    Parameters
    ----------
    model
        Fitted to ``fold.train``.
    fold
        Training counts and held-out cells.
    logs
        Log probability of each count.
    """
    assert fold.counts is not None
    rates = model.expected_cells(model.training_activations(fold.train), fold.rows, fold.columns)
    mixed = Background.of(fold.train).mixed(rates, fold.rows, fold.columns)
    return np.bincount(fold.rows, weights=logs(fold.counts, mixed), minlength=fold.train.shape[0]).astype(np.float64)


def poisson_logs(counts: Floats, rates: Floats) -> Floats:
    """Log probability of counts under Poisson noise."""
    return np.asarray(counts * np.log(rates) - rates - gammaln(counts + 1.0))


def bernoulli_rows(probabilities: Floats, fold: HiddenCells) -> Floats:
    """Log probability of each row's held-out cells, smoothed by column frequencies.

    Parameters
    ----------
    probabilities
        Predicted probability of a one, for each held-out cell.
    fold
        Training bits and held-out cells.
    """
    n_rows = fold.train.shape[0]
    missing = np.bincount(fold.train.missing_indices, minlength=fold.train.shape[1])
    plain = (fold.train.column_sums + 0.5) / (n_rows - missing + 1.0)
    ones = (1.0 - SMOOTHING) * probabilities + SMOOTHING * plain[fold.columns]
    logs = np.where(fold.bits, np.log(ones), np.log1p(-ones))
    return np.bincount(fold.rows, weights=logs, minlength=n_rows).astype(np.float64)
