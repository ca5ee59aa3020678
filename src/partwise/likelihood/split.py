"""Keyed splits of counts: the same key, row and counts always give the same two halves."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import row_blocks
from partwise.engines.local import LocalEngine
from partwise.likelihood.kernels.completion import split_rows

Data = TypeVar("Data", bound=SparseData)


def split_tokens(
    data: Data, key: Key, share: float = 0.5, *, engine: Engine | None = None, first_row: int = 0
) -> tuple[Data, Data]:
    """Give each token (one unit of a count) to the first part with probability ``share``, else to the second.

    Whole counts are split binomially; what is left of a real number goes to one side in one piece. Each row has a
    stream of its own, so a row's split depends on its number and its counts, and on no other row. The two parts add up
    to the data exactly. Missing cells stay missing in both.

    Parameters
    ----------
    data
        Counts, or nonnegative reals.
    key
        Key of the split.
    share
        Probability of the first part.
    engine
        Where rows are worked on; None = this thread.
    first_row
        What the first row is in the data that these are some rows of.

    Returns
    -------
    given, held_out
        Data of the same shape.
    """
    given = np.empty_like(data.values)
    words = key.for_stage("split").words

    def one(block: tuple[int, int]) -> None:
        split_rows(data.indptr, data.values, share, *words, first_row, *block, given)

    (engine or LocalEngine()).for_each(one, row_blocks(data.indptr))
    rest = data.values - given
    return data.with_values(given).only(given > 0), data.with_values(rest).only(rest > 0)
