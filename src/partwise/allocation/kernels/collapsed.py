"""Collapsed Gibbs sweeps: each token in turn takes a component given the labels of all other tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, next_uniform, seek

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]

# Components are padded with zeros to a multiple of this, the numbers that the processor works on at once.
LANES = 8


@inner_kernel
def find_component(running: Floats, n_levels: int, total: float, uniform: float) -> int:
    """``np.searchsorted(np.cumsum(weights), uniform * total, "right")``, or -1 where rounding lets the draw slip past.

    ``running[j, lane]`` is the sum of the weights of components ``lane``, ``LANES + lane``, ... up to level j: the
    components are dealt out to lanes like cards, and counted lane by lane.
    """
    rest = uniform * total
    last = n_levels - 1
    # Counting costs less than leaving a loop early, which the processor cannot foresee.
    lane = 0
    before = 0.0
    reached = 0.0
    for i in range(LANES - 1):
        reached += running[last, i]
        passed = reached <= rest
        lane += passed
        before = reached if passed else before
    rest -= before
    level = 0
    for j in range(n_levels):
        level += running[j, lane] <= rest
    return LANES * level + lane if level < n_levels else -1


@inner_kernel
def last_positive(weights: Floats, n_components: int) -> int:
    """``np.flatnonzero(weights[:n_components])[-1]``, or 0 without any."""
    for k in range(n_components - 1, -1, -1):
        if weights[k] > 0.0:
            return k
    return 0


@kernel
def sweep_tokens(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    first_tokens: NDArray[np.int64],
    dictionary_concentration: Floats,
    activation_concentration: Floats,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    labels: NDArray[Any],
    sample_counts: Counts,
    feature_counts: Counts,
    component_counts: NDArray[np.int64],
) -> None:
    """``k = rng.choice(K, p=normalise((α_f + S_fk) / (α_+ + S_k) * (β_k + S_nk)))`` for each token, without itself.

    Labels and counts change in place; a label of K stands for none yet. ``feature_counts`` has zeros appended up to a
    multiple of ``LANES`` components. Only two entries of (β_k + S_nk) / (α_+ + S_k) change from one token to the next.
    """
    n_components = activation_concentration.size
    n_padded = feature_counts.shape[1]
    n_levels = n_padded // LANES
    whole = 0.0
    for f in range(dictionary_concentration.size):
        whole += dictionary_concentration[f]
    shares = np.zeros(n_padded)
    weights = np.empty(n_padded)
    running = np.empty((n_levels, LANES))
    stream = new_stream()
    for n in range(start, stop):
        seek(stream, seed, stage_chain, iteration, n)
        for k in range(n_components):
            shares[k] = (activation_concentration[k] + sample_counts[n, k]) / (whole + component_counts[k])
        i = first_tokens[n]
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            alpha = dictionary_concentration[f]
            row = feature_counts[f]
            for _ in range(values[p]):
                old = int(labels[i])
                if old < n_components:
                    row[old] -= 1
                    sample_counts[n, old] -= 1
                    component_counts[old] -= 1
                    shares[old] = (activation_concentration[old] + sample_counts[n, old]) / (
                        whole + component_counts[old]
                    )
                a = b = c = d = e = g = h = o = 0.0
                for j in range(n_levels):
                    k = LANES * j
                    a += (alpha + row[k]) * shares[k]
                    b += (alpha + row[k + 1]) * shares[k + 1]
                    c += (alpha + row[k + 2]) * shares[k + 2]
                    d += (alpha + row[k + 3]) * shares[k + 3]
                    e += (alpha + row[k + 4]) * shares[k + 4]
                    g += (alpha + row[k + 5]) * shares[k + 5]
                    h += (alpha + row[k + 6]) * shares[k + 6]
                    o += (alpha + row[k + 7]) * shares[k + 7]
                    running[j, 0] = a
                    running[j, 1] = b
                    running[j, 2] = c
                    running[j, 3] = d
                    running[j, 4] = e
                    running[j, 5] = g
                    running[j, 6] = h
                    running[j, 7] = o
                total = ((a + b) + (c + d)) + ((e + g) + (h + o))
                new = find_component(running, n_levels, total, next_uniform(stream))
                if new < 0:
                    for k in range(n_components):
                        weights[k] = (alpha + row[k]) * shares[k]
                    new = last_positive(weights, n_components)
                row[new] += 1
                sample_counts[n, new] += 1
                component_counts[new] += 1
                shares[new] = (activation_concentration[new] + sample_counts[n, new]) / (whole + component_counts[new])
                labels[i] = new
                i += 1
