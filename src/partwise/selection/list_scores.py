"""Scores of lists: how well a model lists what was held out of each row, compared with popularity."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from partwise.contract.heldout import HiddenCells, ThinnedCounts
from partwise.contract.lists import best_features, list_scores
from partwise.engines.local import LocalEngine
from partwise.errors import EmptyRowsWarning, InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.metrics.ranking import ranking_rows

Fold = ThinnedCounts | HiddenCells

_NAMES = {"ndcg": "NDCG", "precision": "precision", "recall": "recall"}


@dataclass(frozen=True)
class ListMetric:
    """A score of lists of ``n`` features: NDCG, precision or recall.

    Candidates for a list are cells about which the training data say nothing: those without training counts or, if
    whole cells are hidden, the hidden ones. Correct are those that hold something.
    """

    name: str
    n: int

    @classmethod
    def of(cls, text: str) -> ListMetric:
        """The metric with a name such as ``"ndcg@20"``.

        Examples
        --------
        >>> str(ListMetric.of("ndcg@20"))
        'NDCG@20'
        """
        found = re.fullmatch(rf"({'|'.join(_NAMES)})@([1-9]\d{{0,5}})", str(text).strip().lower())
        if found is None:
            raise InvalidInputError(f"metric must be ndcg@N, precision@N or recall@N, such as ndcg@20, got {text!r}.")
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{_NAMES[self.name]}@{self.n}"

    def of_model(self, model: Any, fold: Fold) -> Floats:
        """Score of each row's list by a model fitted to the training data; 0 if nothing was held out."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmptyRowsWarning)  # they get popular features
            return self._rows(fold, list_scores(model, model.training_activations(fold.train)))

    def of_popularity(self, fold: Fold) -> Floats:
        """The same for the features with the largest totals."""
        return self._rows(fold, lambda block: np.tile(fold.train.column_sums, (block.stop - block.start, 1)))

    def counted(self, fold: Fold) -> Floats:
        """1 for rows that count: those with something to find."""
        _, right = _known_and_right(fold)
        return np.asarray(np.diff(right.indptr) > 0, dtype=np.float64)

    def _rows(self, fold: Fold, scores: Any) -> Floats:
        known, right = _known_and_right(fold)
        lists = best_features(scores, known, self.n, True, LocalEngine())[0]
        values = np.zeros(right.shape[0])
        if right.nnz:
            found = ranking_rows(lists, right, n=self.n)
            values[found.rows] = getattr(found, self.name)
        return values


def _known_and_right(fold: Fold) -> tuple[sp.csr_array, sp.csr_array]:
    """Cells that may not be in a list, because the training data show them, and held-out cells that hold something."""
    if isinstance(fold, ThinnedCounts):
        told = sp.csr_array(fold.train.to_scipy() > 0)
        right = sp.csr_array(fold.held_out > 0)
        right = sp.csr_array(right > right.multiply(told))
        return sp.csr_array(told + fold.train.missing_matrix()), right
    hidden = np.zeros(fold.train.shape, dtype=bool)
    hidden[fold.rows, fold.columns] = True
    right = np.zeros_like(hidden)
    right[fold.rows, fold.columns] = fold.bits
    return sp.csr_array(~hidden), sp.csr_array(right)
