"""The lattice of allocation totals: where its states lie in memory, and in which order a step goes through them.

States are the totals (c_1, ..., c_K) of m tokens. With partial sums s_i = c_1 + ... + c_i, state s lies at
Σ_{i<K} C(s_i + i - 1, i): the states of m tokens are a prefix of those of m + 1, the last total is implied, and runs of
states in which only c_1 and c_2 change (lines, of s_2 + 1 states) are contiguous. A state's neighbours with one token
less lie in the same line or in lines below, so that a step that goes downwards needs no second buffer. For K = 2 there
is a single line, which moves down by one address a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.kernels.inner import inline_kernel, inner_kernel
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.rows import Floats, Integers, OpenRow, RowBuffers

_SATURATED = 1 << 60


class Walk(NamedTuple):
    """Where a walk over the lines of a lattice is, and the tables of its steps.

    Attributes
    ----------
    sums
        s_i of the present lines, at i >= 3; s_2 is left to the caller.
    bases, shifts
        At i: Σ_{j>=i} C(s_j + j - 1, j), and how far below lies the line with s_j - 1 for s_j, j >= i.
    binomials
        C(s + i - 1, i) at [i, s].
    tables
        At [k, c]: the weight of adding a token to component k that makes it c. The last row is component 1 backwards.
    scales
        At m: the exponent of two by which the states of m tokens are scaled up.
    order
        Features of the tokens.
    """

    sums: Integers
    bases: Integers
    shifts: Integers
    binomials: Integers
    tables: Floats
    scales: Integers
    order: Integers


@kernel
def make_walk(n_components: int, n_tokens: int) -> Walk:
    """Buffers for documents of up to so many components and tokens."""
    binomials = np.zeros((n_components + 1, n_tokens + 3), np.int64)
    for s in range(1, n_tokens + 3):
        binomials[0, s] = 1
    for i in range(1, n_components + 1):
        for s in range(1, n_tokens + 3):
            binomials[i, s] = min(binomials[i, s - 1] + binomials[i - 1, s], _SATURATED)
    return Walk(
        np.zeros(n_components + 2, np.int64),
        np.zeros(n_components + 2, np.int64),
        np.zeros(n_components + 2, np.int64),
        binomials,
        np.zeros((n_components + 1, n_tokens + 2)),
        np.zeros(n_tokens + 1, np.int64),
        np.zeros(n_tokens + 1, np.int64),
    )


@inner_kernel
def first_line(walk: Walk, n_components: int, n_tokens: int) -> None:
    """Go to the highest lines: s_i = n_tokens for all i >= 3."""
    for i in range(max(n_components, 3), 2, -1):
        walk.bases[i] = 0
        walk.shifts[i] = 0
        if i < n_components:
            walk.sums[i] = n_tokens
            _settle(walk, i)


@inner_kernel
def next_line(walk: Walk, n_components: int) -> bool:
    """Go down to the next lines with the same s_i for all i >= 3; False if there are none."""
    i = 3
    while i < n_components and walk.sums[i] == 0:
        i += 1
    if i >= n_components:
        return False
    walk.sums[i] -= 1
    _settle(walk, i)
    for j in range(i - 1, 2, -1):
        walk.sums[j] = walk.sums[i]
        _settle(walk, j)
    return True


@inline_kernel
def _settle(walk: Walk, i: int) -> None:
    walk.bases[i] = walk.bases[i + 1] + walk.binomials[i, walk.sums[i]]
    walk.shifts[i] = walk.shifts[i + 1] + walk.binomials[i - 1, walk.sums[i]]


@inner_kernel
def present_states(walk: Walk, size: OpenRow, m: int) -> tuple[int, int]:
    """First address and number of the states of m of a row's tokens."""
    if size.n_components == 2:
        return size.n_tokens - m, m + 1
    return 0, walk.binomials[size.n_components - 1, m + 1]


@inner_kernel
def fill_tables(row: RowBuffers, size: OpenRow, feature: int, m: int, walk: Walk) -> None:
    """``tables[k, 1:] = weights[feature, k] * (shapes[k] + np.arange(m + 1)) / (shapes.sum() + m)``, and 0 first."""
    tables, n_components = walk.tables, size.n_components
    scale = 1.0 / (size.total_shape + m)
    for k in range(n_components):
        tables[k, 0] = 0.0
        for c in range(1, m + 2):
            tables[k, c] = row.weights[feature, k] * ((row.shapes[k] + (c - 1)) * scale)
    for c in range(m + 2):
        tables[n_components, c] = tables[1, m + 1 - c]
