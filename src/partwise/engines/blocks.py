"""Cutting rows into blocks, by nonzeros and never by the number of workers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

TARGET_NONZEROS = 2**17
MOST_ROWS = 2**15


def row_blocks(
    indptr: NDArray[Any], target_nonzeros: int = TARGET_NONZEROS, most_rows: int = MOST_ROWS
) -> list[tuple[int, int]]:
    """Cut the rows of a CSR matrix into blocks of about equal numbers of nonzeros.

    The cuts depend on the matrix alone, so sums over blocks are the same for any number of threads.

    Parameters
    ----------
    indptr
        Row pointers of the matrix.
    target_nonzeros
        A block has about this many nonzeros or fewer; a row with more is a block of its own.
    most_rows
        A block has no more rows than this, however empty they are.

    Returns
    -------
    list of (start, stop)
        Nonempty ranges of rows that cover all rows in order; empty if there are no rows.

    Examples
    --------
    >>> row_blocks(np.array([0, 2, 4, 100, 101]), target_nonzeros=4)
    [(0, 2), (2, 3), (3, 4)]
    """
    if target_nonzeros < 1 or most_rows < 1:
        raise ValueError(f"blocks need at least one row and one nonzero, got {most_rows} and {target_nonzeros}")
    nonzeros = np.asarray(indptr, dtype=np.int64)
    n_rows = len(nonzeros) - 1
    huge = np.flatnonzero(np.diff(nonzeros) > target_nonzeros)
    edges = np.unique(np.concatenate(([0], huge, huge + 1, [n_rows])))
    blocks: list[tuple[int, int]] = []
    for first, last in itertools.pairwise(edges.tolist()):
        in_range = int(nonzeros[last] - nonzeros[first])
        n_blocks = 1 if last == first + 1 else -(-in_range // target_nonzeros)
        # Equal shares of the whole range, not blocks filled one after the other: no small rest at the end.
        shares = nonzeros[first] + np.arange(1, n_blocks) * in_range // max(n_blocks, 1)
        cuts = np.unique(np.concatenate(([first], np.searchsorted(nonzeros, shares, side="right") - 1, [last])))
        for start, stop in itertools.pairwise(cuts.tolist()):
            pieces = -(-(stop - start) // most_rows)
            bounds = [start + piece * (stop - start) // pieces for piece in range(pieces + 1)]
            blocks.extend(itertools.pairwise(bounds))
    return blocks
