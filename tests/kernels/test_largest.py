"""The largest entries of rows, beside a stable sort."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from partwise.kernels.sums import largest_of_rows


def test_kernel_is_a_stable_sort() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 3, 20, 40):
        values = rng.integers(0, 6, (15, 40)).astype(float)  # many ties
        seen = sp.random_array((15, 40), density=0.5, rng=rng, format="csr")
        hidden = values.copy()
        hidden[seen.nonzero()] = -np.inf
        order = np.argsort(-hidden, axis=1, kind="stable")[:, :n]
        wanted = np.where(np.isfinite(np.take_along_axis(hidden, order, axis=1)), order, -1)
        positions, found = np.zeros((15, n), np.int64), np.zeros((15, n))
        largest_of_rows(values, seen.indptr.astype(np.int64), seen.indices.astype(np.int32), positions, found)
        np.testing.assert_array_equal(positions, wanted)
        assert np.array_equal(np.isnan(found), wanted < 0)
