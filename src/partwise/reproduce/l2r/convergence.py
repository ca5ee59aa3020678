"""Figure 3: log-likelihood of documents in full vocabularies against draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.likelihood import auto
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.l2r._corpora import Corpus, draw_rows
from partwise.reproduce.l2r._methods import EvaluationSizes, LikelihoodMethod

_STD_ERROR = 0.1


def totals(
    notebook: Notebook, corpus: Corpus, methods: list[LikelihoodMethod], sizes: EvaluationSizes
) -> Iterator[dict[str, Any]]:
    """Log-likelihood of all documents: of each repetition, and what `auto` says with its standard error.

    Yields what is known after each number of draws, as the last take hours.
    """
    occupied = np.flatnonzero(np.diff(corpus.counts.indptr) > 1)
    chosen = corpus.rows(draw_rows(occupied, sizes.large_documents))
    name = f"{corpus.name}, {sizes.large_documents} documents, all words"

    def reference() -> dict[str, float]:
        result = auto(chosen.counts, *chosen.model, rng=0, std_error=_STD_ERROR)
        return {"total": result.total, "std_error": result.total_std_error, "tokens": float(chosen.lengths.sum())}

    def evaluate(method: LikelihoodMethod, n_draws: int, repeats: int) -> list[float]:
        return [method.estimate(chosen, n_draws, seed).total for seed in range(repeats)]

    known: dict[str, Any] = {
        "reference": notebook.step(f"{name}, auto", reference),
        "totals": {method.name: {} for method in methods},
    }
    for n_draws, repeats in sizes.large_repeats:
        for method in methods:
            if n_draws <= method.most_draws:
                step = f"{name}, {method.name}, {n_draws} draws, {repeats} times"
                found = notebook.step(step, evaluate, method, n_draws, repeats)
                known["totals"][method.name][str(n_draws)] = found
        yield known
