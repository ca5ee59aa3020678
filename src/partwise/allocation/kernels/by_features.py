"""Sweeps feature by feature: the cost of a token grows with the components of its row, not with all of them.

The weight of a component is q_k (β_k + S_nk) with q_k = (α_f + S_fk) / (α_+ + S_k). The tokens of one feature share q,
and each of them changes two entries. So Σ q_k β_k is kept up to date, and Σ q_k S_nk has few terms (Yu et al. 2015).
Where the dictionary is given, q_k = w_fk does not change at all (Magnusson et al. 2018).
"""

import numpy as np

from partwise.allocation.kernels.collapsed import Block, Concentrations, Labelled, Tokens, Totals
from partwise.kernels.arrays import Counts, Floats, Indices, Numbers, Singles, Starts, Words
from partwise.kernels.jit import inline_kernel, kernel
from partwise.kernels.prefetch import AT_ONCE, first_of, prefetch
from partwise.kernels.streams import new_stream, next_uniform, seek_row

# Entries that are summed together: rows are filled up to a multiple of the first with components counted 0 times.
_ENTRIES, _COMPONENTS = 8, 16
# Tokens of a cell between two sums of all entries. In between, the sums are updated, which rounding limits.
_TOKENS = 64
# Cells between a row's use and the request for it. Rows are scattered over memory, and waiting for them would take
# longer than all sums. Entries of a row that are asked for: two cache lines of components, four of numbers.
_AHEAD = 3


@inline_kernel
def _change(
    counts: Counts, parts: Floats, k: int, change: int, alpha: float, shares: Floats, ratios: Floats, sums: Floats
) -> float:
    """``counts[k] += change; S_k += change``; returns the change of ``ratios @ beta``. ``parts`` has p, c, S and β."""
    counts[k] += change
    parts[k, 2] += change
    shares[k] = parts[k, 0] / (parts[k, 1] + parts[k, 2])
    fresh = shares[k] * (alpha + counts[k])
    difference = parts[k, 3] * (fresh - ratios[k])
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
def _place_of(row: Numbers, k: int, size: int) -> int:
    """Position of component k in a row, or the row's size. Entries after the row may be looked at."""
    j = 0
    while j < size:
        hit = first_of(row, j, k)
        if hit < AT_ONCE:
            return min(j + int(hit), size)
        j += AT_ONCE
    return size


@inline_kernel
def _taken_out(row: Numbers, numbers: Counts, ratios: Floats, running: Floats, j: int, size: int) -> int:
    """Remove one count of the component at j from a row; returns how many components the row then has."""
    numbers[j] -= 1
    if numbers[j] == 0:
        size -= 1
        moved = numbers[size] * ratios[row[size]]
        running[j // _ENTRIES] += moved
        running[size // _ENTRIES] -= moved
        row[j], numbers[j] = row[size], numbers[size]
        row[size], numbers[size] = 0, 0
    return size


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


@inline_kernel
def _prior_sums(beta: Floats, ratios: Floats, sums: Floats) -> float:
    """``sums[:] = (beta * ratios).reshape(sums.size, -1).sum(axis=1); sums.sum()``."""
    total = 0.0
    for b in range(sums.size):
        some = 0.0
        for k in range(_COMPONENTS * b, _COMPONENTS * (b + 1)):
            some += beta[k] * ratios[k]
        sums[b] = some
        total += some
    return total


@inline_kernel
def _own_sum(row: Numbers, numbers: Counts, ratios: Floats, size: int, running: Floats) -> float:
    """``numbers @ ratios[row]``; sums of groups go to ``running``."""
    total = 0.0
    for c in range((size + _ENTRIES - 1) // _ENTRIES):
        running[c] = _group_sum(row, numbers, ratios, _ENTRIES * c)
        total += running[c]
    return total


@inline_kernel
def _drawn_place(
    row: Numbers,
    weighed: tuple[Counts, Floats, Floats, float],
    size: int,
    prior: tuple[Floats, Floats, float],
    n_components: int,
    uniform: float,
) -> int:
    """The place in a row of a component drawn by ``numbers * ratios[row]`` or, further on, by ``beta * ratios``.

    A new component goes to the end. ``weighed`` are numbers, ratios, sums of groups and their sum.
    """
    (numbers, ratios, running, own_sum), (beta, sums, prior_sum) = weighed, prior
    rest = uniform * (own_sum + prior_sum)
    if rest < own_sum:
        return _place_among_own(row, numbers, ratios, running, size, rest)
    k = _drawn_by_prior(beta, ratios, sums, n_components, rest - own_sum)
    j = _place_of(row, k, size)
    if j == size:
        row[j] = k
        if j % _ENTRIES == 0:
            running[j // _ENTRIES] = 0.0
    return j


@inline_kernel
def _ask_for(own: Numbers, numbers: Counts, labels: Numbers, first: int, token: int) -> None:
    """Let the processor fetch a row's first components, their numbers, and a label."""
    prefetch(own, first)
    prefetch(own, first + 32)
    for entry in range(0, 64, 16):
        prefetch(numbers, first + entry)
    prefetch(labels, token)


@inline_kernel
def _place_of_row(rows: Indices, p: int, end: int, n: int) -> int:
    """``p + np.searchsorted(rows[p:end], n)``."""
    while p < end:
        middle = (p + end) // 2
        if rows[middle] < n:
            p = middle + 1
        else:
            end = middle
    return p


Room = tuple[Numbers, Counts, Starts, Counts]
"""Components of each row and how often they are counted, where a row starts, and how many it has."""


def room_for(rows: tuple[int, int], n_components: int, labels: Numbers, first_tokens: Starts, hidden: bool) -> Room:
    """Room for all components that the rows may have, made by NumPy: it asks for large pages of memory.

    With small pages, looking up addresses would take a fifth of the time of a sweep.
    """
    start, stop = rows
    sizes = np.full(stop - start, n_components)
    if not hidden:
        np.minimum(sizes, np.diff(first_tokens[start : stop + 1]), out=sizes)
    starts = np.concatenate(([0], np.cumsum((sizes // _ENTRIES + 1) * _ENTRIES)))
    own, numbers = np.zeros(starts[-1] + AT_ONCE, labels.dtype), np.zeros(starts[-1], np.int32)
    return own, numbers, starts, np.zeros(stop - start, np.int32)


@kernel
def _take_components(
    sample_counts: Counts, labels: Numbers, first_tokens: Starts, start: int, stop: int, hidden: bool, room: Room
) -> None:
    """Fill the room; entries of ``sample_counts`` become 0.

    Components come in the order of the row's labels; where ``hidden`` tokens without labels are counted too, their
    components follow.
    """
    n_components, (own, numbers, starts, sizes) = sample_counts.shape[1], room
    for n in range(start, stop):
        first = j = starts[n - start]
        for i in range(first_tokens[n], first_tokens[n + 1]):
            k = labels[i]
            if k < n_components and sample_counts[n, k] > 0:
                own[j], numbers[j] = k, sample_counts[n, k]
                sample_counts[n, k] = 0
                j += 1
        if hidden:
            for k in range(n_components):
                if sample_counts[n, k] > 0:
                    own[j], numbers[j] = k, sample_counts[n, k]
                    sample_counts[n, k] = 0
                    j += 1
        sizes[n - start] = j - first


@kernel
def _count_rows(
    sample_counts: Counts, own: Numbers, numbers: Counts, starts: Starts, sizes: Counts, start: int
) -> None:
    """``sample_counts[start + n, own[n]] = numbers[n]``."""
    for n in range(sizes.size):
        for j in range(starts[n], starts[n] + sizes[n]):
            sample_counts[start + n, own[j]] = numbers[j]


@kernel
def sweep_by_features(
    tokens: Tokens,
    priors: Concentrations,
    totals: Totals,
    words: Words,
    block: Block,
    hidden: bool,
    room: Room,
    state: Labelled,
) -> None:
    """``k = rng.choice(K, p=normalise(p_k (α_f + S_fk) / (c_k + S_k) * (β_k + S_nk)))`` for each token, without itself.

    The cells of ``tokens`` are the data by columns. Labels are stored row by row, and within a row by feature. A sweep
    visits the rows and features of ``block``. ``hidden`` says whether tokens without labels are counted, too.
    Labels and counts change in place. A label of K means that a token has none yet. Feature f uses the stream f. A draw
    goes through the row's own components first, in the order in which the row got them, with weights S_nk. Then it goes
    through all components, with weights β_k.
    """
    (indptr, rows, values, first_tokens), (dictionary_concentration, activation_concentration) = tokens, priors
    labels, sample_counts, feature_counts, component_counts = state
    n_components = activation_concentration.size
    start, stop, first_feature, last_feature = block
    _take_components(sample_counts, labels, first_tokens, start, stop, hidden, room)
    own, numbers, starts, sizes = room
    shares = totals[0] / (totals[1] + component_counts)
    n_sums = (n_components - 1) // _COMPONENTS + 1
    ratios = np.zeros(n_sums * _COMPONENTS)
    beta = np.zeros(n_sums * _COMPONENTS)
    beta[:n_components] = activation_concentration
    parts = np.stack((totals[0], totals[1], component_counts.astype(np.float64), activation_concentration), axis=1)
    sums = np.zeros(n_sums)
    running = np.zeros(np.diff(starts).max() // _ENTRIES)
    next_tokens = first_tokens[start:stop].copy()
    for f in range(first_feature):
        for p in range(_place_of_row(rows, indptr[f], indptr[f + 1], start), indptr[f + 1]):
            if rows[p] >= stop:
                break
            next_tokens[rows[p] - start] += values[p]
    stream = new_stream()
    for f in range(first_feature, last_feature):
        begin = _place_of_row(rows, indptr[f], indptr[f + 1], start)
        end = _place_of_row(rows, begin, indptr[f + 1], stop)
        if begin == end:
            continue
        seek_row(stream, words, f)
        alpha = dictionary_concentration[f]
        counts = feature_counts[f]
        for k in range(n_components):
            ratios[k] = shares[k] * (alpha + counts[k])
        prior_sum = _prior_sums(beta, ratios, sums)
        for p in range(begin, end):
            n = rows[p] - start
            if p + _AHEAD < end:
                m = rows[p + _AHEAD] - start
                _ask_for(own, numbers, labels, starts[m], next_tokens[m])
            row = own[starts[n] : starts[n + 1]]
            row_numbers = numbers[starts[n] : starts[n + 1]]
            size = int(sizes[n])
            first = next_tokens[n]
            next_tokens[n] = first + values[p]
            own_sum = 0.0
            for i in range(first, first + values[p]):
                old = int(labels[i])
                if (i - first) % _TOKENS == 0:
                    own_sum = _own_sum(row, row_numbers, ratios, size, running)
                if old < n_components:
                    j = _place_of(row, old, size)
                    before = row_numbers[j] * ratios[old]
                    prior_sum += _change(counts, parts, old, -1, alpha, shares, ratios, sums)
                    difference = (row_numbers[j] - 1) * ratios[old] - before
                    own_sum += difference
                    running[j // _ENTRIES] += difference
                    size = _taken_out(row, row_numbers, ratios, running, j, size)
                weighed, prior = (row_numbers, ratios, running, own_sum), (beta, sums, prior_sum)
                j = _drawn_place(row, weighed, size, prior, n_components, next_uniform(stream))
                new, size = int(row[j]), max(size, j + 1)
                before = row_numbers[j] * ratios[new]
                row_numbers[j] += 1
                prior_sum += _change(counts, parts, new, 1, alpha, shares, ratios, sums)
                difference = row_numbers[j] * ratios[new] - before
                own_sum += difference
                running[j // _ENTRIES] += difference
                labels[i] = new
            sizes[n] = size
    component_counts[:] = parts[:, 2]
    _count_rows(sample_counts, own, numbers, starts, sizes, start)


@kernel
def sweep_rows_by_features(
    tokens: Tokens,
    dictionary: Singles,
    activation_concentration: Floats,
    words: Words,
    span: tuple[int, int, int, int],
    hidden: bool,
    room: Room,
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
    _take_components(sample_counts, labels, first_tokens, start, stop, hidden, room)
    own, numbers, starts, sizes = room
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
        prior_sum = _prior_sums(beta, weights, sums)
        for p in range(ends[f], ends[f + 1]):
            n = rows[p]
            if p + _AHEAD < ends[f + 1]:
                m = rows[p + _AHEAD]
                _ask_for(own, numbers, labels, starts[m], next_tokens[m])
            row = own[starts[n] : starts[n + 1]]
            row_numbers = numbers[starts[n] : starts[n + 1]]
            size = int(sizes[n])
            first = next_tokens[n]
            next_tokens[n] = first + lengths[p]
            own_sum = 0.0
            for i in range(first, first + lengths[p]):
                old = int(labels[i])
                if (i - first) % _TOKENS == 0:
                    own_sum = _own_sum(row, row_numbers, weights, size, running)
                if old < n_components:
                    j = _place_of(row, old, size)
                    own_sum -= weights[old]
                    running[j // _ENTRIES] -= weights[old]
                    size = _taken_out(row, row_numbers, weights, running, j, size)
                weighed = row_numbers, weights, running, own_sum
                j = _drawn_place(row, weighed, size, (beta, sums, prior_sum), n_components, next_uniform(stream))
                new, size = int(row[j]), max(size, j + 1)
                row_numbers[j] += 1
                own_sum += weights[new]
                running[j // _ENTRIES] += weights[new]
                labels[i] = new
                feature_counts[f, new] += 1
            sizes[n] = size
    _count_rows(sample_counts, own, numbers, starts, sizes, start)
