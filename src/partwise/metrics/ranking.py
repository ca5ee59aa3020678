"""How good lists are: NDCG, precision and recall at n, compared with what was held out of each row."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from partwise.errors import InvalidInputError


class RankingScore(NamedTuple):
    """A mean over rows and its standard error."""

    mean: float
    std_error: float


class RankingScores(NamedTuple):
    """Scores of lists.

    Attributes
    ----------
    ndcg
        Normalised discounted cumulative gain: 1 if every place that could hold a held-out feature holds one.
    precision
        Share of the places of a list that hold a held-out feature.
    recall
        Share of a row's held-out features that are in its list.
    n_rows
        Number of rows that count: those with held-out features.
    """

    ndcg: RankingScore
    precision: RankingScore
    recall: RankingScore
    n_rows: int


def ranking_scores(lists: Any, held_out: Any) -> RankingScores:
    """Score lists of features by what was held out of each row.

    Parameters
    ----------
    lists
        Rows x places: positions of features, best first; -1 after the end of a list (``recommend(X).positions``).
    held_out
        Rows x features, sparse or dense: values greater than 0 are held-out features.

    Returns
    -------
    RankingScores
        Means over the rows with held-out features, with standard errors.

    Examples
    --------
    >>> scores = ranking_scores([[0, 1], [2, 1]], [[1, 1, 0], [0, 1, 0]])
    >>> scores.precision.mean, scores.recall.mean, round(scores.ndcg.mean, 3)
    (0.75, 1.0, 0.815)
    """
    found = ranking_rows(lists, held_out)
    if not found.rows.size:
        raise InvalidInputError("held_out has no entry greater than 0, so there is nothing to score lists by.")
    scores = (_score(found.ndcg), _score(found.precision), _score(found.recall))
    return RankingScores(*scores, n_rows=int(found.rows.size))


class RankingRows(NamedTuple):
    """Scores of single lists: positions of the rows with held-out features, and their scores."""

    rows: NDArray[np.intp]
    ndcg: NDArray[np.float64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]


def ranking_rows(lists: Any, held_out: Any, n: int | None = None) -> RankingRows:
    """Score each list; `ranking_scores` takes means of these scores.

    Parameters
    ----------
    lists, held_out
        As for `ranking_scores`.
    n
        Requested length of the lists; by default the number of places.

    Examples
    --------
    >>> ranking_rows([[0, 1], [2, 1]], [[1, 1, 0], [0, 0, 0]]).recall.tolist()
    [1.0]
    """
    positions = np.asarray(lists)
    relevant = sp.csr_array(held_out) > 0
    if positions.ndim != 2 or positions.shape[0] != relevant.shape[0] or positions.shape[1] == 0:
        raise InvalidInputError(
            f"lists has shape {positions.shape} and held_out {relevant.shape}: give one list per row."
        )
    counts = np.diff(sp.csr_array(relevant).indptr)
    rows = np.flatnonzero(counts)
    hits, counts = _hits(sp.csr_array(relevant), positions)[rows], counts[rows]
    places = positions.shape[1]
    n = places if n is None else n
    gains = 1.0 / np.log2(np.arange(places) + 2.0)
    best = np.cumsum(gains)[np.minimum(counts, places) - 1]
    found = hits.sum(axis=1)
    return RankingRows(rows, hits @ gains / best, found / n, found / counts)


def _hits(relevant: Any, positions: NDArray[Any]) -> NDArray[np.float64]:
    """1 where the feature at a place of a row's list is relevant, else 0."""
    n_rows, n_features = relevant.shape
    right = np.repeat(np.arange(n_rows, dtype=np.int64), np.diff(relevant.indptr)) * n_features + relevant.indices
    cells = np.arange(n_rows, dtype=np.int64)[:, None] * n_features + positions
    return np.asarray(np.isin(cells, right) & (positions >= 0), dtype=np.float64)


def _score(values: NDArray[np.float64]) -> RankingScore:
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return RankingScore(float(values.mean()), float(error))
