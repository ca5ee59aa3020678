"""Which documents are evaluated."""

from __future__ import annotations

import numpy as np

from partwise.likelihood import exact_cost
from partwise.reproduce.l2r._corpora import Corpus, draw_rows

MOST_COST = 2e8
"""Multiply-adds that an exact value may cost: a tenth of a second."""


def enumerable(corpus: Corpus, n: int) -> Corpus:
    """As the paper: documents of less than 1e9 terms and more than one distinct word, here drawn by seed."""
    return corpus.rows(draw_rows(corpus.tractable(), n))


def of_all_lengths(corpus: Corpus, n: int) -> Corpus:
    """Documents that the polynomial algorithms can do, evenly over their lengths."""
    affordable = exact_cost(corpus.counts, corpus.dictionary).cheapest <= MOST_COST
    rows = np.flatnonzero(affordable & (np.diff(corpus.counts.indptr) > 1))
    by_length = rows[np.argsort(corpus.lengths[rows], kind="stable")]
    # Evenly in the logarithm of the length: the rank of a document among those of each doubling.
    groups = np.floor(np.log2(corpus.lengths[by_length])).astype(np.int64)
    each = max(1, n // np.unique(groups).size)
    return corpus.rows(np.concatenate([draw_rows(by_length[groups == group], each) for group in np.unique(groups)]))
