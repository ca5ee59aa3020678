"""Arrays of the workers compute as NumPy's do, to the bit, and stay where they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from clusters import cluster
from hypothesis import given, settings
from hypothesis import strategies as st
from partwise.engines.distributed import DistributedRows, LazyRows, RemoteRows
from partwise.engines.pairwise import PairwiseSum
from partwise.engines.stacked import StackedRows
from scipy.special import gammaln, psi
from sums import adversarial

from partwise.core.data import CountMatrix
from partwise.engines.blocks import Ragged, put_back, rowwise
from partwise.engines.dask import DaskEngine

N_ROWS, N_COLUMNS = 211, 5
NUMBERS = np.array(adversarial(N_ROWS * N_COLUMNS)).reshape(N_ROWS, N_COLUMNS)
POSITIVE = np.abs(NUMBERS) + 1e-3
WHOLE = np.arange(N_ROWS * N_COLUMNS, dtype=np.int32).reshape(N_ROWS, N_COLUMNS) % 100
DATA = CountMatrix.build(np.arange(1, N_ROWS + 1)[:, None])
BLOCKS = [(n, min(n + 7, N_ROWS)) for n in range(0, N_ROWS, 7)]


@pytest.fixture(scope="module")
def engine() -> Iterator[DaskEngine]:
    with cluster(2) as client:
        yield DaskEngine(client, stored_every=3)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of arrays with rows that were fetched."""
    seen: list[tuple[int, ...]] = []
    fetch = RemoteRows.__array__

    def watched(self: RemoteRows, *args: Any, **options: Any) -> Any:
        seen.append(self.shape)
        return fetch(self, *args, **options)

    monkeypatch.setattr(RemoteRows, "__array__", watched)
    return seen


def place(engine: DaskEngine, array: np.ndarray) -> Any:
    return engine.place(array, DATA, BLOCKS)


def test_functions_of_each_entry(engine: DaskEngine, fetched: list[Any]) -> None:
    def formula(x: Any, y: Any) -> Any:
        return np.maximum(np.exp(psi(x) - np.log(y)), 1e-200) * POSITIVE[:1] + POSITIVE[0] / x - 2.0 * POSITIVE[:, :1]

    x, y = place(engine, POSITIVE), place(engine, POSITIVE[::-1].copy())
    found = formula(x, y)
    assert isinstance(found, LazyRows)
    assert (found.shape, found.dtype, len(found)) == (POSITIVE.shape, POSITIVE.dtype, N_ROWS)
    assert not fetched, "nothing is fetched before it is asked for"
    expected = formula(POSITIVE, POSITIVE[::-1].copy())
    assert np.asarray(found).tobytes() == expected.tobytes()
    assert np.asarray(found.astype(np.float32)).tobytes() == expected.astype(np.float32).tobytes()


@pytest.mark.parametrize("columns", [1, 2, N_COLUMNS])
def test_sums_are_those_of_numpy(engine: DaskEngine, fetched: list[Any], columns: int) -> None:
    numbers = np.ascontiguousarray(NUMBERS[:, :columns])
    for ours, theirs in (
        (place(engine, numbers), numbers),
        (place(engine, numbers) * 3.0, numbers * 3.0),
        (place(engine, numbers[:, 0].copy()), numbers[:, 0].copy()),
        (place(engine, WHOLE), WHOLE),
    ):
        for axis in (None, 0):
            assert np.asarray(ours.sum(axis=axis)).tobytes() == np.asarray(theirs.sum(axis=axis)).tobytes()
            assert np.asarray(ours.mean(axis=axis)).tobytes() == np.asarray(theirs.mean(axis=axis)).tobytes()
        assert float(np.sum(ours)) == float(np.sum(theirs))
    assert not fetched
    rows = place(engine, numbers).sum(axis=1)
    assert np.asarray(rows).tobytes() == numbers.sum(axis=1).tobytes()


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 3000), st.lists(st.integers(0, 3000), max_size=6))
def test_parts_of_a_sum_give_that_of_numpy(n: int, cuts: list[int]) -> None:
    numbers = np.array(adversarial(n))
    edges = sorted({0, n, *(cut for cut in cuts if cut < n)})
    plan = PairwiseSum(n)
    parts = [plan.part(numbers[a:b], a) for a, b in itertools.pairwise(edges)]
    assert plan.total(parts[::-1]) == numbers.sum()


def test_a_sum_of_the_sums_of_parts_would_be_seen() -> None:
    """Sums of pieces, added up, differ from NumPy's sum in most cuts: the tests above can fail."""
    numbers = np.array(adversarial(2999))
    different = [numbers[:cut].sum() + numbers[cut:].sum() != numbers.sum() for cut in range(100, 2900, 100)]
    assert sum(different) > 14


def centred(array: np.ndarray, scale: float) -> np.ndarray:
    return np.asarray((array - array.mean(axis=1, keepdims=True)) * scale)


def test_functions_of_rows(engine: DaskEngine) -> None:
    expected = rowwise(centred, POSITIVE, 2.0)
    assert expected.tobytes() == centred(POSITIVE, 2.0).tobytes()
    found = rowwise(centred, place(engine, POSITIVE), 2.0)
    assert isinstance(found, LazyRows)
    assert np.asarray(found).tobytes() == expected.tobytes()


def test_sums_in_place_hold_on_to_few_arrays(engine: DaskEngine) -> None:
    total: Any = 0.0
    expected = np.zeros_like(POSITIVE)
    most = 0
    for number in range(20):
        total += place(engine, POSITIVE * number)
        expected += POSITIVE * number
        most = max(most, len(total.formula.leaves) if isinstance(total, LazyRows) else 1)
    assert 1 < most <= 6
    assert total.depth <= 3
    assert np.asarray(total).tobytes() == expected.tobytes()


def test_stacked_arrays(engine: DaskEngine, fetched: list[Any]) -> None:
    both = np.stack([POSITIVE, NUMBERS])
    stack = engine.place(both.copy(), DATA, BLOCKS, stacked=True)
    assert isinstance(stack, StackedRows)
    assert (stack.shape, len(stack)) == (both.shape, 2)
    assert engine.place(stack, DATA, BLOCKS, stacked=True) is stack
    for array in (stack, both):
        array[1] += array[0]
    assert float(np.sum(gammaln(stack[0] + stack))) == float(np.sum(gammaln(both[0] + both)))
    put_back(stack, 0, stack[1])
    put_back(both, 0, None)
    assert not fetched
    assert np.asarray(stack).tobytes() == np.stack([both[1], both[1]]).tobytes()


def test_ragged_arrays_are_cut_where_rows_begin(engine: DaskEngine) -> None:
    starts = np.concatenate(([0], np.cumsum(np.arange(N_ROWS) % 3)))
    labels = np.arange(starts[-1], dtype=np.uint8)
    placed = engine.place(Ragged(labels, starts), DATA, BLOCKS)
    assert isinstance(placed, DistributedRows)
    assert {first for first, _ in placed.bounds} <= set(starts.tolist())
    assert len(placed.bounds) > 1
    assert np.asarray(placed).tobytes() == labels.tobytes()


def test_what_does_not_fit_is_fetched(engine: DaskEngine, fetched: list[Any]) -> None:
    x = place(engine, POSITIVE)
    np.testing.assert_array_equal(np.add(x, POSITIVE[None]), np.add(POSITIVE, POSITIVE[None]))
    assert np.max(x) == POSITIVE.max()
    np.testing.assert_array_equal(x[:, 1], POSITIVE[:, 1])
    np.testing.assert_array_equal(
        place(engine, POSITIVE[:, 0].copy()) + POSITIVE[:, 1], POSITIVE[:, 0] + POSITIVE[:, 1]
    )
    assert len(fetched) == 4
