"""Made counts like those of single-cell ATAC: cells x peaks from a known model, written to disk block by block.

Peaks differ in how often they are open (a gamma weight of shape 0.5), parts in which of them they open (shape 0.3), and
cells mix a few parts: Dirichlet(0.1). The model that made the counts is known, and so is its held-out likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

N_PARTS = 50
_OPENNESS, _SPARSENESS, _MIXING = 0.5, 0.3, 0.1
_AT_ONCE = 2000
# Tokens of a cell are log-normal; the mean is a little above the nonzeros that are asked for, as some fall together.
_SPREAD, _TOGETHER = 0.4, 1.07

kernel: Any = partial(numba.njit, nogil=True)


def true_parts(n_features: int, n_parts: int = N_PARTS, seed: int = 0) -> NDArray[np.float64]:
    """Parts x features, each summing to 1."""
    rng = np.random.default_rng([seed, 1])
    open_ = rng.gamma(_OPENNESS, size=n_features)
    parts = open_ * rng.gamma(_SPARSENESS, size=(n_parts, n_features))
    found: NDArray[np.float64] = parts / parts.sum(axis=1, keepdims=True)
    return found


def made_cells(
    parts: NDArray[np.float64], n_cells: int, per_cell: int, seed: int = 0, stream: int = 2
) -> Iterator[Any]:
    """Blocks of rows, CSR, with about ``per_cell`` nonzeros in each row."""
    cumulated = np.cumsum(parts, axis=1)
    cumulated /= cumulated[:, -1:]
    guide = _guide(cumulated)
    location = np.log(_TOGETHER * per_cell) - 0.5 * _SPREAD**2
    for block, first in enumerate(range(0, n_cells, _AT_ONCE)):
        rng = np.random.default_rng([seed, stream, block])
        size = min(_AT_ONCE, n_cells - first)
        tokens = np.maximum(1, rng.lognormal(location, _SPREAD, size=size)).astype(np.int64)
        mixing = rng.dirichlet(np.full(len(parts), _MIXING), size=size)
        by_part = rng.multinomial(tokens, mixing)
        uniform = rng.random(int(tokens.sum()))
        columns = np.empty(uniform.size, np.int32)
        counts = np.empty(uniform.size, np.uint16)
        pointers = _draw(cumulated, guide, by_part, uniform, columns, counts)
        stored = pointers[-1]
        yield sp.csr_array((counts[:stored], columns[:stored], pointers), shape=(size, parts.shape[1]))


def _guide(cumulated: NDArray[np.float64]) -> NDArray[np.int32]:
    """Where to begin the search for a uniform number, one place per feature: parts x (features + 1)."""
    edges = np.arange(cumulated.shape[1] + 1) / cumulated.shape[1]
    return np.array([np.searchsorted(row, edges, side="right") for row in cumulated], dtype=np.int32)


@kernel
def _draw(cumulated, guide, by_part, uniform, columns, counts):  # type: ignore[no-untyped-def]
    n_rows, n_parts = by_part.shape
    n_features = cumulated.shape[1]
    pointers = np.zeros(n_rows + 1, np.int64)
    drawn, at = 0, 0
    for n in range(n_rows):
        first = drawn
        for k in range(n_parts):
            for _ in range(by_part[n, k]):
                u = uniform[drawn]
                f = guide[k, int(u * n_features)]
                while f < n_features - 1 and cumulated[k, f] <= u:
                    f += 1
                columns[drawn] = f
                drawn += 1
        own = np.sort(columns[first:drawn])
        for i in range(own.size):
            if i == 0 or own[i] != own[i - 1]:
                columns[at] = own[i]
                counts[at] = 1
                at += 1
            else:
                counts[at - 1] += 1
        pointers[n + 1] = at
    return pointers
