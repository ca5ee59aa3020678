"""An order of the tokens in which every stretch of a document looks like the whole."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.rows import Floats, Integers

_GOLDEN = 0.6180339887498949


@inner_kernel
def in_turn(counts: Integers, n_features: int, out: Integers | NDArray[np.int32]) -> None:
    """``out = np.repeat(np.arange(n_features), counts)``: good enough for short documents."""
    token = 0
    for f in range(n_features):
        for _ in range(counts[f]):
            out[token] = f
            token += 1


@inner_kernel
def _kind(weights: Floats, f: int, n_components: int) -> float:
    """A number that is close for features that say the same: their strongest component, then how much of the others."""
    best = 0
    sharpness = 0.0
    for k in range(n_components):
        sharpness += weights[f, k]
        if weights[f, k] > weights[f, best]:
            best = k
    return best * (n_components + 1.0) + sharpness


@kernel
def interleave(
    weights: Floats, counts: Integers, n_features: int, n_components: int, first: int, out: Integers
) -> None:
    """``out[first:] = sorted(tokens, key=place)``: the i-th token of feature f has its place at (i + offset_f) / x_f.

    The feature of rank r by kind is offset by the fractional part of r times the golden ratio: features that say the
    same are spread apart, also where each has a single token. Sorting takes far less time than a step of the lattice
    for each token.
    """
    kinds, ranked = np.empty(n_features), np.empty(n_features, np.int64)
    for f in range(n_features):
        kind = _kind(weights, f, n_components)
        i = f
        while i > 0 and kinds[i - 1] > kind:
            kinds[i] = kinds[i - 1]
            ranked[i] = ranked[i - 1]
            i -= 1
        kinds[i] = kind
        ranked[i] = f
    n_tokens = 0
    places, left = np.empty(n_features), np.empty(n_features, np.int64)
    for rank in range(n_features):
        f = ranked[rank]
        left[f] = counts[f]
        n_tokens += counts[f]
        places[f] = ((rank + 0.5) * _GOLDEN) % 1.0 / counts[f] if counts[f] > 0 else math.inf
    for token in range(first, first + n_tokens):
        best = 0
        for f in range(1, n_features):
            if places[f] < places[best]:
                best = f
        out[token] = best
        left[best] -= 1
        places[best] = places[best] + 1.0 / counts[best] if left[best] > 0 else math.inf
