"""Dask with any number of workers gives the bits of threads on this machine, for every algorithm that has an engine."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sums import adversarial, reference

from clusters import cluster
from partwise.core.data import CountMatrix
from partwise.engines import LocalEngine, resolve_engine
from partwise.engines.blocks import Block, Made, Ragged
from partwise.engines.dask import DaskEngine
from partwise.engines.worker_rows import RowsOnWorkers
from partwise.errors import EngineError, InvalidInputError


@pytest.fixture(scope="module", params=[1, 2, 4])
def engine(request: Any) -> Iterator[DaskEngine]:
    with cluster(request.param) as client:
        yield DaskEngine(client, stored_every=3)


N_ROWS = 37
TERMS = np.array(adversarial(4 * N_ROWS)).reshape(N_ROWS, 4)
DATA = CountMatrix.build(np.arange(1, N_ROWS + 1)[:, None])
BLOCKS = [(n, n + 1) for n in range(N_ROWS)]


def scaled(block: Block, terms: np.ndarray, out: np.ndarray, scale: float) -> np.ndarray:
    assert block.data.values[block.start] == block.first_row + block.start + 1
    out[block.rows] = terms[block.rows] * scale
    return out[block.rows][0].copy()


def in_place(block: Block, changed: np.ndarray) -> float:
    changed[block.rows] += 1.0
    return float(block.n_rows)


def test_sums_are_taken_in_the_documented_tree(engine: DaskEngine) -> None:
    expected = reference(list(TERMS * 3.0))
    for where in (LocalEngine(2), engine):
        total, (out,) = where.map_rows(scaled, DATA, BLOCKS, 3.0, reads=[TERMS], makes=[Made((4,))])
        assert total.tobytes() == expected.tobytes()
        np.testing.assert_array_equal(out, TERMS * 3.0)


def test_groups_of_blocks_are_whole_branches(engine: DaskEngine) -> None:
    for n_blocks in (1, 2, 3, 7, 8, 9, 100, 1000):
        sizes = [len(group) for group in engine._groups([(n, n + 1) for n in range(n_blocks)])]
        assert sum(sizes) == n_blocks
        assert len(set(sizes[:-1])) <= 1
        assert sizes[0] & (sizes[0] - 1) == 0


def test_what_was_placed_stays_and_outlives_its_files(engine: DaskEngine) -> None:
    rows = engine.place(TERMS.copy(), DATA, BLOCKS)
    for number in range(1, 8):
        total, (rows,) = engine.map_rows(in_place, DATA, BLOCKS, changes=[rows])
        assert total == N_ROWS
        assert isinstance(rows, RowsOnWorkers)
        assert rows.depth < 3, "no more than three passes would have to be run again"
        np.testing.assert_array_equal(np.asarray(rows), _plus_ones(number))
    files = len(list(engine.folder.glob("*.npy")))
    assert files == len(rows.pieces), "files that nothing is made from any more are removed"
    assert (rows.shape, rows.dtype) == (TERMS.shape, TERMS.dtype)
    assert copy.deepcopy(rows) is rows, "pieces never change, so a copy of a state shares them"


def _plus_ones(number: int) -> np.ndarray:
    changed = TERMS.copy()
    for _ in range(number):
        changed += 1.0
    return changed


@pytest.mark.parametrize(
    "operation",
    [
        lambda rows: rows + 1.0,
        lambda rows: TERMS * rows,
        lambda rows: np.float64(2.0) * rows,
        np.log,
        lambda rows: rows.sum(axis=0),
        lambda rows: rows[0],
    ],
)
def test_a_handle_has_no_arithmetic(engine: DaskEngine, operation: Any) -> None:
    """Nothing is fetched unseen: only ``np.asarray`` fetches."""
    rows = engine.place(TERMS, DATA, BLOCKS)
    with pytest.raises((TypeError, AttributeError)):
        operation(rows)
    assert np.asarray(rows).tobytes() == TERMS.tobytes()
    assert np.asarray(rows, dtype=np.float32).dtype == np.float32


def test_what_is_made_stays_where_it_was_made_from(engine: DaskEngine) -> None:
    placed = engine.place(TERMS, DATA, BLOCKS)
    _, (there,) = engine.map_rows(scaled, DATA, BLOCKS, 2.0, reads=[placed], makes=[Made((4,))])
    _, (here,) = engine.map_rows(scaled, DATA, BLOCKS, 2.0, reads=[TERMS], makes=[Made((4,))])
    _, (kept,) = engine.map_rows(scaled, DATA, BLOCKS, 2.0, reads=[TERMS], makes=[Made((4,))], stay=True)
    assert isinstance(there, RowsOnWorkers)
    assert isinstance(kept, RowsOnWorkers)
    assert isinstance(here, np.ndarray)
    for array in (there, here, kept):
        assert np.asarray(array).tobytes() == (TERMS * 2.0).tobytes()


def multiplied(block: Block, terms: np.ndarray, scale: np.ndarray, out: np.ndarray, whole: np.ndarray) -> float:
    out[block.rows] = terms[block.rows] * block.own(scale) + whole[block.first_row : block.first_row + 1]
    return 0.0


@pytest.mark.parametrize("recut", [False, True])
def test_rows_for_all_and_rows_that_all_tasks_need(engine: DaskEngine, recut: bool) -> None:
    placed, scale = engine.place(TERMS, DATA, BLOCKS), np.arange(4.0)[None]
    options: dict[str, Any] = {"makes": [Made((4,))], "recut": recut}
    for own_scale in (
        scale,
        np.repeat(scale, N_ROWS, axis=0),
        engine.place(np.repeat(scale, N_ROWS, axis=0), DATA, BLOCKS),
    ):
        _, (out,) = engine.map_rows(multiplied, DATA, BLOCKS, np.zeros(N_ROWS), reads=[placed, own_scale], **options)
        assert np.asarray(out).tobytes() == (TERMS * scale + 0.0).tobytes()
    _, (out,) = engine.map_rows(total_of, DATA, BLOCKS, placed, makes=[Made(())], recut=recut)
    np.testing.assert_array_equal(np.asarray(out), np.full(N_ROWS, TERMS.sum()))


def total_of(block: Block, out: np.ndarray, whole: np.ndarray) -> float:
    out[block.rows] = whole.sum()
    return 0.0


def test_arrays_that_were_not_placed_come_back(engine: DaskEngine) -> None:
    _, (changed,) = engine.map_rows(in_place, DATA, BLOCKS, changes=[TERMS.copy()])
    assert isinstance(changed, np.ndarray)
    np.testing.assert_array_equal(changed, _plus_ones(1))


def tokens(block: Block, labels: np.ndarray, starts: np.ndarray) -> float:
    for n in range(block.start, block.stop):
        labels[starts[n] : starts[n + 1]] += block.first_row + n
    return 0.0


def starts_of(data: Any) -> np.ndarray:
    """Rows of 0, 1, 2, 3, 0, ... items, by the values of the data."""
    return np.concatenate(([0], np.cumsum((data.values.astype(int) - 1) % 4)))


def test_ragged_rows(engine: DaskEngine) -> None:
    starts = starts_of(DATA)
    expected = np.repeat(np.arange(N_ROWS), np.diff(starts))
    for where in (LocalEngine(), engine):
        placed = where.place(Ragged(np.zeros(int(starts[-1]), np.int64), starts_of), DATA, BLOCKS)
        for _ in range(4):
            _, (placed,) = where.map_rows(tokens, DATA, BLOCKS, changes=[Ragged(placed, starts_of)])
        np.testing.assert_array_equal(np.asarray(placed), 4 * expected)
    assert isinstance(placed, RowsOnWorkers)
    assert {first for first, _ in placed.bounds} <= set(starts.tolist())


def test_pieces_of_one_pass_serve_another_cut(engine: DaskEngine) -> None:
    placed = engine.place(TERMS, DATA, [(0, 10), (10, 33), (33, 37)])
    total, _ = engine.map_rows(scaled, DATA, BLOCKS, 1.0, reads=[placed], makes=[Made((4,))])
    assert total.tobytes() == reference(list(TERMS)).tobytes()


def broken(block: Block) -> float:
    raise ZeroDivisionError(f"row {block.first_row + block.start}")


def test_an_error_of_a_worker_arrives_as_it_is(engine: DaskEngine) -> None:
    with pytest.raises(ZeroDivisionError, match="row"):
        engine.map_rows(broken, DATA, BLOCKS)


def test_what_an_engine_can_be(tmp_path: Any) -> None:
    with cluster(1) as client:
        engine = resolve_engine(client)
        assert isinstance(engine, DaskEngine)
        assert resolve_engine(client) is engine
        assert resolve_engine(client.cluster).client is client
        assert resolve_engine(engine) is engine
        file = tmp_path / "file"
        file.touch()
        with pytest.raises(EngineError, match="cannot write to the folder"):
            DaskEngine(client, folder=file / "below")
    with pytest.raises(InvalidInputError, match="engine must be"):
        resolve_engine("no such engine")


def test_an_address_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partwise.engines.cluster._CONNECT_SECONDS", 0.2)
    with pytest.raises(EngineError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        resolve_engine("tcp://127.0.0.1:9")
