"""Figures 1 and 2: divergence from the exact probabilities by draws, and the same as error of log p and by length."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from partwise.likelihood import exact
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.l2r._corpora import Corpus
from partwise.reproduce.l2r._measures import divergence, root_mean_square
from partwise.reproduce.l2r._methods import Method
from partwise.reproduce.l2r._protocol import Protocol
from partwise.reproduce.l2r._selection import enumerable, of_all_lengths

Curves = dict[str, dict[str, dict[str, Any]]]


def by_draws(notebook: Notebook, corpus: Corpus, methods: list[Method], protocol: Protocol) -> Curves:
    """Divergence and error of each repetition: ``[method][number of draws]["divergence" | "error" | "bias"]``."""
    chosen = enumerable(corpus, protocol.documents)
    name = f"{corpus.name}, {chosen.counts.shape[0]} enumerable documents"
    truth = np.array(notebook.step(f"{name}, exact", lambda: _exact(chosen)))

    def evaluate(method: Method, n_draws: int) -> dict[str, Any]:
        estimates = [method.estimate(chosen, n_draws, seed).values for seed in range(protocol.repeats)]
        return {
            "divergence": [divergence(truth, values) for values in estimates],
            "error": [root_mean_square(values - truth) for values in estimates],
            "bias": float(np.mean([values - truth for values in estimates])),
        }

    return {
        method.name: {
            str(n_draws): notebook.step(
                f"{name}, {method.name}, {n_draws} draws, {protocol.repeats} times",
                partial(evaluate, method, n_draws),
            )
            for n_draws in protocol.draws
            if n_draws <= method.most_draws
        }
        for method in methods
    }


def by_length(notebook: Notebook, corpus: Corpus, methods: list[Method], protocol: Protocol) -> dict[str, Any]:
    """Error of log p in documents of each doubling of length, at the second number of draws."""
    chosen = of_all_lengths(corpus, protocol.documents)
    n_draws = protocol.draws[1]
    name = f"{corpus.name}, {chosen.counts.shape[0]} documents of all lengths"
    truth = np.array(notebook.step(f"{name}, exact", lambda: _exact(chosen)))
    groups = np.floor(np.log2(chosen.lengths)).astype(np.int64)

    def evaluate(method: Method) -> list[float]:
        seeds = range(max(2, protocol.repeats // 3))
        errors = np.stack([method.estimate(chosen, n_draws, seed).values - truth for seed in seeds])
        return [root_mean_square(errors[:, groups == group]) for group in np.unique(groups)]

    return {
        "n_draws": n_draws,
        "lengths": [float(chosen.lengths[groups == group].mean()) for group in np.unique(groups)],
        "errors": {
            method.name: notebook.step(f"{name}, {method.name}, {n_draws} draws", partial(evaluate, method))
            for method in methods
            if n_draws <= method.most_draws
        },
    }


def _exact(corpus: Corpus) -> list[float]:
    return [float(value) for value in exact(corpus.counts, *corpus.model, max_cost=np.inf).values]
