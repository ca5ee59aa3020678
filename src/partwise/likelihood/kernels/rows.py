"""What exact algorithms need of one row: its tokens, the components that can explain them, and what is settled."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.inner import inner_kernel
from partwise.kernels.jit import kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = tuple[np.uint64, np.uint64, np.uint64]  # of a key: seed, stage and chain, iteration

_SMALL = 1e-290  # well above the smallest double with all its digits, 2.2e-308


class RowModel(NamedTuple):
    """Rows of counts (CSR) and the model: w_fk, 1 / (b_k + e_nk) (one row where nothing is missing), a_k and b_k."""

    indptr: Integers
    indices: NDArray[np.int32]
    values: Integers
    dictionary: Floats
    inverse_rates: Floats
    shape: Floats
    rate: Floats


class OpenRow(NamedTuple):
    """What is open of a gathered row.

    Attributes
    ----------
    n_features, n_components, n_tokens
        Open features, components (0 or at least 2) and tokens.
    log_factor
        What is settled, as a logarithm: see `gather_row`.
    total_shape
        Sum of the shapes of the open components, settled tokens included.
    """

    n_features: int
    n_components: int
    n_tokens: int
    log_factor: float
    total_shape: float


class RowBuffers(NamedTuple):
    """What `gather_row` finds out about a row; only the first entries are of the row at hand.

    Attributes
    ----------
    weights
        q'_fk: open features x open components.
    counts, positions
        x_f of the open features, and where they stand in the CSR arrays.
    shapes, components
        Shapes of the open components, settled tokens included, and which components these are.
    settled
        Tokens that can only belong to a component, for all components.
    owners
        The component of each stored entry of the row that is settled, -1 for open ones.
    """

    weights: Floats
    counts: Integers
    positions: Integers
    shapes: Floats
    components: Integers
    settled: Integers
    owners: Integers


@inner_kernel
def _token_weights(model: RowModel, feature: int, rate_row: int, out: Floats, out_row: int) -> float:
    """``q = dictionary[feature] * inverse_rates[rate_row]; out[out_row] = q / q.max()``; returns ``log(q.max())``.

    Where a product leaves the range of doubles, mantissas and exponents are multiplied apart.
    """
    dictionary, inverse_rates = model.dictionary, model.inverse_rates
    n_components = dictionary.shape[1]
    largest = 0.0
    smallest = math.inf
    for k in range(n_components):
        weight = dictionary[feature, k] * inverse_rates[rate_row, k]
        out[out_row, k] = weight
        largest = max(largest, weight)
        if dictionary[feature, k] > 0.0:
            smallest = min(smallest, weight)
    if largest < math.inf and smallest > _SMALL:
        for k in range(n_components):
            out[out_row, k] /= largest
        return math.log(largest)
    most = -(1 << 40)
    for k in range(n_components):
        if dictionary[feature, k] > 0.0:
            exponent = math.frexp(dictionary[feature, k])[1] + math.frexp(inverse_rates[rate_row, k])[1]
            most = max(most, exponent)
    largest = 0.0
    for k in range(n_components):
        left, left_exponent = math.frexp(dictionary[feature, k])
        right, right_exponent = math.frexp(inverse_rates[rate_row, k])
        out[out_row, k] = math.ldexp(left * right, max(left_exponent + right_exponent - most, -2000))
        largest = max(largest, out[out_row, k])
    for k in range(n_components):
        out[out_row, k] /= largest
    return math.log(largest) + most * math.log(2.0)


@kernel
def row_buffers(indptr: Integers, rows: Integers, n_components: int) -> RowBuffers:
    """Buffers for the longest of some rows."""
    longest = 1
    for n in rows:
        longest = max(longest, indptr[n + 1] - indptr[n])
    return RowBuffers(
        np.zeros((longest, n_components)),
        np.zeros(longest, np.int64),
        np.zeros(longest, np.int64),
        np.zeros(n_components),
        np.zeros(n_components, np.int64),
        np.zeros(n_components, np.int64),
        np.zeros(longest, np.int64),
    )


@inner_kernel
def gather_row(model: RowModel, n: int, row: RowBuffers) -> OpenRow:
    """Reduce row n to the tokens and the components whose allocation is open, and write these to ``row``.

    With q_fk = w_fk / (b_k + e_nk), a token of a feature with a single positive q_fk belongs to that component: it
    leaves the document, and a_k grows by one. Components that no open token can belong to leave as well. What is left
    has

        log T[Π_f (q_f·y)^x_f] = log_factor + log T'[Π_{open f} (q'_f·y)^x_f],  q'_f = q_f / max_k q_fk
    """
    n_components = model.dictionary.shape[1]
    rate_row = n if model.inverse_rates.shape[0] > 1 else 0
    log_factor = 0.0
    n_features = 0
    n_tokens = 0
    for k in range(n_components):
        row.settled[k] = 0
        row.components[k] = 0
    for position in range(model.indptr[n], model.indptr[n + 1]):
        count = int(model.values[position])
        log_factor += count * _token_weights(model, model.indices[position], rate_row, row.weights, n_features)
        n_positive = 0
        last = 0
        for k in range(n_components):
            if row.weights[n_features, k] > 0.0:
                n_positive += 1
                last = k
        if n_positive == 1:
            row.settled[last] += count
            row.owners[position - model.indptr[n]] = last
            continue
        row.owners[position - model.indptr[n]] = -1
        for k in range(n_components):
            if row.weights[n_features, k] > 0.0:
                row.components[k] = 1
        row.counts[n_features] = count
        row.positions[n_features] = position
        n_tokens += count
        n_features += 1
    n_open = 0
    for k in range(n_components):
        if row.settled[k] > 0:
            log_factor += log_gamma_difference(model.shape[k], row.settled[k])
        if row.components[k] == 1:
            for f in range(n_features):
                row.weights[f, n_open] = row.weights[f, k]
            row.shapes[n_open] = model.shape[k] + row.settled[k]
            row.components[n_open] = k
            n_open += 1
    total_shape = 0.0
    for k in range(n_open):
        total_shape += row.shapes[k]
    return OpenRow(n_features, n_open, n_tokens, log_factor, total_shape)
