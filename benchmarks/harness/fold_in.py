"""Activations of new documents by others, given the same topics and the same prior: tomotopy, scikit-learn, gensim.

tomotopy takes no topics from outside: it trains them, and everybody else is given what it found. Conversion of the
documents to what a peer reads is left out of its time.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ETA = 0.01


@dataclass(frozen=True)
class Topics:
    """A trained model of tomotopy, its topics as features x parts, and the concentration of activations."""

    model: Any
    dictionary: Floats
    alpha: float


def trained(counts: Any, n_components: int, n_sweeps: int, kept: Path | None = None) -> Topics:
    """Train topics on counts, or take them from a file that an earlier call has written."""
    import tomotopy

    alpha = min(0.1, 10.0 / n_components)
    if kept is not None and kept.exists():
        model: Any = tomotopy.LDAModel.load(str(kept))
    else:
        model = tomotopy.LDAModel(k=n_components, alpha=alpha, eta=ETA, seed=1, rm_top=0, min_cf=0)
        model.optim_interval = 0
        for words in _words(counts):
            model.add_doc(words)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            model.train(n_sweeps, workers=1)
        if kept is not None:
            model.save(str(kept))
    dictionary = np.full((counts.shape[1], n_components), ETA)
    features = np.array([int(word) for word in model.used_vocabs])
    dictionary[features] = np.array([model.get_topic_word_dist(k, normalize=False) for k in range(n_components)]).T
    return Topics(model, dictionary / dictionary.sum(axis=0), alpha)


def _words(counts: Any) -> list[list[str]]:
    parts = [slice(*counts.indptr[n : n + 2]) for n in range(counts.shape[0])]
    return [[str(f) for f in np.repeat(counts.indices[part], counts.data[part].astype(np.int64))] for part in parts]


def tomotopy_rows(topics: Topics, given: Any) -> tuple[float, Floats]:
    """Its defaults: 100 iterations of Gibbs sampling, the last state."""
    documents = [topics.model.make_doc(words) for words in _words(given)]
    began = time.process_time()
    found, _ = topics.model.infer(documents, workers=1)
    return time.process_time() - began, np.array(found, dtype=np.float64)


def sklearn_rows(topics: Topics, given: Any) -> tuple[float, Floats]:
    """Variational Bayes, its defaults: up to 100 updates of a document."""
    from sklearn.decomposition import LatentDirichletAllocation
    from threadpoolctl import threadpool_limits

    n_components = topics.dictionary.shape[1]
    model: Any = LatentDirichletAllocation(n_components)
    model.n_features_in_, model.doc_topic_prior_ = given.shape[1], topics.alpha
    model.components_ = np.ascontiguousarray(topics.dictionary.T)
    model.exp_dirichlet_component_ = model.components_
    matrix = given.astype(np.float64)
    with threadpool_limits(1):
        began = time.process_time()
        found = model.transform(matrix)
        return time.process_time() - began, found


def gensim_rows(topics: Topics, given: Any) -> tuple[float, Floats]:
    """Variational Bayes, its defaults: up to 50 updates of a document."""
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel
    from threadpoolctl import threadpool_limits

    n_features, n_components = topics.dictionary.shape
    words = {f: str(f) for f in range(n_features)}
    model: Any = LdaModel(None, n_components, words, alpha=[topics.alpha] * n_components, dtype=np.float64)
    model.expElogbeta = np.ascontiguousarray(topics.dictionary.T)
    corpus = list(Sparse2Corpus(given, documents_columns=False))
    with threadpool_limits(1):
        began = time.process_time()
        found, _ = model.inference(corpus)
        return time.process_time() - began, found / found.sum(axis=1, keepdims=True)


FOLD_IN: dict[str, tuple[str, Callable[[Topics, Any], tuple[float, Floats]]]] = {
    "tomotopy": ("tomotopy infer, 100 iterations", tomotopy_rows),
    "sklearn": ("scikit-learn LDA.transform", sklearn_rows),
    "gensim": ("gensim LdaModel.inference", gensim_rows),
}
"""Packages: their settings in words, and seconds and shares of documents."""
