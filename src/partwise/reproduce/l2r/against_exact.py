"""Figures 1 and 2: divergence from the exact probabilities by draws, and the same as error of log p and by length."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.likelihood import exact
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.l2r._corpora import Corpus, Floats, enumerable, of_all_lengths
from partwise.reproduce.l2r._methods import EvaluationSizes, LikelihoodMethod

Curves = dict[str, dict[str, dict[str, Any]]]


def by_draws(notebook: Notebook, corpus: Corpus, methods: list[LikelihoodMethod], sizes: EvaluationSizes) -> Curves:
    """Divergence and error of each repetition: ``[method][number of draws]["divergence" | "error" | "bias"]``."""
    chosen = enumerable(corpus, sizes.documents)
    name = f"{corpus.name}, {chosen.counts.shape[0]} enumerable documents"
    truth = np.array(notebook.step(f"{name}, exact", _exact, chosen))

    def evaluate(method: LikelihoodMethod, n_draws: int) -> dict[str, Any]:
        estimates = [method.estimate(chosen, n_draws, seed).values for seed in range(sizes.repeats)]
        return {
            "divergence": [divergence(truth, values) for values in estimates],
            "error": [root_mean_square(values - truth) for values in estimates],
            "bias": float(np.mean([values - truth for values in estimates])),
        }

    return {
        method.name: {
            str(n_draws): notebook.step(
                f"{name}, {method.name}, {n_draws} draws, {sizes.repeats} times", evaluate, method, n_draws
            )
            for n_draws in sizes.draws
            if n_draws <= method.most_draws
        }
        for method in methods
    }


def by_length(
    notebook: Notebook, corpus: Corpus, methods: list[LikelihoodMethod], sizes: EvaluationSizes
) -> dict[str, Any]:
    """Error of log p in documents of each doubling of length, at the second number of draws."""
    chosen = of_all_lengths(corpus, sizes.documents)
    n_draws = sizes.draws[1]
    name = f"{corpus.name}, {chosen.counts.shape[0]} documents of all lengths"
    truth = np.array(notebook.step(f"{name}, exact", _exact, chosen))
    groups = chosen.doublings()

    def evaluate(method: LikelihoodMethod) -> list[float]:
        seeds = range(max(2, sizes.repeats // 3))
        errors = np.stack([method.estimate(chosen, n_draws, seed).values - truth for seed in seeds])
        return [root_mean_square(errors[:, groups == group]) for group in np.unique(groups)]

    return {
        "n_draws": n_draws,
        "lengths": [float(chosen.lengths[groups == group].mean()) for group in np.unique(groups)],
        "errors": {
            method.name: notebook.step(f"{name}, {method.name}, {n_draws} draws", evaluate, method)
            for method in methods
            if n_draws <= method.most_draws
        },
    }


def _exact(corpus: Corpus) -> list[float]:
    return [float(value) for value in exact(corpus.counts, *corpus.model, max_cost=np.inf).values]


def divergence(exact: Floats, estimated: Floats) -> float:
    """Kullback-Leibler divergence of log probabilities of documents, Σ p log(p / q) - p + q, over Σ p.

    The paper sums p log(p / q) alone. Over a sample of documents p and q do not sum to 1 (it has a corpus of a single
    document), so that sum can be negative; with - p + q it is a divergence, and the same where they do sum to 1.
    """
    weights = np.exp(exact - exact.max())
    ratio = estimated - exact
    with np.errstate(over="ignore"):
        terms = weights * (np.expm1(ratio) - ratio)
    return float(terms.sum() / weights.sum())


def root_mean_square(errors: Floats) -> float:
    """``sqrt(mean(errors²))``."""
    return float(np.sqrt(np.mean(np.square(errors))))
