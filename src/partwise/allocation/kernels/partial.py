"""Sweeps with the dictionary given: rows are independent, so they run in parallel."""

import math

import numpy as np

from partwise.allocation.kernels.collapsed import Tokens
from partwise.kernels.arrays import Counts, Floats, Numbers, Singles, Words
from partwise.kernels.continuous import gamma
from partwise.kernels.jit import inner_kernel, kernel
from partwise.kernels.lanes import LANES, draw_component
from partwise.kernels.streams import Stream, new_stream, next_exponential, next_uniform, seek_row

# Gamma draws of tiny shapes underflow; a positive number keeps every weight of a token from vanishing.
_SMALLEST = 1e-30


@inner_kernel
def _small_gamma(stream: Stream, shape: float, lowest: float) -> float:
    """``max(rng.standard_gamma(shape), _SMALLEST)``, for a shape below 1 and ``lowest = _SMALLEST**shape``.

    Ahrens & Dieter (1974): where shapes are tiny, most draws end at the first comparison.
    """
    bound = 1.0 + shape / math.e
    while True:
        p = bound * next_uniform(stream)
        if p <= lowest:
            return _SMALLEST
        if p <= 1.0:
            drawn = math.pow(p, 1.0 / shape)
            if next_exponential(stream) >= drawn:
                return drawn
        else:
            drawn = -math.log((bound - p) / shape)
            if next_exponential(stream) >= (1.0 - shape) * math.log(drawn):
                return drawn


@kernel
def draw_weights(
    feature_counts: Counts, concentration: Floats, n_components: int, words: Words, start: int, stop: int, out: Singles
) -> None:
    """``out = rng.gamma(concentration[:, None] + feature_counts)``: Dirichlet draws before columns are normalised."""
    stream = new_stream()
    for f in range(start, stop):
        seek_row(stream, words, f)
        alpha = concentration[f]
        lowest = _SMALLEST**alpha
        for k in range(n_components):
            if feature_counts[f, k] == 0 and alpha < 1.0:
                out[f, k] = _small_gamma(stream, alpha, lowest)
            else:
                out[f, k] = max(gamma(stream, alpha + feature_counts[f, k]), _SMALLEST)


@kernel
def sweep_rows(
    tokens: Tokens,
    dictionary: Singles,
    activation_concentration: Floats,
    tile: int,
    words: Words,
    span: tuple[int, int, int, int],
    state: tuple[Numbers, Counts, Counts],
) -> None:
    """``k = rng.choice(K, p=normalise(w_fk * (β_k + S_nk)))`` for each token of each row, without the token itself.

    Labels and ``sample_counts`` change in place (a label of K means none yet), and the new labels are added to
    ``feature_counts``. The dictionary is padded with zeros to a multiple of ``LANES`` components. It has single
    precision, so that a sweep reads half as many bytes; sums have double precision. All rows process their tokens of
    the first ``tile`` features, then those of the next, so that what is read and written stays in the cache.
    With ``first_row, row_keys, start, stop = span``, row n of tile t has the stream ``first_row + n + row_keys * t``.
    """
    (indptr, indices, values, first_tokens), (first_row, row_keys, start, stop) = tokens, span
    labels, sample_counts, feature_counts = state
    n_components = activation_concentration.size
    n_features, n_padded = dictionary.shape
    shares = np.zeros(n_padded)
    running = np.empty((n_padded // LANES, LANES))
    next_cells = indptr[start : stop + 1].copy()
    next_tokens = first_tokens[start : stop + 1].copy()
    stream = new_stream()
    for last in range(tile, n_features + tile, tile):
        for n in range(start, stop):
            p, end = next_cells[n - start], indptr[n + 1]
            if p == end or indices[p] >= last:
                continue
            seek_row(stream, words, first_row + n + row_keys * (last // tile))
            for k in range(n_components):
                shares[k] = activation_concentration[k] + sample_counts[n, k]
            i = next_tokens[n - start]
            while p < end and indices[p] < last:
                f = indices[p]
                for _ in range(values[p]):
                    old = int(labels[i])
                    if old < n_components:
                        shares[old] -= 1.0
                    new = draw_component(dictionary, f, 0.0, shares, next_uniform(stream), n_components, running)
                    shares[new] += 1.0
                    labels[i] = new
                    feature_counts[f, new] += 1
                    i += 1
                p += 1
            next_cells[n - start] = p
            next_tokens[n - start] = i
            # Not recounted from the labels: counts may include missing cells, which have no labels.
            for k in range(n_components):
                sample_counts[n, k] = np.int32(shares[k] - activation_concentration[k] + 0.5)
