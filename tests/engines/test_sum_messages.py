"""Sums that travel as the rows they touch have the bits of dense sums, and fewer bytes."""

from __future__ import annotations

import operator
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusters import cluster
from partwise import PoissonNMF, on_disk
from partwise.core.data import CountMatrix
from partwise.engines import LocalEngine, tree
from partwise.engines.blocks import Block
from partwise.engines.dask import DaskEngine
from partwise.engines.tree import TouchedRows, TreeSum, packed, summed, unpacked

# Numbers on which order, rounding and the sign of zero show.
ODD = np.array([0.0, -0.0, 1.0, -1.0, 1e-300, -1e300, 1e17, 0.1, np.inf, np.nan])


@pytest.fixture(autouse=True)
def small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_FEWEST_ENTRIES", 1)


def term(seed: int, share: float, n_rows: int = 23) -> np.ndarray:
    """Some touched rows, with odd numbers; the others hold +0.0."""
    rng = np.random.default_rng(seed)
    matrix = np.zeros((n_rows, 2))
    rows = rng.random(n_rows) < share
    matrix[rows] = rng.choice(ODD[:8], size=(rows.sum(), 2)) * rng.choice([1.0, 0.3, -0.0], size=(rows.sum(), 2))
    return matrix


def dense_sum(terms: list[np.ndarray]) -> np.ndarray:
    total: TreeSum[Any] = TreeSum(len(terms))
    for number, matrix in enumerate(terms):
        total.put(number, matrix.copy())
    return np.asarray(total.result())


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.2, 0.6, 1.0])), min_size=1, max_size=9))
def test_sums_have_the_bits_of_dense_sums(drawn: list[tuple[int, float]]) -> None:
    old, tree._FEWEST_ENTRIES = tree._FEWEST_ENTRIES, 1
    try:
        terms = [term(*own) for own in drawn]
        travelled = [pickle.loads(pickle.dumps(packed(matrix.copy()))) for matrix in terms]
        before = [pickle.dumps(own) for own in travelled]
        assert unpacked(summed(travelled)).tobytes() == dense_sum(terms).tobytes()
        assert before == [pickle.dumps(own) for own in travelled], "terms stay as they are: a task may run again"
    finally:
        tree._FEWEST_ENTRIES = old


def test_a_sum_that_skips_zeros_would_show() -> None:
    """-0.0 + 0.0 is +0.0: rows that only one term touches are no copies."""
    left, right = np.zeros((8, 2)), np.zeros((8, 2))
    left[1], right[2] = -0.0, -0.0
    assert packed(left).rows.tolist() == [1]
    total = unpacked(summed([packed(left), packed(right)]))
    assert not np.signbit(total).any()
    assert np.signbit(left[1]).all()


@pytest.mark.parametrize("value", ODD)
def test_packing_loses_nothing(value: float) -> None:
    matrix = np.zeros((40, 3))
    matrix[7, 1] = value
    kept = packed(matrix)
    assert isinstance(kept, TouchedRows)
    assert unpacked(kept).tobytes() == matrix.tobytes()


class Pair(NamedTuple):
    sums: Any
    logs: float


def test_what_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    few = np.zeros((40, 3))
    few[5] = 1.0
    kept = packed(Pair(few, 2.0))
    assert isinstance(kept, Pair)
    assert isinstance(kept.sums, TouchedRows)
    assert kept.logs == 2.0
    for array in (np.ones((40, 3)), few[:, 0], few.T, few.astype(np.float32), 3.0):
        assert packed(array) is array
    monkeypatch.setattr(tree, "_FEWEST_ENTRIES", 10**6)
    assert packed(few) is few


def counts_of_features(block: Block) -> np.ndarray:
    out = np.zeros((block.data.shape[1], 2))
    indptr, indices, values = block.cells
    for at in range(indptr[block.start], indptr[block.stop]):
        out[indices[at]] += values[at] * 0.1
    return out


def test_bytes_that_travel_fall(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Rows that have a stretch of features each, as texts in the order of their subjects."""
    matrix = np.kron(np.eye(16, dtype=int), np.arange(1, 41).reshape(2, 20))
    data, blocks = CountMatrix.build(matrix), [(n, n + 2) for n in range(0, 32, 2)]
    expected, _ = LocalEngine().map_rows(counts_of_features, data, blocks)
    sent = {}
    with cluster(2) as client:
        engine = DaskEngine(client)
        for smallest in (1, 10**6):
            monkeypatch.setattr(tree, "_FEWEST_ENTRIES", smallest)
            sizes: list[int] = []
            submit_each = engine.submit_each

            def watched(function: Any, arguments: Any, submit_each: Any = submit_each, sizes: Any = sizes) -> Any:
                futures = submit_each(function, arguments)
                if function in (operator.getitem, summed):
                    sizes.extend(len(pickle.dumps(value)) for value in client.gather(futures))
                return futures

            monkeypatch.setattr(engine, "submit_each", watched)
            total, _ = engine.map_rows(counts_of_features, data, blocks)
            monkeypatch.setattr(engine, "submit_each", submit_each)
            assert total.tobytes() == expected.tobytes()
            sent[smallest] = sum(sizes)
    assert sent[1] < 0.5 * sent[10**6]


def test_a_fit(tmp_path: Any) -> None:
    mapped = on_disk(np.kron(np.eye(4, dtype=int), np.arange(1, 61).reshape(5, 12)), tmp_path / "counts")
    arguments: dict[str, Any] = {"inference": "multiplicative", "max_iter": 4, "tol": 0.0, "random_state": 0}
    with cluster(2) as client:
        there = PoissonNMF(3, engine=client, **arguments).fit(mapped)
    here = PoissonNMF(3, **arguments).fit(mapped)
    np.testing.assert_array_equal(there.components_, here.components_)
