"""Dask with any number of workers gives the bits of threads on this machine, for every algorithm that has an engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from clusters import cluster
from partwise.engines.distributed import DistributedRows
from sums import adversarial, reference

from partwise.core.data import CountMatrix
from partwise.engines import LocalEngine, resolve_engine
from partwise.engines.blocks import Block, Made, Ragged
from partwise.engines.dask import DaskEngine
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
        assert isinstance(rows, DistributedRows)
        assert rows.depth < 3, "no more than three passes would have to be run again"
        np.testing.assert_array_equal(np.asarray(rows), _plus_ones(number))
    files = len(list(engine.folder.glob("*.npy")))
    assert files == len(rows.pieces), "files that nothing is made from any more are removed"
    np.testing.assert_array_equal(rows.sum(axis=0), _plus_ones(7).sum(axis=0))
    assert rows.shape == TERMS.shape
    np.testing.assert_array_equal(rows + 1.0, _plus_ones(7) + 1.0)


def _plus_ones(number: int) -> np.ndarray:
    changed = TERMS.copy()
    for _ in range(number):
        changed += 1.0
    return changed


def test_arrays_that_were_not_placed_are_changed_where_they_are(engine: DaskEngine) -> None:
    mine = TERMS.copy()
    _, (changed,) = engine.map_rows(in_place, DATA, BLOCKS, changes=[mine])
    assert changed is mine
    np.testing.assert_array_equal(mine, _plus_ones(1))


def tokens(block: Block, labels: np.ndarray, starts: np.ndarray) -> float:
    for n in range(block.start, block.stop):
        labels[starts[n] : starts[n + 1]] += block.first_row + n
    return 0.0


def test_ragged_rows(engine: DaskEngine) -> None:
    starts = np.concatenate(([0], np.cumsum(np.arange(N_ROWS) % 4)))
    expected = np.repeat(np.arange(N_ROWS), np.diff(starts))
    for where in (LocalEngine(), engine):
        placed = where.place(np.zeros(int(starts[-1]), np.int64), DATA, [(0, int(starts[-1]))])
        for _ in range(4):
            _, (placed,) = where.map_rows(tokens, DATA, BLOCKS, changes=[Ragged(placed, starts)])
        np.testing.assert_array_equal(np.asarray(placed), 4 * expected)


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
