"""Functions of columns: the same in this process and on workers, which send back only what is small."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusters import cluster
from partwise.core.data import CountMatrix
from partwise.engines import LocalEngine
from partwise.engines.dask import DaskEngine
from partwise.engines.worker_rows import RowsOnWorkers

N_ROWS, N_COLUMNS = 40, 3
ARRAY = np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS))
SHARED = np.array([[1.0, 2.0, 3.0]])
DATA = CountMatrix.build(np.ones((N_ROWS, 1), dtype=int))
BLOCKS = [(n, n + 5) for n in range(0, N_ROWS, 5)]


def summed(name: str, column: np.ndarray, scale: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    assert column.flags.c_contiguous
    assert scale.shape == (1,)
    return (name, float(column.sum())), column * scale, np.sort(column)


def test_columns_here_and_on_workers() -> None:
    work = [(name,) for name in "abc"]
    order: dict[str, Any] = {"n_made": 2, "order": [2, 0, 1]}
    found, (scaled, ordered) = LocalEngine(2).map_columns(summed, work, ARRAY, SHARED, **order)
    assert found == [(name, float(ARRAY[:, k].copy().sum())) for k, name in enumerate("abc")]
    np.testing.assert_array_equal(scaled, ARRAY * SHARED)
    np.testing.assert_array_equal(ordered, np.sort(ARRAY, axis=0))
    assert scaled.flags.c_contiguous
    with cluster(2) as client:
        engine = DaskEngine(client)
        placed = engine.place(ARRAY, DATA, BLOCKS)
        there, made = engine.map_columns(summed, work, placed, SHARED, **order)
        assert there == found
        for ours, theirs in zip(made, (scaled, ordered), strict=True):
            assert isinstance(ours, RowsOnWorkers)
            assert ours.bounds == placed.bounds
            assert np.asarray(ours).tobytes() == theirs.tobytes()
        # Arrays of this process stay in it.
        here, made = engine.map_columns(summed, work, ARRAY, SHARED, n_made=2)
        assert here == found
        assert all(isinstance(array, np.ndarray) for array in made)
