"""What is held out of data: a fifth of the tokens of every row, or a fifth of the observed cells; keyed, no clock."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from partwise.contract.heldout import HiddenCells, ThinnedCounts
from partwise.core.data import BinaryMatrix, CountMatrix
from partwise.core.keys import Key
from partwise.io.table import Table
from partwise.likelihood.completion import split_tokens

N_FOLDS = 5
"""Parts into which tokens, or cells, are cut: one is held out, so train and test are 0.8 and 0.2 of the data."""

# Document completion splits tokens with chain 0 of the same seed.
_FIRST_DIVISION = 1000


def count_fold(data: CountMatrix, key: Key, restart: int) -> ThinnedCounts:
    """One of five disjoint fifths of the tokens is held out; the sixth restart begins with a new division.

    Parameters
    ----------
    data
        All counts.
    key
        Of the divisions.
    restart
        Number of the restart, from 0.
    """
    division, number = divmod(restart, N_FOLDS)
    held = rest = data
    for fold in range(number + 1):
        held, rest = split_tokens(rest, key.for_chain(_FIRST_DIVISION + division).at(fold), 1.0 / (N_FOLDS - fold))
    held_out = held.to_scipy().astype(np.int64)
    train = sp.csr_array(data.to_scipy().astype(np.int64) - held_out)
    train.eliminate_zeros()
    missing = data.missing_matrix() if data.n_missing else None
    table = Table(train, data.row_labels, data.column_labels, missing, "training counts")
    return ThinnedCounts(table, held_out, 1.0 / (N_FOLDS - 1.0))


def bit_fold(data: BinaryMatrix, key: Key, restart: int) -> HiddenCells:
    """One of five disjoint fifths of the observed cells is held out; the sixth restart begins with a new division.

    Parameters
    ----------
    data
        All bits.
    key
        Of the divisions.
    restart
        Number of the restart, from 0.
    """
    division, number = divmod(restart, N_FOLDS)
    generator = key.for_chain(division).for_stage("cells").generator()
    hidden = generator.integers(0, N_FOLDS, size=data.shape, dtype=np.int8) == number
    missing = data.missing_matrix().toarray()
    bits = data.to_scipy().toarray().astype(bool)
    rows, columns = np.nonzero(hidden & ~missing)
    train = sp.csr_array((bits & ~hidden).astype(np.int8))
    pattern = sp.csr_array(missing | hidden)
    table = Table(train, data.row_labels, data.column_labels, pattern, "training bits")
    return HiddenCells(table, rows.astype(np.int64), columns.astype(np.int64), bits[rows, columns])


def new_rows(n_rows: int, key: Key) -> NDArray[np.bool_]:
    """Which rows (a fifth, at least one) stand for new ones in document completion.

    Parameters
    ----------
    n_rows
        Rows in all.
    key
        Of the choice.
    """
    order = key.for_stage("new rows").generator().permutation(n_rows)
    chosen = np.zeros(n_rows, bool)
    chosen[order[: max(1, n_rows // N_FOLDS)]] = True
    return chosen
