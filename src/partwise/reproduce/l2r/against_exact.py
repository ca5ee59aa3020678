"""Figures 1 and 2: divergence from the exact probabilities by draws, and the same as error of log p and by length."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from partwise.core.data import CountMatrix
from partwise.core.keys import key_from
from partwise.engines.local import LocalEngine
from partwise.kernels.arrays import Floats
from partwise.likelihood import exact
from partwise.likelihood.completion import Predictor, complete, split_tokens
from partwise.likelihood.problem import log_factorials
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.l2r._corpora import Corpus, enumerable, of_all_lengths
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

    def mean_lengths() -> list[float]:
        return [float(chosen.lengths[groups == group].mean()) for group in np.unique(groups)]

    return {
        "n_draws": n_draws,
        "lengths": notebook.step(f"{name}, mean lengths", mean_lengths),
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
    document), so that sum can be negative. With - p + q it is a divergence, and the same where they do sum to 1.
    """
    weights = np.exp(exact - exact.max())
    ratio = estimated - exact
    with np.errstate(over="ignore"):
        terms = weights * (np.expm1(ratio) - ratio)
    return float(terms.sum() / weights.sum())


def root_mean_square(errors: Floats) -> float:
    """``sqrt(mean(errors²))``."""
    return float(np.sqrt(np.mean(np.square(errors))))


# Document completion beside the exact predictive probability, which the paper leaves as future work.
# Each token of a document goes to the given or to the other half by a fair coin, so given h both halves are Poisson
# with rates W h / 2. With one more feature for the number of tokens of the other half, of weight sum_f w_fk / 2, three
# exact likelihoods give log p(other tokens, in order | given tokens, their number).

_SEED = 0


def exact_completion(corpus: Corpus, seed: int) -> dict[str, Floats]:
    """Log p(other half, counts | given half) and log p(its tokens in order | given half, their number), exactly.

    Parameters
    ----------
    corpus
        Documents and model.
    seed
        Of the split.

    Returns
    -------
    dict
        ``counts``, ``tokens``: the two log probabilities of each document; ``n_tokens``: tokens of the other half.
    """
    data = CountMatrix.build(corpus.counts, integers=True, caller="completion")
    halves = split_tokens(data, key_from(seed), 0.5)
    given, n_other = halves[0].to_scipy().tocsr(), halves[1].row_sums.astype(np.int64)
    half = 0.5 * corpus.dictionary
    whole = exact(corpus.counts, *corpus.model, max_cost=np.inf).values
    # log p(both halves) = log p(x) + log Π_f Binomial(x_f; given_f, 1/2)
    both = whole + log_factorials(data) - log_factorials(halves[0]) - log_factorials(halves[1])
    both -= data.row_sums * np.log(2.0)
    alone = exact(given, half, corpus.shape, corpus.rate, max_cost=np.inf).values
    with_number = sp.hstack([given, sp.csr_matrix(n_other[:, None])]).tocsr()
    dictionary = np.vstack([half, half.sum(axis=0)])
    numbered = exact(with_number, dictionary, corpus.shape, corpus.rate, max_cost=np.inf).values
    # One order of the other half's tokens, of n! / Π x_f!.
    orders = gammaln(n_other + 1.0) - log_factorials(halves[1])
    return {"counts": both - alone, "tokens": both - numbered - orders, "n_tokens": n_other.astype(np.float64)}


def calibrate(notebook: Notebook, corpus: Corpus, sizes: EvaluationSizes) -> Any:
    """Log probability of a held-out token of each document, exact and by document completion."""
    chosen = of_all_lengths(corpus, sizes.documents)

    def compare() -> dict[str, Any]:
        predictive = exact_completion(chosen, _SEED)
        data = CountMatrix.build(chosen.counts, caller="completion")
        scored = complete(data, key_from(_SEED), [Predictor(chosen.dictionary, chosen.transform)], LocalEngine())
        known = predictive["n_tokens"] > 0
        n_tokens = predictive["n_tokens"][known]
        return {
            "lengths": chosen.lengths[known],
            "n_tokens": n_tokens,
            "exact": predictive["tokens"][known] / n_tokens,
            "completion": scored.means[known],
        }

    return notebook.step(f"{corpus.name}, {chosen.counts.shape[0]} documents, completion", compare)
