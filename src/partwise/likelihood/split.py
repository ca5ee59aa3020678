"""Keyed splits of counts: the same key, row and counts always give the same two halves."""

from __future__ import annotations

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key


def split_tokens(data: SparseData, key: Key, share: float = 0.5) -> tuple[SparseData, SparseData]:
    """Give each token (one unit of a count) to the first part with probability ``share``, else to the second.

    Whole counts are split binomially; what is left of a real number goes to one side in one piece. Each row has a
    stream of its own, so a row's split does not depend on the rows around it. Missing cells stay missing in both.
    """
    values = np.asarray(data.values, dtype=np.float64)
    given = np.empty_like(values)
    base = key.for_stage("split")
    for n in range(data.shape[0]):
        row = slice(int(data.indptr[n]), int(data.indptr[n + 1]))
        if row.start == row.stop:
            continue
        generator = base.at(n).generator()
        whole = np.floor(values[row])
        given[row] = generator.binomial(whole.astype(np.int64), share)
        given[row] += np.where(generator.random(whole.size) < share, values[row] - whole, 0.0)
    return data.with_values(given), data.with_values(values - given)
