"""Sweeps feature by feature: the cost of a token grows with the components of its row, not with all of them.

The weight of a component is q_k (β_k + S_nk) with q_k = (α_f + S_fk) / (α_+ + S_k). The tokens of one feature share q,
and each of them changes two entries. So Σ q_k β_k is kept up to date, and Σ q_k S_nk has few terms (Yu et al. 2015).
Where the dictionary is given, q_k = w_fk does not change at all (Magnusson et al. 2018).
"""

import numpy as np

from partwise.allocation.kernels.collapsed import Concentrations, Labelled, Tokens
from partwise.kernels.arrays import Counts, Floats, LongCounts, Numbers, Singles, Starts, Words
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
    """``numbers[j : j + 8] @ ratios[row[j : j + 8]]``, written out: so short a loop would cost more than its sums."""
    left = numbers[j] * ratios[row[j]] + numbers[j + 1] * ratios[row[j + 1]]
    left += numbers[j + 2] * ratios[row[j + 2]] + numbers[j + 3] * ratios[row[j + 3]]
    right = numbers[j + 4] * ratios[row[j + 4]] + numbers[j + 5] * ratios[row[j + 5]]
    right += numbers[j + 6] * ratios[row[j + 6]] + numbers[j + 7] * ratios[row[j + 7]]
    return float(left + right)


@inline_kernel
def _taken_out(row: Numbers, numbers: Counts, k: int, size: int) -> int:
    """Remove one count of component k from a row; returns how many components the row then has."""
    j = 0
    while row[j] != k:
        j += 1
    numbers[j] -= 1
    if numbers[j] == 0:
        size -= 1
        row[j], numbers[j] = row[size], numbers[size]
        row[size], numbers[size] = 0, 0
    return size


@inline_kernel
def _place_of(row: Numbers, k: int, size: int) -> int:
    """Position of component k in a row; a new component goes to the end."""
    j = 0
    while j < size and row[j] != k:
        j += 1
    if j == size:
        row[j] = k
    return j


# If rounding lets a draw run past the end, take the last entry with a positive weight.


@inline_kernel
def _place_among_own(row: Numbers, numbers: Counts, ratios: Floats, running: Floats, size: int, rest: float) -> int:
    """``np.searchsorted(np.cumsum(numbers * ratios[row]), rest, "right")``, ``running`` being sums of groups."""
    c = 0
    while c < (size + _ENTRIES - 1) // _ENTRIES - 1 and rest >= running[c]:
        rest -= running[c]
        c += 1
    j = _ENTRIES * c
    last = min(j + _ENTRIES, size) - 1
    while j < last and rest >= numbers[j] * ratios[row[j]]:
        rest -= numbers[j] * ratios[row[j]]
        j += 1
    return j


@inline_kernel
def _drawn_by_prior(beta: Floats, ratios: Floats, sums: Floats, n_components: int, rest: float) -> int:
    """``np.searchsorted(np.cumsum(beta * ratios), rest, "right")``, ``sums`` being those of groups."""
    b = 0
    while b < sums.size - 1 and rest >= sums[b]:
        rest -= sums[b]
        b += 1
    k = _COMPONENTS * b
    last = min(k + _COMPONENTS, n_components) - 1
    while k < last and rest >= beta[k] * ratios[k]:
        rest -= beta[k] * ratios[k]
        k += 1
    return k


@kernel
def _components_of_rows(
    sample_counts: Counts, labels: Numbers, first_tokens: Starts, start: int, stop: int
) -> tuple[Numbers, Counts, Starts, Counts]:
    """Components of each row and how often they are counted, where a row starts, and how many it has."""
    n_components = sample_counts.shape[1]
    sizes, starts = np.zeros(stop - start, np.int32), np.zeros(stop - start + 1, np.int64)
    for n in range(start, stop):
        for k in range(n_components):
            sizes[n - start] += sample_counts[n, k] > 0
        most = min(n_components, sizes[n - start] + first_tokens[n + 1] - first_tokens[n])
        starts[n - start + 1] = starts[n - start] + (most // _ENTRIES + 1) * _ENTRIES
    own = np.zeros(starts[stop - start], labels.dtype)
    numbers = np.zeros(starts[stop - start], np.int32)
    for n in range(start, stop):
        j = starts[n - start]
        for k in range(n_components):
            if sample_counts[n, k] > 0:
                own[j] = k
                numbers[j] = sample_counts[n, k]
                j += 1
    return own, numbers, starts, sizes


@kernel
def _count_rows(
    sample_counts: Counts, own: Numbers, numbers: Counts, starts: Starts, sizes: Counts, start: int
) -> None:
    """``sample_counts[start + n, own[n]] = numbers[n]``, 0 for other components."""
    for n in range(sizes.size):
        for k in range(sample_counts.shape[1]):
            sample_counts[start + n, k] = 0
        for j in range(starts[n], starts[n] + sizes[n]):
            sample_counts[start + n, own[j]] = numbers[j]


@kernel
def sweep_by_features(tokens: Tokens, priors: Concentrations, words: Words, state: Labelled) -> None:
    """``k = rng.choice(K, p=normalise((α_f + S_fk) / (α_+ + S_k) * (β_k + S_nk)))`` for each token, without itself.

    The cells of ``tokens`` are the data by columns. Labels are stored row by row, and within a row by feature.
    Labels and counts change in place. A label of K means that a token has none yet. Feature f uses the stream f. A draw
    goes through the row's own components first, in the order in which the row got them, with weights S_nk. Then it goes
    through all components, with weights β_k.
    """
    (indptr, rows, values, first_tokens), (dictionary_concentration, activation_concentration) = tokens, priors
    labels, sample_counts, feature_counts, component_counts = state
    n_components = activation_concentration.size
    whole = sum_of(dictionary_concentration)
    n_rows = first_tokens.size - 1
    own, numbers, starts, sizes = _components_of_rows(sample_counts, labels, first_tokens, 0, n_rows)
    n_sums = (n_components - 1) // _COMPONENTS + 1
    ratios = np.zeros(n_sums * _COMPONENTS)
    beta = np.zeros(n_sums * _COMPONENTS)
    beta[:n_components] = activation_concentration
    sums = np.zeros(n_sums)
    running = np.zeros(np.diff(starts).max() // _ENTRIES)
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
                    size = _taken_out(row, row_numbers, old, size)
                own_sum = 0.0
                n_groups = (size + _ENTRIES - 1) // _ENTRIES
                for c in range(n_groups):
                    running[c] = _group_sum(row, row_numbers, ratios, _ENTRIES * c)
                    own_sum += running[c]
                rest = next_uniform(stream) * (own_sum + prior_sum)
                if rest < own_sum:
                    j = _place_among_own(row, row_numbers, ratios, running, size, rest)
                    new = int(row[j])
                else:
                    new = _drawn_by_prior(beta, ratios, sums, n_components, rest - own_sum)
                    j = _place_of(row, new, size)
                    size = max(size, j + 1)
                row_numbers[j] += 1
                prior_sum += _change(counts, component_counts, new, 1, alpha, whole, beta, ratios, sums)
                labels[i] = new
            sizes[n] = size
    _count_rows(sample_counts, own, numbers, starts, sizes, 0)


@kernel
def sweep_rows_by_features(
    tokens: Tokens,
    dictionary: Singles,
    activation_concentration: Floats,
    words: Words,
    span: tuple[int, int, int, int],
    state: tuple[Numbers, Counts, Counts],
) -> None:
    """``k = rng.choice(K, p=normalise(w_fk * (β_k + S_nk)))`` for each token of each row, without the token itself.

    Labels and ``sample_counts`` change in place, ``feature_counts`` grows by the new labels. With
    ``first_row, row_keys, start, stop = span``, feature f has the stream ``first_row + start + row_keys * f``. A draw
    goes through components as in `sweep_by_features`.
    """
    (indptr, indices, values, first_tokens), (first_row, row_keys, start, stop) = tokens, span
    labels, sample_counts, feature_counts = state
    n_components, n_features = activation_concentration.size, dictionary.shape[0]
    own, numbers, starts, sizes = _components_of_rows(sample_counts, labels, first_tokens, start, stop)
    ends = np.zeros(n_features + 1, np.int64)
    for p in range(indptr[start], indptr[stop]):
        ends[indices[p] + 1] += 1
    for f in range(n_features):
        ends[f + 1] += ends[f]
    rows = np.empty(indptr[stop] - indptr[start], np.int32)
    lengths = np.empty(rows.size, values.dtype)
    places = ends.copy()
    for n in range(start, stop):
        for p in range(indptr[n], indptr[n + 1]):
            place = places[indices[p]]
            rows[place], lengths[place] = n - start, values[p]
            places[indices[p]] += 1
    n_sums = (n_components - 1) // _COMPONENTS + 1
    weights, beta = np.zeros(n_sums * _COMPONENTS), np.zeros(n_sums * _COMPONENTS)
    beta[:n_components] = activation_concentration
    sums = np.zeros(n_sums)
    running = np.zeros(np.diff(starts).max() // _ENTRIES)
    next_tokens = first_tokens[start:stop].copy()
    stream = new_stream()
    for f in range(n_features):
        if ends[f] == ends[f + 1]:
            continue
        seek_row(stream, words, first_row + start + row_keys * f)
        weights[:n_components] = dictionary[f, :n_components]
        prior_sum = 0.0
        for b in range(n_sums):
            some = 0.0
            for k in range(_COMPONENTS * b, _COMPONENTS * (b + 1)):
                some += beta[k] * weights[k]
            sums[b] = some
            prior_sum += some
        for p in range(ends[f], ends[f + 1]):
            n = rows[p]
            row = own[starts[n] : starts[n + 1]]
            row_numbers = numbers[starts[n] : starts[n + 1]]
            size = int(sizes[n])
            first = next_tokens[n]
            next_tokens[n] = first + lengths[p]
            for i in range(first, first + lengths[p]):
                old = int(labels[i])
                if old < n_components:
                    size = _taken_out(row, row_numbers, old, size)
                own_sum = 0.0
                n_groups = (size + _ENTRIES - 1) // _ENTRIES
                for c in range(n_groups):
                    running[c] = _group_sum(row, row_numbers, weights, _ENTRIES * c)
                    own_sum += running[c]
                rest = next_uniform(stream) * (own_sum + prior_sum)
                if rest < own_sum:
                    j = _place_among_own(row, row_numbers, weights, running, size, rest)
                    new = int(row[j])
                else:
                    new = _drawn_by_prior(beta, weights, sums, n_components, rest - own_sum)
                    j = _place_of(row, new, size)
                    size = max(size, j + 1)
                row_numbers[j] += 1
                labels[i] = new
                feature_counts[f, new] += 1
            sizes[n] = size
    _count_rows(sample_counts, own, numbers, starts, sizes, start)
