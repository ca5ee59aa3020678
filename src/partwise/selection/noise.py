"""Which noise counts have. It decides how they are split into training and held-out counts, so it comes first."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from partwise.core.blas import one_blas_thread
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.errors import EmptyRowsWarning
from partwise.io.table import Table
from partwise.selection.candidates import candidates_of, coarse_ranks, default_ranks
from partwise.selection.dispersion import Dispersion, dispersion_test
from partwise.selection.fitting import count_fold

# Noise is measured on at most this many evenly spaced rows, with at most this many parts. Parts follow some of the
# noise: there are so few that at least this share of it is kept.
_MOST_ROWS, _MOST_PARTS, _LEAST_KEPT = 1500, 40, 0.1
_LEAST_SIZE = 0.01


def found_noise(data: CountMatrix, key: Key) -> tuple[Dispersion, float]:
    """How counts vary around fits of the simplest model, and the size of the noise for which to split them.

    With too few parts structure counts as noise, with too many noise as structure. Under over-dispersion plain thinning
    chooses too many parts rather than too few, so what its choice leaves is noise. Where that is more than Poisson, the
    number of parts is chosen again by counts that are split for such noise, and the size is measured with that number.

    Parameters
    ----------
    data
        All counts.
    key
        Of splits and fits.
    """
    n_rows = min(data.shape[0], _MOST_ROWS)
    rows = np.unique(np.linspace(0, data.shape[0] - 1, n_rows).astype(np.int64))
    missing = data.missing_matrix()[rows] if data.n_missing else None
    some = CountMatrix.build(Table(data.to_scipy()[rows], None, None, missing))
    ladder = [rank for rank in default_ranks(some.shape, further=True) if rank <= _MOST_PARTS]
    size = np.inf
    with warnings.catch_warnings(), one_blas_thread():
        for category in (ConvergenceWarning, EmptyRowsWarning):
            warnings.simplefilter("ignore", category)
        for _ in range(2):
            best = _best_rank(some, ladder, key, size)
            for rank in reversed([rank for rank in ladder if rank <= best]):
                found = dispersion_test(_fitted(some, rank, key), some)
                if found.kept >= _LEAST_KEPT:
                    break
            if found.poisson:
                return found, np.inf
            size = max(found.size, _LEAST_SIZE)
    return found, size


def _fitted(data: Any, rank: int, key: Key) -> Any:
    return candidates_of("counts")[0].build(rank, key.seed % 2**32, progress=False).fit(data)


def _best_rank(data: CountMatrix, ladder: list[int], key: Key, size: float) -> int:
    """The number of parts that predicts one held-out fifth best: coarse steps first, then those between."""
    fold = count_fold(data, key, 0, size)
    scores: dict[int, float] = {}
    tried = coarse_ranks(ladder)
    while tried:
        for rank in tried:
            scores[rank] = float(_fitted(fold.train, rank, key).held_out_log_likelihood(fold).sum())
            if rank >= 4 * max(scores, key=lambda one: scores[one]):
                break  # two coarse steps beyond the best
        best, known = max(scores, key=lambda one: scores[one]), sorted(scores)
        at = known.index(best)
        gaps = [known[max(at - 1, 0)], best, known[min(at + 1, len(known) - 1)]]
        tried = [
            between[len(between) // 2]
            for low, high in itertools.pairwise(gaps)
            if (between := [rank for rank in ladder if low < rank < high])
        ]
    return best
