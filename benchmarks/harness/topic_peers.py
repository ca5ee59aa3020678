"""Topic models of others, one thread each, with the same priors: a fit of counts leaves a dictionary."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.topics import ALPHA, ETA

Floats = NDArray[np.float64]

SWEEPS, PASSES = 400, 10


@dataclass(frozen=True)
class TopicPeer:
    """A package, its settings in words, and how it fits: ``(counts, n_components, seed)`` to seconds and dictionary."""

    package: str
    name: str
    fit: Callable[[Any, int, int], tuple[float, Floats]]

    @property
    def missing(self) -> str:
        return "" if importlib.util.find_spec(self.package) else f"{self.package} is not installed"


def _lda(counts: Any, n_components: int, seed: int) -> tuple[float, Floats]:
    import logging

    from lda import LDA

    logging.getLogger("lda").setLevel(logging.ERROR)
    model = LDA(n_components, n_iter=SWEEPS, alpha=ALPHA, eta=ETA, random_state=seed, refresh=SWEEPS)
    matrix = counts.astype(np.int64)
    return _timed(lambda: model.fit(matrix), lambda: model.topic_word_)


def _gensim(counts: Any, n_components: int, seed: int) -> tuple[float, Floats]:
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    corpus = list(Sparse2Corpus(counts, documents_columns=False))
    words = {f: str(f) for f in range(counts.shape[1])}
    found: list[Any] = []

    def fit() -> None:
        found.append(
            LdaModel(
                corpus,
                n_components,
                words,
                passes=PASSES,
                alpha=[ALPHA] * n_components,
                eta=ETA,
                eval_every=None,
                random_state=seed,
            )
        )

    return _timed(fit, lambda: found[0].get_topics())


def _sklearn(method: str) -> Callable[[Any, int, int], tuple[float, Floats]]:
    def fit(counts: Any, n_components: int, seed: int) -> tuple[float, Floats]:
        from sklearn.decomposition import LatentDirichletAllocation

        model = LatentDirichletAllocation(
            n_components,
            doc_topic_prior=ALPHA,
            topic_word_prior=ETA,
            learning_method=method,
            max_iter=PASSES,
            random_state=seed,
        )
        return _timed(lambda: model.fit(counts), lambda: model.components_)

    return fit


def _timed(fit: Callable[[], object], topics: Callable[[], Any]) -> tuple[float, Floats]:
    began = time.process_time()
    fit()
    seconds = time.process_time() - began
    dictionary = np.asarray(topics(), dtype=np.float64).T
    return seconds, dictionary / dictionary.sum(axis=0)


TOPIC_PEERS = {
    "gibbs": [TopicPeer("lda", f"lda, {SWEEPS} sweeps", _lda)],
    "vb": [
        TopicPeer("gensim", f"gensim LdaModel, {PASSES} passes, eval_every=None", _gensim),
        TopicPeer("sklearn", f"scikit-learn LDA, online, {PASSES} passes", _sklearn("online")),
        TopicPeer("sklearn", f"scikit-learn LDA, batch, {PASSES} passes", _sklearn("batch")),
    ],
}
"""Peers of our samplers and of our variational methods."""
