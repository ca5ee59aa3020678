"""Sweeps with the dictionary given at a constant cost per token: labels are proposed, and accepted or not."""

from __future__ import annotations

import numpy as np

from partwise.kernels.alias import draw_from_table
from partwise.kernels.arrays import Counts, Floats, Indices, LongCounts, Numbers, Singles, Starts, Word
from partwise.kernels.continuous import gamma, small_gamma
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, next_uniform, seek

# Shares that underflow would make their labels impossible.
_SMALLEST = 1e-30


@kernel
def draw_dictionary(
    feature_counts: Counts,
    concentration: Floats,
    seed: Word,
    stage_chain: Word,
    iteration: Word,
    start: int,
    stop: int,
    out: Singles,
    sums: Floats,
) -> None:
    """``out = rng.gamma(concentration[:, None] + feature_counts); sums += out.sum(axis=0)`` for some features."""
    stream = new_stream()
    for f in range(start, stop):
        seek(stream, seed, stage_chain, iteration, f)
        alpha = concentration[f]
        for k in range(out.shape[1]):
            shape = alpha + feature_counts[f, k]
            drawn = small_gamma(stream, shape) if shape < 1.0 else gamma(stream, shape)
            out[f, k] = drawn
            sums[k] += drawn


@kernel
def share_features(totals: Floats, start: int, stop: int, dictionary: Singles) -> None:
    """``dictionary /= totals; dictionary /= dictionary.sum(axis=1)`` for some features: weights of labels."""
    for f in range(start, stop):
        whole = 0.0
        for k in range(totals.size):
            whole += dictionary[f, k] / totals[k]
        for k in range(totals.size):
            dictionary[f, k] = max(dictionary[f, k] / totals[k] / whole, _SMALLEST)


@kernel
def sweep_by_proposals(
    indptr: Starts,
    indices: Indices,
    values: Numbers,
    first_tokens: Starts,
    dictionary: Singles,
    thresholds: Singles,
    aliases: Numbers,
    concentration: Floats,
    own_thresholds: Floats,
    own_aliases: Numbers,
    n_cycles: int,
    seed: Word,
    stage_chain: Word,
    iteration: Word,
    first_row: int,
    start: int,
    stop: int,
    labels: Numbers,
    sample_counts: Counts,
    moves: LongCounts,
) -> int:
    """Leave ``p(k) = w_fk * (β_k + S_nk)`` of every token of some rows as it is, ``n_cycles`` times, in two steps.

    First a label is proposed by the feature's alias table, and accepted by the row's counts. Then a label of the row,
    that of a token drawn at random or a draw from the prior, is proposed and accepted by the dictionary. Counts are
    without the token itself. ``moves`` gets entries ``f * K + k`` of feature counts that tokens have left, and those
    that they have come to; returns how many.
    """
    n_components = concentration.size
    prior = 0.0
    for k in range(n_components):
        prior += concentration[k]
    longest = 0
    for n in range(start, stop):
        longest = max(longest, first_tokens[n + 1] - first_tokens[n])
    before = np.empty(longest, labels.dtype)
    stream = new_stream()
    n_moves = 0
    for n in range(start, stop):
        seek(stream, seed, stage_chain, iteration, first_row + n)
        first = first_tokens[n]
        length = first_tokens[n + 1] - first
        for i in range(length):
            before[i] = labels[first + i]
        for _ in range(n_cycles):
            i = first
            for p in range(indptr[n], indptr[n + 1]):
                f = indices[p]
                for _ in range(values[p]):
                    old = int(labels[i])
                    sample_counts[n, old] -= 1
                    new, rest = draw_from_table(stream, thresholds, aliases, f)
                    if rest * (concentration[old] + sample_counts[n, old]) < concentration[new] + sample_counts[n, new]:
                        old = new
                    labels[i] = old
                    t = next_uniform(stream) * (length + prior)
                    if t < length:
                        new = int(labels[first + int(t)])
                        rest = t - int(t)
                    else:
                        new, rest = draw_from_table(stream, own_thresholds, own_aliases, 0)
                    if rest * dictionary[f, old] < dictionary[f, new]:
                        old = new
                    labels[i] = old
                    sample_counts[n, old] += 1
                    i += 1
        i = 0
        for p in range(indptr[n], indptr[n + 1]):
            place = indices[p] * n_components
            for _ in range(values[p]):
                if labels[first + i] != before[i]:
                    moves[n_moves, 0] = place + before[i]
                    moves[n_moves, 1] = place + labels[first + i]
                    n_moves += 1
                i += 1
    return n_moves


@kernel
def move_counts(moves: LongCounts, n_components: int, feature_counts: Counts) -> None:
    """``feature_counts.ravel()[moves[:, 0]] -= 1; feature_counts.ravel()[moves[:, 1]] += 1``, entry after entry."""
    for i in range(moves.shape[0]):
        feature_counts[moves[i, 0] // n_components, moves[i, 0] % n_components] -= 1
        feature_counts[moves[i, 1] // n_components, moves[i, 1] % n_components] += 1
