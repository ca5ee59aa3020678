"""An order of the tokens in which every stretch of a document looks like the whole."""

from __future__ import annotations

import numpy as np

from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.rows import Floats, Integers

_GOLDEN = 0.6180339887498949


@inner_kernel
def in_turn(counts: Integers, n_features: int, out: Integers) -> None:
    """``out = np.repeat(np.arange(n_features), counts)``: good enough for short documents."""
    token = 0
    for f in range(n_features):
        for _ in range(counts[f]):
            out[token] = f
            token += 1


@kernel
def interleave(
    weights: Floats, counts: Integers, n_features: int, n_components: int, n_tokens: int, out: Integers
) -> None:
    """``out = sorted(tokens, key=place)``: the i-th token of feature f has its place at (i + offset_f) / x_f.

    Features are ranked by their strongest component and by how much of the others they have, and the feature of rank r
    is offset by the fractional part of r times the golden ratio: features that say the same are spread apart, also
    where each has a single token.
    """
    token = 0
    kinds = np.empty(n_features)
    for f in range(n_features):
        best = 0
        sharpness = 0.0
        for k in range(n_components):
            sharpness += weights[f, k]
            if weights[f, k] > weights[f, best]:
                best = k
        kinds[f] = best * (n_components + 1.0) + sharpness
    places = np.empty(n_tokens)
    features = np.empty(n_tokens, np.int64)
    for rank, f in enumerate(np.argsort(kinds, kind="mergesort")):
        offset = ((rank + 0.5) * _GOLDEN) % 1.0
        for i in range(counts[f]):
            places[token] = (i + offset) / counts[f]
            features[token] = f
            token += 1
    for position, i in enumerate(np.argsort(places, kind="mergesort")):
        out[position] = features[i]
