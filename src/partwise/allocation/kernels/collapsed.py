"""Collapsed sweeps: each token in turn is drawn (also at a temperature) or spread, given all other tokens."""

import math

import numpy as np

from partwise.kernels.arrays import Cells, Counts, Floats, Indices, LongCounts, Missing, Numbers, Singles, Starts, Words
from partwise.kernels.categories import categorical, poisson_parts
from partwise.kernels.jit import inline_kernel, kernel
from partwise.kernels.lanes import LANES, draw_component
from partwise.kernels.streams import new_stream, next_uniform, seek_row
from partwise.kernels.sums import sum_of

Tokens = tuple[Starts, Indices, Numbers, Starts]
"""Cells, and where the labels of each row start."""
Concentrations = tuple[Floats, Floats]
"""Of the dictionary and of the activations."""
Totals = tuple[Floats, Floats]
"""What multiplies the weight of each component, p_k, and what its count is added to, c_k: 1 and α_+ for all tokens."""
Block = tuple[int, int, int, int]
"""First row, last, first feature and last, the last ones excluded."""
Labelled = tuple[Numbers, Counts, Counts, LongCounts]
"""Labels, and how often samples, features and all data have each."""


@inline_kernel
def count_token(
    sample_counts: Counts, feature_counts: Counts, component_counts: Numbers, n: int, f: int, k: int, change: int
) -> None:
    """``sample_counts[n, k] += change; feature_counts[f, k] += change; component_counts[k] += change``."""
    sample_counts[n, k] += change
    feature_counts[f, k] += change
    component_counts[k] += change


@kernel
def sweep_tokens(
    tokens: Tokens,
    priors: Concentrations,
    totals: Totals,
    tile: int,
    words: Words,
    streams: tuple[int, int],
    block: Block,
    state: Labelled,
) -> None:
    """``k = rng.choice(K, p=normalise(p_k (α_f + S_fk) / (c_k + S_k) * (β_k + S_nk)))`` for each token, without itself.

    A sweep visits the tokens of the rows and features of ``block``. Labels and counts change in place. A label of K
    means none yet. ``feature_counts`` has zeros appended up to a multiple of ``LANES`` components. Only two entries of
    p_k (β_k + S_nk) / (c_k + S_k) change from one token to the next.
    All rows take their tokens of the first ``tile`` features, then those of the next, so that counts stay in the cache.
    With ``first_row, row_keys = streams``, row n of tile t has the stream ``first_row + n + row_keys * t``.
    """
    (indptr, indices, values, first_tokens), (first_row, row_keys) = tokens, streams
    (factors, rest), (start, stop, first_feature, last_feature) = totals, block
    dictionary_concentration, activation_concentration = priors
    labels, sample_counts, feature_counts, component_counts = state
    n_components = activation_concentration.size
    n_padded = feature_counts.shape[1]
    shares = np.zeros(n_padded)
    running = np.empty((n_padded // LANES, LANES))
    next_cells = indptr[start:stop].copy()
    next_tokens = first_tokens[start:stop].copy()
    for n in range(start, stop):
        while next_cells[n - start] < indptr[n + 1] and indices[next_cells[n - start]] < first_feature:
            next_tokens[n - start] += values[next_cells[n - start]]
            next_cells[n - start] += 1
    stream = new_stream()
    for t in range(1, (last_feature - first_feature - 1) // tile + 2):
        last = min(first_feature + t * tile, last_feature)
        for n in range(start, stop):
            p, end = next_cells[n - start], indptr[n + 1]
            if p == end or indices[p] >= last:
                continue
            seek_row(stream, words, first_row + n + row_keys * t)
            for k in range(n_components):
                mass = factors[k] * (activation_concentration[k] + sample_counts[n, k])
                shares[k] = mass / (rest[k] + component_counts[k])
            i = next_tokens[n - start]
            while p < end and indices[p] < last:
                f = indices[p]
                alpha = dictionary_concentration[f]
                for _ in range(values[p]):
                    old = int(labels[i])
                    if old < n_components:
                        count_token(sample_counts, feature_counts, component_counts, n, f, old, -1)
                        mass = factors[old] * (activation_concentration[old] + sample_counts[n, old])
                        shares[old] = mass / (rest[old] + component_counts[old])
                    new = draw_component(feature_counts, f, alpha, shares, next_uniform(stream), n_components, running)
                    count_token(sample_counts, feature_counts, component_counts, n, f, new, 1)
                    mass = factors[new] * (activation_concentration[new] + sample_counts[n, new])
                    shares[new] = mass / (rest[new] + component_counts[new])
                    labels[i] = new
                    i += 1
                p += 1
            next_cells[n - start] = p
            next_tokens[n - start] = i


@kernel
def count_blocks(tokens: Tokens, features: Starts, start: int, stop: int, labels: Numbers, counts: LongCounts) -> None:
    """``counts[b] = np.bincount(labels of rows start to stop and features[b] to features[b + 1])``."""
    indptr, indices, values, first_tokens = tokens
    for n in range(start, stop):
        i, b = first_tokens[n], 0
        for p in range(indptr[n], indptr[n + 1]):
            while indices[p] >= features[b + 1]:
                b += 1
            for _ in range(values[p]):
                counts[b, labels[i]] += 1
                i += 1


@kernel
def keep_rows(
    counts: Counts, concentration: Floats, lengths: tuple[float, float], log_gammas: Floats, kept: Floats, sums: Floats
) -> float:
    """``kept += prior.expected_activations(counts); (gammaln(β + counts) - gammaln(β)).sum()``; ``sums`` are of rows.

    ``lengths`` are the shape and rate of the prior, ``log_gammas`` are log Γ(β).
    """
    total, (shape, rate) = 0.0, lengths
    whole = sum_of(concentration)
    for n in range(counts.shape[0]):
        length = 0
        for k in range(concentration.size):
            length += counts[n, k]
        sums[n] = length
        weight = (shape + length) / (rate + 1.0) / (whole + length)
        for k in range(concentration.size):
            kept[n, k] += weight * (concentration[k] + counts[n, k])
        for k in range(concentration.size):
            if counts[n, k] > 0:
                total += math.lgamma(concentration[k] + counts[n, k]) - log_gammas[k]
    return total


@kernel
def draw_missing_cells(
    missing: Missing,
    activations: Floats,
    dictionary: Floats,
    words: Words,
    counts: tuple[Counts, Counts, Counts, LongCounts],
) -> None:
    """``held[p] = rng.poisson(activations[n] * dictionary[f])`` for each missing cell p, in row n and column f.

    Counts of samples, features and all data change by the difference.
    """
    (missing_indptr, missing_indices), (held, sample_counts, feature_counts, component_counts) = missing, counts
    n_components = activations.shape[1]
    weights, drawn = np.empty(n_components), np.empty(n_components, np.int64)
    stream = new_stream()
    for n in range(activations.shape[0]):
        seek_row(stream, words, n)
        for p in range(missing_indptr[n], missing_indptr[n + 1]):
            f = missing_indices[p]
            poisson_parts(stream, activations[n], dictionary[f], weights, drawn)
            for k in range(n_components):
                if drawn[k] != held[p, k]:
                    count_token(sample_counts, feature_counts, component_counts, n, f, k, drawn[k] - held[p, k])
                    held[p, k] = drawn[k]


@kernel
def sweep_annealed(tokens: Tokens, priors: Concentrations, coldness: float, words: Words, state: Labelled) -> float:
    """``gain = (α_f + S_fk) / (α_+ + S_k) * (β_k + S_nk) / (S_nfk + 1); p = gain**coldness * (S_nfk + 1)``.

    Each token, left out of the counts, takes a component with probability proportional to p. An infinite coldness takes
    the largest gain; the present component wins ties. The sweep draws from p(S)^coldness, where all labels that give
    one S share its probability evenly. At coldness 1 it is the ordinary sweep. Returns Σ log S_nfk!.
    """
    (indptr, indices, values, first_tokens), (dictionary_concentration, activation_concentration) = tokens, priors
    labels, sample_counts, feature_counts, component_counts = state
    n_components = activation_concentration.size
    whole = sum_of(dictionary_concentration)
    cell = np.zeros(n_components)
    gains = np.empty(n_components)
    weights = np.empty(n_components)
    stream = new_stream()
    log_factorials = 0.0
    for n in range(indptr.size - 1):
        seek_row(stream, words, n)
        i = first_tokens[n]
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            for k in range(n_components):
                cell[k] = 0.0
            for t in range(i, i + values[p]):
                cell[labels[t]] += 1.0
            for _ in range(values[p]):
                old = int(labels[i])
                cell[old] -= 1.0
                count_token(sample_counts, feature_counts, component_counts, n, f, old, -1)
                largest = 0.0
                for k in range(n_components):
                    gains[k] = (
                        (dictionary_concentration[f] + feature_counts[f, k])
                        / (whole + component_counts[k])
                        * (activation_concentration[k] + sample_counts[n, k])
                        / (cell[k] + 1.0)
                    )
                    largest = max(largest, gains[k])
                new = old
                if coldness < math.inf:
                    for k in range(n_components):
                        weights[k] = (gains[k] / largest) ** coldness * (cell[k] + 1.0)
                    new = categorical(stream, weights, sum_of(weights))
                else:
                    for k in range(n_components):
                        if gains[k] > gains[new] * (1.0 + 1e-12):
                            new = k
                cell[new] += 1.0
                count_token(sample_counts, feature_counts, component_counts, n, f, new, 1)
                labels[i] = new
                i += 1
            for k in range(n_components):
                if cell[k] > 1.0:
                    log_factorials += math.lgamma(cell[k] + 1.0)
    return log_factorials


@kernel
def sweep_responsibilities(
    cells: Cells, priors: Concentrations, responsibilities: Singles, counts: tuple[Floats, Floats, Floats]
) -> float:
    """``r = normalise((α_f + S_fk - r) / (α_+ + S_k - r) * (β_k + S_nk - r))`` for each nonzero in turn, in place.

    Counts are expected counts, without the responsibility of the token itself. All tokens of a cell have the same
    responsibilities. Returns the sum of absolute changes over tokens.
    """
    (indptr, indices, values), (dictionary_concentration, activation_concentration) = cells, priors
    sample_counts, feature_counts, component_counts = counts
    n_components = activation_concentration.size
    whole = sum_of(dictionary_concentration)
    fresh = np.empty(n_components)
    change = 0.0
    for n in range(indptr.size - 1):
        for p in range(indptr[n], indptr[n + 1]):
            f = indices[p]
            for k in range(n_components):
                own = responsibilities[p, k]
                fresh[k] = (
                    max(dictionary_concentration[f] + feature_counts[f, k] - own, 1e-300)
                    / (whole + component_counts[k] - own)
                    * max(activation_concentration[k] + sample_counts[n, k] - own, 1e-300)
                )
            total = sum_of(fresh)
            for k in range(n_components):
                new = np.float32(fresh[k] / total)
                # numba's float() keeps single precision, in which the counts would drift from the responsibilities.
                difference = values[p] * (np.float64(new) - np.float64(responsibilities[p, k]))
                responsibilities[p, k] = new
                sample_counts[n, k] += difference
                feature_counts[f, k] += difference
                component_counts[k] += difference
                change += abs(difference)
    return change
