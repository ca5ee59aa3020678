"""Table 1: the collections, cropped and whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.likelihood import exact_cost
from partwise.reproduce._notebook import Notebook
from partwise.reproduce._tables import table
from partwise.reproduce.l2r._corpora import Corpus
from partwise.reproduce.l2r._selection import MOST_COST

_COLUMNS = {
    "documents": "documents",
    "words": "words",
    "length": "mean length",
    "nonzeros": "mean distinct words",
    "topics": "topics (active)",
    "enumerable": "below 1e9 terms (Eq. 7)",
    "affordable": "exact in 0.1 s each",
}


def describe(notebook: Notebook, corpus: Corpus) -> dict[str, Any]:
    """One line of the table."""
    n_topics = corpus.dictionary.shape[1]

    def line() -> dict[str, Any]:
        return {
            "documents": corpus.counts.shape[0],
            "words": corpus.counts.shape[1],
            "length": round(float(corpus.lengths.mean()), 2),
            "nonzeros": round(corpus.counts.nnz / corpus.counts.shape[0], 2),
            "topics": f"{n_topics} ({corpus.n_active})",
            "enumerable": int(corpus.tractable().size),
            "affordable": int(np.count_nonzero(exact_cost(corpus.counts, corpus.dictionary).cheapest <= MOST_COST)),
        }

    described: dict[str, Any] = notebook.step(f"table 1, {corpus.name}, {corpus.counts.shape[1]} words", line)
    return described


def write(notebook: Notebook, lines: dict[str, dict[str, Any]]) -> None:
    """The table in Markdown."""
    rows = [[name, *(f"{line[column]}" for column in _COLUMNS)] for name, line in lines.items()]
    notebook.section("Table 1", table(["collection", *_COLUMNS.values()], rows))
