"""tomotopy's LDA as a peer: the same tokens, symmetric priors that stay as they are (``optim_interval = 0``)."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAME = "tomotopy LDA, optim_interval=0"
ALPHA, ETA = 0.1, 0.01


class Topics:
    """A model with all documents added, ready to train."""

    def __init__(self, counts: Any, n_components: int, seed: int) -> None:
        import tomotopy

        self.n_features = counts.shape[1]
        self.model: Any = tomotopy.LDAModel(k=n_components, alpha=ALPHA, eta=ETA, seed=seed, rm_top=0, min_cf=0)
        self.model.optim_interval = 0
        matrix = counts.tocsr()
        for n in range(matrix.shape[0]):
            part = slice(matrix.indptr[n], matrix.indptr[n + 1])
            features = np.repeat(matrix.indices[part], matrix.data[part].astype(np.int64))
            if features.size:
                self.model.add_doc([str(f) for f in features])
        self.model.train(0)

    def seconds(self, n_sweeps: int, workers: int) -> float:
        """Of so many sweeps."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            began = time.perf_counter()
            self.model.train(n_sweeps, workers=workers)
            return time.perf_counter() - began

    def dictionary(self) -> NDArray[np.float64]:
        """Features x components, smoothed by its prior; features that it has not seen have the prior's share."""
        found = np.full((self.n_features, self.model.k), ETA)
        words = np.array([int(word) for word in self.model.used_vocabs])
        topics = np.array([self.model.get_topic_word_dist(k, normalize=False) for k in range(self.model.k)])
        found[words] = topics.T
        return np.asarray(found / found.sum(axis=0))
