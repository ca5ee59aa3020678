"""The corpora with their models, and which of their documents are evaluated.

Two corpora are the authors' own; others are trained by `BetaGammaPFA` as the paper says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

import partwise
from partwise.core.data import CountMatrix
from partwise.datasets import GAP, load_counts, load_gap
from partwise.engines.local import LocalEngine
from partwise.gamma_poisson.beta_gamma import BetaGammaPFA
from partwise.gamma_poisson.inference.posterior import posterior_mean
from partwise.kernels.arrays import Floats, Integers
from partwise.likelihood import exact_cost
from partwise.reproduce._notebook import Notebook

N_WORDS, N_TOPICS = 100, 5
LARGEST_ENUMERATION = 1e9
MOST_COST = 2e8
"""Multiply-adds that an exact value may cost: a tenth of a second."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents x words (CSR) and a model of them."""

    name: str
    counts: Any
    dictionary: Floats
    shape: Floats
    rate: Floats

    @property
    def model(self) -> tuple[Floats, Floats, Floats]:
        """What estimators take after the counts."""
        return self.dictionary, self.shape, self.rate

    def transform(self, X: Any) -> Floats:
        """Posterior means of the activations."""
        data = CountMatrix.build(X, integers=True, caller="transform")
        return posterior_mean(data, self.dictionary, self.shape, self.rate, LocalEngine())

    @property
    def lengths(self) -> Integers:
        """Tokens of each document."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.int64).ravel()

    @property
    def n_active(self) -> int:
        """Topics with at least 1% of the expected tokens."""
        expected = self.shape / self.rate
        return int(np.count_nonzero(expected >= 0.01 * expected.sum()))

    def enumeration_sizes(self) -> Floats:
        """Logarithm of the number of terms of Eq. 7 of each document: prod_f C(x_f + K - 1, K - 1)."""
        topics = self.dictionary.shape[1]
        x = self.counts.data.astype(np.float64)
        terms = gammaln(x + topics) - gammaln(x + 1.0) - gammaln(topics)
        rows = np.repeat(np.arange(self.counts.shape[0]), np.diff(self.counts.indptr))
        return np.asarray(np.bincount(rows, terms, minlength=self.counts.shape[0]), dtype=np.float64)

    def rows(self, rows: Integers) -> Corpus:
        """Some of the documents."""
        return replace(self, counts=self.counts[rows])

    def affordable(self) -> NDArray[np.bool_]:
        """Documents that the polynomial algorithms can do in a tenth of a second each."""
        return np.asarray(exact_cost(self.counts, self.dictionary).cheapest <= MOST_COST)

    def tractable(self) -> Integers:
        """Documents that the paper can evaluate: at most 1e9 terms, and more than one distinct word."""
        few = self.enumeration_sizes() < np.log(LARGEST_ENUMERATION)
        return np.flatnonzero(few & (np.diff(self.counts.indptr) > 1))

    def doublings(self) -> Integers:
        """``floor(log2(length))`` of each document."""
        return np.floor(np.log2(self.lengths)).astype(np.int64)


def draw_rows(rows: Integers, n: int) -> Integers:
    """At most ``n`` of some rows, by seed."""
    return np.sort(np.random.default_rng(0).permutation(rows)[:n])


def enumerable(corpus: Corpus, n: int) -> Corpus:
    """As the paper: documents of less than 1e9 terms and more than one distinct word, here drawn by seed."""
    return corpus.rows(draw_rows(corpus.tractable(), n))


def of_all_lengths(corpus: Corpus, n: int) -> Corpus:
    """Documents that the polynomial algorithms can do, evenly over their lengths."""
    rows = np.flatnonzero(corpus.affordable() & (np.diff(corpus.counts.indptr) > 1))
    by_length = rows[np.argsort(corpus.lengths[rows], kind="stable")]
    # Evenly in the logarithm of the length: the rank of a document among those of each doubling.
    groups = corpus.doublings()[by_length]
    each = max(1, n // np.unique(groups).size)
    return corpus.rows(np.concatenate([draw_rows(by_length[groups == group], each) for group in np.unique(groups)]))


def small(notebook: Notebook, name: str, n_sweeps: int) -> Corpus:
    """A corpus of the 100 most frequent words, with at most five topics."""
    if name in GAP:
        gap = load_gap(name)
        return Corpus(name, gap.counts.matrix.tocsr(), gap.dictionary, gap.shape, gap.rate)
    counts = load_counts(name).matrix.tocsr()
    frequent = np.sort(np.argsort(-np.asarray(counts.sum(axis=0)).ravel(), kind="stable")[:N_WORDS])
    return _trained(notebook, name, counts[:, frequent], N_TOPICS, n_sweeps)


def large(notebook: Notebook, name: str, most_topics: int, n_sweeps: int) -> Corpus:
    """A corpus of all words."""
    return _trained(notebook, name, load_counts(name).matrix.tocsr(), most_topics, n_sweeps)


def _trained(notebook: Notebook, name: str, counts: Any, most_topics: int, n_sweeps: int) -> Corpus:
    """The model is written beside the results, so that a run that was cut off does not train it again."""
    path = notebook.folder / f"{name}_{counts.shape[1]}words_{most_topics}topics.partwise"

    def train() -> dict[str, Any]:
        model = BetaGammaPFA(
            most_topics, burn_in=n_sweeps // 2, n_draws=n_sweeps - n_sweeps // 2, random_state=0, progress=False
        ).fit(counts)
        model.save(path)
        used = model.trace_["n_used"]
        return {"active": model.n_active_components_, "used": [used[0], used[n_sweeps // 2], used[-1]]}

    notebook.step(f"train {path.stem}, {n_sweeps} sweeps", train)
    if not path.exists():
        train()  # a file of results came without its models
    model = partwise.load(path)
    return Corpus(name, counts, model.components_.T, model.shape_, model.rate_)
