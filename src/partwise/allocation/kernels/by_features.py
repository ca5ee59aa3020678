"""Collapsed sweeps feature by feature: the cost of a token grows with the components of its row, not with all of them.

The weight of a component is q_k (β_k + S_nk) with q_k = (α_f + S_fk) / (α_+ + S_k). The tokens of one feature share q,
and each of them changes two entries. So Σ q_k β_k is kept up to date, and Σ q_k S_nk has few terms (Yu et al. 2015).
"""

from __future__ import annotations

import numpy as np

from partwise.allocation.kernels.collapsed import Concentrations, Labelled, Tokens
from partwise.kernels.arrays import Counts, Floats, LongCounts, Numbers, Words
from partwise.kernels.jit import inline_kernel, kernel
from partwise.kernels.streams import new_stream, next_uniform, seek_row
from partwise.kernels.sums import sum_of

# Entries that are summed together: rows are filled up to a multiple of the first with components counted 0 times.
_ENTRIES, _COMPONENTS = 8, 16


@inline_kernel
def _change(
    counts: Counts,
    component_counts: LongCounts,
    k: int,
    change: int,
    alpha: float,
    whole: float,
    beta: Floats,
    ratios: Floats,
    sums: Floats,
) -> float:
    """``counts[k] += change; component_counts[k] += change``; returns the change of ``ratios @ beta``."""
    counts[k] += change
    component_counts[k] += change
    fresh = (alpha + counts[k]) / (whole + component_counts[k])
    difference = beta[k] * (fresh - ratios[k])
    ratios[k] = fresh
    sums[k // _COMPONENTS] += difference
    return float(difference)


@inline_kernel
def _group_sum(row: Numbers, numbers: Counts, ratios: Floats, j: int) -> float:
    """``numbers[j : j + 8] @ ratios[row[j : j + 8]]``, written out: a loop so short costs more than its sums."""
    left = numbers[j] * ratios[row[j]] + numbers[j + 1] * ratios[row[j + 1]]
    left += numbers[j + 2] * ratios[row[j + 2]] + numbers[j + 3] * ratios[row[j + 3]]
    right = numbers[j + 4] * ratios[row[j + 4]] + numbers[j + 5] * ratios[row[j + 5]]
    right += numbers[j + 6] * ratios[row[j + 6]] + numbers[j + 7] * ratios[row[j + 7]]
    return float(left + right)


@kernel
def sweep_by_features(tokens: Tokens, priors: Concentrations, words: Words, state: Labelled) -> None:
    """``k = rng.choice(K, p=normalise((α_f + S_fk) / (α_+ + S_k) * (β_k + S_nk)))`` for each token, without itself.

    The cells of ``tokens`` are the data by columns; labels lie row after row, those of a row by features.
    Labels and counts change in place; a label of K stands for none yet. Feature f has the stream f. A draw goes through
    the row's own components first, in the order in which they came to it, each counting S_nk times, and then through
    all components, each counting β_k times.
    """
    (indptr, rows, values, first_tokens), (dictionary_concentration, activation_concentration) = tokens, priors
    labels, sample_counts, feature_counts, component_counts = state
    n_components = activation_concentration.size
    whole = sum_of(dictionary_concentration)
    n_rows = first_tokens.size - 1
    sizes = np.zeros(n_rows, np.int32)
    starts = np.zeros(n_rows + 1, np.int64)
    for n in range(n_rows):
        for k in range(n_components):
            sizes[n] += sample_counts[n, k] > 0
        most = min(n_components, sizes[n] + first_tokens[n + 1] - first_tokens[n])
        starts[n + 1] = starts[n] + (most // _ENTRIES + 1) * _ENTRIES
    own = np.zeros(starts[n_rows], labels.dtype)
    numbers = np.zeros(starts[n_rows], np.int32)
    longest = 0
    for n in range(n_rows):
        longest = max(longest, starts[n + 1] - starts[n])
        j = starts[n]
        for k in range(n_components):
            if sample_counts[n, k] > 0:
                own[j] = k
                numbers[j] = sample_counts[n, k]
                j += 1
    n_sums = (n_components - 1) // _COMPONENTS + 1
    ratios = np.zeros(n_sums * _COMPONENTS)
    beta = np.zeros(n_sums * _COMPONENTS)
    beta[:n_components] = activation_concentration
    sums = np.zeros(n_sums)
    running = np.zeros(longest // _ENTRIES)
    next_tokens = first_tokens.copy()
    stream = new_stream()
    for f in range(indptr.size - 1):
        if indptr[f] == indptr[f + 1]:
            continue
        seek_row(stream, words, f)
        alpha = dictionary_concentration[f]
        counts = feature_counts[f]
        for k in range(n_components):
            ratios[k] = (alpha + counts[k]) / (whole + component_counts[k])
        prior_sum = 0.0
        for b in range(n_sums):
            some = 0.0
            for k in range(_COMPONENTS * b, _COMPONENTS * (b + 1)):
                some += beta[k] * ratios[k]
            sums[b] = some
            prior_sum += some
        for p in range(indptr[f], indptr[f + 1]):
            n = rows[p]
            row = own[starts[n] : starts[n + 1]]
            row_numbers = numbers[starts[n] : starts[n + 1]]
            size = int(sizes[n])
            first = next_tokens[n]
            next_tokens[n] = first + values[p]
            for i in range(first, first + values[p]):
                old = int(labels[i])
                if old < n_components:
                    prior_sum += _change(counts, component_counts, old, -1, alpha, whole, beta, ratios, sums)
                    j = 0
                    while row[j] != old:
                        j += 1
                    row_numbers[j] -= 1
                    if row_numbers[j] == 0:
                        size -= 1
                        row[j], row_numbers[j] = row[size], row_numbers[size]
                        row[size], row_numbers[size] = 0, 0
                own_sum = 0.0
                n_groups = (size + _ENTRIES - 1) // _ENTRIES
                for c in range(n_groups):
                    running[c] = _group_sum(row, row_numbers, ratios, _ENTRIES * c)
                    own_sum += running[c]
                rest = next_uniform(stream) * (own_sum + prior_sum)
                # Where rounding lets the draw slip past, the last entry that it could have been is taken.
                if rest < own_sum:
                    c = 0
                    while c < n_groups - 1 and rest >= running[c]:
                        rest -= running[c]
                        c += 1
                    j = _ENTRIES * c
                    last = min(j + _ENTRIES, size) - 1
                    while j < last and rest >= row_numbers[j] * ratios[row[j]]:
                        rest -= row_numbers[j] * ratios[row[j]]
                        j += 1
                    new = int(row[j])
                else:
                    rest -= own_sum
                    b = 0
                    while b < n_sums - 1 and rest >= sums[b]:
                        rest -= sums[b]
                        b += 1
                    new = _COMPONENTS * b
                    last = min(new + _COMPONENTS, n_components) - 1
                    while new < last and rest >= beta[new] * ratios[new]:
                        rest -= beta[new] * ratios[new]
                        new += 1
                    j = 0
                    while j < size and row[j] != new:
                        j += 1
                    if j == size:
                        row[j] = new
                        size += 1
                row_numbers[j] += 1
                prior_sum += _change(counts, component_counts, new, 1, alpha, whole, beta, ratios, sums)
                labels[i] = new
            sizes[n] = size
    for n in range(n_rows):
        for k in range(n_components):
            sample_counts[n, k] = 0
        for j in range(starts[n], starts[n] + sizes[n]):
            sample_counts[n, own[j]] = numbers[j]
