"""Rows on disk written by workers: the same folder as here, no data in the client, and errors that name their cell."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from clusters import cluster
from partwise import AllocationNMF, GammaPoissonNMF, PoissonNMF, on_disk
from partwise.core.data import CountMatrix
from partwise.core.validation import heard_warnings
from partwise.engines.dask import DaskEngine
from partwise.errors import EngineError, InvalidInputError, LogNormalisedWarning

array = pytest.importorskip("dask.array")

RNG = np.random.default_rng(0)
X = sp.csr_matrix(RNG.poisson(RNG.gamma(0.5, 30.0, size=(120, 3)) @ RNG.dirichlet(np.full(50, 0.3), size=3)))
WITH_MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X.toarray())
CUTS = (50, 51, 51, 120)


@pytest.fixture(scope="module")
def engine() -> Iterator[DaskEngine]:
    with cluster(2) as client:
        yield DaskEngine(client)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many ranges of a file, also of these small data."""
    monkeypatch.setattr("partwise.storage.by_workers._RANGE_BYTES", 4096)


def chunked(matrix: Any, *, known: bool = True) -> Any:
    """A Dask array with sparse chunks, one of them empty; of known heights or not."""
    from dask.delayed import delayed

    parts = [matrix[start:stop] for start, stop in zip((0, *CUTS[:-1]), CUTS, strict=True)]
    height = (lambda part: part.shape[0]) if known else (lambda part: np.nan)
    blocks = [
        array.from_delayed(delayed(lambda part=part: part)(), (height(part), X.shape[1]), dtype=part.dtype, meta=X[:0])
        for part in parts
    ]
    return array.concatenate(blocks, allow_unknown_chunksizes=True)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("known", [True, False])
def test_sparse_chunks_give_the_folder_that_is_written_here(engine: DaskEngine, tmp_path: Path, known: bool) -> None:
    here = on_disk(chunked(X, known=known), tmp_path / "here")
    there = on_disk(chunked(X, known=known), tmp_path / "there", engine=engine)
    np.testing.assert_array_equal(there.to_scipy().toarray(), X.toarray())
    assert there.fingerprint() == here.fingerprint()
    assert files(tmp_path / "there") == files(tmp_path / "here")


def test_dense_chunks_in_both_directions_with_missing_cells(engine: DaskEngine, tmp_path: Path) -> None:
    chunks = array.from_array(WITH_MISSING, chunks=(40, 20))
    there = on_disk(chunks, tmp_path / "there", engine=engine)
    expected = CountMatrix.build(WITH_MISSING)
    for name in ("indptr", "indices", "values", "missing_indptr", "missing_indices", "column_sums"):
        np.testing.assert_array_equal(getattr(there, name), getattr(expected, name), err_msg=name)
    on_disk(chunks, tmp_path / "here")
    assert files(tmp_path / "there") == files(tmp_path / "here")


def test_values_that_need_more_bytes_later(engine: DaskEngine, tmp_path: Path) -> None:
    values = np.array([[1, 2], [70_000, 0], [0.5, 2.0**40]])
    chunks = array.from_array(values, chunks=(1, 2))
    np.testing.assert_array_equal(on_disk(chunks, tmp_path / "there", engine=engine).to_scipy().toarray(), values)
    on_disk(chunks, tmp_path / "here")
    assert files(tmp_path / "there") == files(tmp_path / "here")


def test_folders_of_parts(engine: DaskEngine, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    (tmp_path / "npz").mkdir()
    for number, part in enumerate((X[:50], X[50:51], X[51:])):
        sp.save_npz(tmp_path / "npz" / f"{number}.npz", part)
    (tmp_path / "parquet").mkdir()
    words = [[("a", "x", 2), ("a", "y", 1), ("bb", "y", 5)], [("c", "zz", 4), ("c", "x", 7)]]
    for number, rows in enumerate(words):
        frame = polars.DataFrame(rows, schema=["text", "word", "count"], orient="row")
        frame.write_parquet(tmp_path / "parquet" / f"{number}.parquet")
    for kind in ("npz", "parquet"):
        on_disk(tmp_path / kind, tmp_path / f"{kind}-here")
        on_disk(tmp_path / kind, tmp_path / f"{kind}-there", engine=engine)
        assert files(tmp_path / f"{kind}-there") == files(tmp_path / f"{kind}-here")


def test_h5ad_files_backed_and_lazy(engine: DaskEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anndata = pytest.importorskip("anndata")
    monkeypatch.setattr("partwise.storage.sources._VALUES_AT_ONCE", 300)
    anndata.AnnData(X.astype(np.float32)).write_h5ad(tmp_path / "cells.h5ad")
    on_disk(tmp_path / "cells.h5ad", tmp_path / "here")
    on_disk(tmp_path / "cells.h5ad", tmp_path / "there", engine=engine)
    assert files(tmp_path / "there") == files(tmp_path / "here")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    on_disk(backed, tmp_path / "backed", engine=engine)
    backed.file.close()
    assert files(tmp_path / "backed") == files(tmp_path / "here")
    pytest.importorskip("xarray", reason="AnnData's lazy reader needs it")
    lazy = anndata.experimental.read_lazy(tmp_path / "cells.h5ad")
    for where in (None, engine):
        mapped = on_disk(lazy, tmp_path / f"lazy-{where is None}", engine=where)
        np.testing.assert_array_equal(mapped.to_scipy().toarray(), X.toarray())
        assert mapped.row_labels is not None
        assert mapped.row_labels.tolist() == [str(n) for n in range(120)]


SHORT: dict[str, Any] = {"max_iter": 3, "tol": 0.0, "random_state": 0}


@pytest.mark.parametrize("known", [True, False])
def test_dask_arrays_are_fitted_where_they_are(engine: DaskEngine, tmp_path: Path, known: bool) -> None:
    mapped = on_disk(X, tmp_path / "counts")
    online = {"inference": "online", "batch_size": 40}
    kinds: list[tuple[Any, dict[str, Any]]] = [(PoissonNMF, {}), (GammaPoissonNMF, online)]
    for kind, more in kinds:
        expected = kind(3, **SHORT, **more).fit(mapped)
        model = kind(3, engine=engine, **SHORT, **more).fit(chunked(X, known=known))
        np.testing.assert_array_equal(model.components_, expected.components_)
        np.testing.assert_array_equal(model.transform(chunked(X, known=known)), expected.transform(mapped))
        assert model.n_features_in_ == 50


def test_the_client_never_holds_a_chunk(engine: DaskEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that the client fetches is small: futures give sizes and checksums."""
    import pickle

    fetched: list[int] = []
    results = DaskEngine.results

    def watched(self: DaskEngine, futures: Any) -> Any:
        found = results(self, futures)
        fetched.extend(len(pickle.dumps(value)) for value in found)
        return found

    monkeypatch.setattr(DaskEngine, "results", watched)
    monkeypatch.setattr("partwise.storage.by_workers._RANGE_BYTES", 2**16)
    large = sp.random_array((4000, 50), density=0.5, rng=RNG, format="csr")
    large.data[:] = 1.0
    chunks = array.from_array(large.toarray(), chunks=(1000, 50)).map_blocks(sp.csr_matrix, meta=X[:0])
    assert on_disk(chunks, tmp_path / "counts", engine=engine).nnz == large.nnz
    assert fetched
    assert max(fetched) < 2000, "a chunk has 200 kB"


def test_without_an_engine_sparse_chunks_are_gathered() -> None:
    model, expected = (PoissonNMF(3, **SHORT).fit(data) for data in (chunked(X), X))
    np.testing.assert_array_equal(model.components_, expected.components_)


BAD = {
    "negative": (-1.0, r"Negative values in data passed to .*: X\[77, 3\] = -1"),
    "infinite": (np.inf, r"infinity: X\[77, 3\]"),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", BAD)
def test_bad_cells_are_named_in_the_whole(engine: DaskEngine, tmp_path: Path, kind: str, known: bool) -> None:
    bad = sp.lil_matrix(X.astype(float))
    bad[77, 3] = BAD[kind][0]
    bad[110, 1] = BAD[kind][0]
    for where in (None, engine):
        with pytest.raises(InvalidInputError, match=BAD[kind][1]):
            on_disk(chunked(bad.tocsr(), known=known), tmp_path / "counts", engine=where)
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInputError, match=BAD[kind][1]):
        PoissonNMF(2, engine=engine).fit(chunked(bad.tocsr(), known=known))


@pytest.mark.parametrize("known", [True, False])
def test_fractions_and_missing_cells_are_named_in_the_whole(engine: DaskEngine, tmp_path: Path, known: bool) -> None:
    cells = sp.lil_matrix(X.astype(float))
    cells[77, 3] = 1.5
    message = r"X\[77, 3\] = 1\.5 is not a whole number, which GammaPoissonNMF\.fit needs"
    for data in (chunked(cells.tocsr(), known=known), on_disk(cells.tocsr(), tmp_path / "fractions")):
        with pytest.raises(InvalidInputError, match=message):
            GammaPoissonNMF(2, inference="saem", engine=engine).fit(data)
    cells[77, 3] = np.nan
    message = r"X\[77, 3\] is NaN or missing, which AllocationNMF\.fit does not support"
    for data in (chunked(cells.tocsr(), known=known), on_disk(cells.tocsr(), tmp_path / "missing")):
        with pytest.raises(InvalidInputError, match=message):
            AllocationNMF(2, engine=engine).fit(data)


def test_normalised_data_are_warned_about_once(engine: DaskEngine, tmp_path: Path) -> None:
    scaled = np.log1p(X.toarray() / X.sum(axis=1) * 1e4)
    with pytest.warns(LogNormalisedWarning, match="log-normalised") as caught:
        on_disk(array.from_array(np.asarray(scaled), chunks=(60, 50)), tmp_path / "counts", engine=engine)
    assert len(caught) == 1


def test_threads_do_not_lose_each_others_warnings() -> None:
    """Two threads enter one after the other and leave in the same order, which Python's own record does not bear."""
    both_inside, first_left = threading.Barrier(2), threading.Event()
    scaled = np.log1p(X.toarray() / X.sum(axis=1) * 1e4)

    def check(is_first: bool) -> list[str]:
        with heard_warnings() as heard:
            both_inside.wait(30)
            if not is_first:
                first_left.wait(30)
            CountMatrix.build(scaled, integers=False)
        first_left.set()
        return heard

    with ThreadPoolExecutor(2) as pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        heard = list(pool.map(check, (True, False)))
    assert all(len(each) == 1 and "log-normalised" in each[0] for each in heard)


def test_bad_sources_leave_nothing(engine: DaskEngine, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for number, part in enumerate((X, X[:, :3])):
        sp.save_npz(tmp_path / "parts" / f"{number}.npz", part)
    with pytest.raises(InvalidInputError, match="Piece 2 of the data has 3 features, and piece 1 has 50"):
        on_disk(tmp_path / "parts", tmp_path / "counts", engine=engine)
    with pytest.raises(InvalidInputError, match="no rows"):
        on_disk(chunked(X)[:0], tmp_path / "counts", engine=engine)
    with pytest.raises(InvalidInputError, match="2 are needed"):
        on_disk(array.zeros(4), tmp_path / "counts", engine=engine)
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


def test_a_folder_that_workers_cannot_write_to(tmp_path: Path) -> None:
    """The system refuses files of more than 4 kB to the worker, in the middle of one, as a full disk would."""
    resource = pytest.importorskip("resource", reason="needs limits of the size of files")
    with cluster(1, processes=True) as client:
        client.run(resource.setrlimit, resource.RLIMIT_FSIZE, (4096, 4096))
        engine = DaskEngine(client)
        with pytest.raises(EngineError, match="a worker could not write its part of the data"):
            on_disk(chunked(X), tmp_path / "counts", engine=engine)
        engine.close()
    assert list(tmp_path.iterdir()) == []


class TestCommand:
    def test_convert(self, engine: DaskEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from typer.testing import CliRunner

        from partwise.cli.app import build

        (tmp_path / "parts").mkdir()
        for number, part in enumerate((X[:50], X[50:])):
            sp.save_npz(tmp_path / "parts" / f"{number}.npz", part)
        # The client that is there already.
        monkeypatch.setattr("partwise.engines.cluster._current_client", lambda _: engine.client)
        folders = [tmp_path / "here.rows", tmp_path / "there.rows"]
        for output, where in zip(folders, ([], ["--engine", "dask"]), strict=True):
            done = CliRunner().invoke(build(), ["convert", str(tmp_path / "parts"), str(output), *where])
            assert done.exit_code == 0, done.output
        assert files(folders[0]) == files(folders[1])
        words = ["convert", str(tmp_path / "parts" / "0.npz"), str(tmp_path / "x.mtx"), "--engine", "dask"]
        done = CliRunner().invoke(build(), words)
        assert done.exit_code == 2
        assert "workers can only write folders NAME.rows" in " ".join(done.output.split())


def slow_rows(part: Any) -> Any:
    import time

    time.sleep(0.4)
    return part


@pytest.mark.slow
def test_a_killed_worker_costs_only_its_parts(tmp_path: Path) -> None:
    import os
    import signal
    import threading

    from dask.delayed import delayed

    parts = [X[start : start + 10] for start in range(0, 120, 10)]
    blocks = [array.from_delayed(delayed(slow_rows)(part), part.shape, dtype=part.dtype, meta=X[:0]) for part in parts]
    chunks = array.concatenate(blocks)
    with cluster(2, processes=True) as client:
        pids = list(client.run(os.getpid).values())
        killer = threading.Timer(1.5, lambda: os.kill(pids[0], signal.SIGKILL))
        engine = DaskEngine(client)
        killer.start()
        on_disk(chunks, tmp_path / "there", engine=engine)
        killer.join()
        assert set(client.run(os.getpid).values()) != set(pids), "the worker was killed while it wrote"
    on_disk(chunks, tmp_path / "here")
    assert files(tmp_path / "there") == files(tmp_path / "here")
