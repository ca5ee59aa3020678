"""Peers at their documented fastest settings, one thread each."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]

NMF_NAME = "scikit-learn NMF, mu"


def sklearn_nmf(counts: Any, start: tuple[Floats, Floats], n_iterations: int) -> tuple[float, tuple[Floats, Floats]]:
    """Seconds of a fit by multiplicative updates, and the factors it reaches.

    CSR in float64, which is what it computes in, so nothing is converted on the clock; ``tol=0``, so it never stops to
    evaluate its objective between the first and the last iteration.
    """
    matrix = counts.astype(np.float64)
    activations, components = (factor.copy() for factor in start)
    model = NMF(
        components.shape[0],
        solver="mu",
        beta_loss="kullback-leibler",
        init="custom",
        max_iter=n_iterations,
        tol=0.0,
    )
    with threadpool_limits(1):
        began = time.perf_counter()
        activations = model.fit_transform(matrix, W=activations, H=components)
        seconds = time.perf_counter() - began
    return seconds, (activations, model.components_)
