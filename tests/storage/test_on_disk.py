"""Data on disk: read block by block from every kind of source, and fitted with the same bits by every engine."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import partwise
from partwise import NegativeBinomialNMF, PoissonNMF, on_disk
from partwise.core.data import CountMatrix
from partwise.errors import FileFormatError, InvalidInputError
from partwise.storage.csr_folder import MappedCounts

RNG = np.random.default_rng(0)
X = sp.csr_matrix(RNG.poisson(RNG.gamma(0.5, 30.0, size=(120, 3)) @ RNG.dirichlet(np.full(50, 0.3), size=3)))
PARTS = [X[:50], X[50:51], X[51:]]


def assert_same_data(mapped: MappedCounts, expected: Any = X) -> None:
    assert mapped.by_rows
    np.testing.assert_array_equal(mapped.to_scipy().toarray(), expected.toarray())
    assert mapped.total == expected.sum()
    np.testing.assert_array_equal(mapped.column_sums, np.asarray(expected.sum(axis=0)).ravel())
    assert mapped.values.dtype == np.uint8  # counts below 256 take a byte
    assert mapped.n_missing == 0


def test_matrices_one_after_the_other(tmp_path: Path) -> None:
    mapped = on_disk(iter(PARTS), tmp_path / "counts")
    assert_same_data(mapped)
    assert_same_data(on_disk(tmp_path / "counts"))
    assert_same_data(on_disk(X, tmp_path / "whole"))
    assert mapped.fingerprint() == on_disk(tmp_path / "counts").fingerprint()


def test_folders_of_npz_parts(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for number, part in enumerate(PARTS):
        sp.save_npz(tmp_path / "parts" / f"{number}.npz", part)
    assert_same_data(on_disk(tmp_path / "parts", tmp_path / "counts"))


def test_folders_of_parquet_parts_bring_their_features_together(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    (tmp_path / "parts").mkdir()
    words = [[("a", "x", 2), ("a", "y", 1), ("b", "y", 5)], [("c", "z", 4), ("c", "x", 7)]]
    for number, rows in enumerate(words):
        frame = polars.DataFrame(rows, schema=["text", "word", "count"], orient="row")
        frame.write_parquet(tmp_path / "parts" / f"{number}.parquet")
    mapped = on_disk(tmp_path / "parts", tmp_path / "counts")
    assert mapped.column_labels is not None
    assert mapped.row_labels is not None
    table = {
        (str(mapped.row_labels[n]), str(mapped.column_labels[f])): int(value)
        for n, f, value in zip(*sp.find(mapped.to_scipy()), strict=True)
    }
    assert table == {(text, word): count for rows in words for text, word, count in rows}


@pytest.mark.parametrize("dense", [False, True])
def test_h5ad_files_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dense: bool) -> None:
    anndata = pytest.importorskip("anndata")
    monkeypatch.setattr("partwise.storage.sources._VALUES_AT_ONCE", 100)
    stored = anndata.AnnData((X.toarray() if dense else X).astype(np.float32))
    stored.write_h5ad(tmp_path / "cells.h5ad")
    mapped = on_disk(tmp_path / "cells.h5ad", tmp_path / "counts")
    assert_same_data(mapped)
    assert mapped.row_labels is not None
    assert mapped.row_labels.tolist() == list(stored.obs_names)
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    assert_same_data(on_disk(backed, tmp_path / "again"))
    backed.file.close()


def test_dask_arrays_are_taken_chunk_by_chunk(tmp_path: Path) -> None:
    array = pytest.importorskip("dask.array")
    blocks = [array.from_delayed(_delayed(part), shape=part.shape, dtype=X.dtype, meta=X[:0]) for part in PARTS]
    assert_same_data(on_disk(array.concatenate(blocks, allow_unknown_chunksizes=True), tmp_path / "counts"))
    assert_same_data(on_disk(array.from_array(X.toarray(), chunks=(40, 25)), tmp_path / "dense"))


def _delayed(part: Any) -> Any:
    from dask.delayed import delayed

    return delayed(lambda: part)()


def test_layers_of_anndata_in_memory(tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    cells = anndata.AnnData(X.astype(np.float64) * 2, layers={"counts": X})
    mapped = on_disk(cells, tmp_path / "counts", layer="counts")
    np.testing.assert_array_equal(mapped.to_scipy().toarray(), X.toarray())
    with pytest.raises(InvalidInputError, match="layer='raw' is not in the AnnData object"):
        on_disk(cells, tmp_path / "raw", layer="raw")


def test_values_that_need_more_bytes_later(tmp_path: Path) -> None:
    parts = [np.array([[1, 2]]), np.array([[70_000, 0]]), np.array([[0.5, 2.0**40]])]
    mapped = on_disk(parts, tmp_path / "counts")
    np.testing.assert_array_equal(mapped.to_scipy().toarray(), np.concatenate(parts))
    assert not mapped.is_integer


def test_rows_without_a_nonzero_come_first(tmp_path: Path) -> None:
    parts = [np.zeros((2, 3)), np.array([[0.0, 2.5, np.nan]]), np.zeros((1, 3))]
    mapped = on_disk(parts, tmp_path / "counts")
    np.testing.assert_array_equal(mapped.to_scipy().toarray(), np.nan_to_num(np.concatenate(parts)))
    assert mapped.n_missing == 1
    assert on_disk(np.zeros((2, 3)), tmp_path / "zeros").total == 0


def test_missing_cells(tmp_path: Path) -> None:
    parts = [np.array([[1.0, np.nan, 2.0]]), np.array([[0.0, 3.0, np.nan], [np.nan, 0.0, 1.0]])]
    mapped = on_disk(parts, tmp_path / "counts")
    expected = CountMatrix.build(np.concatenate(parts))
    np.testing.assert_array_equal(mapped.missing_indptr, expected.missing_indptr)
    np.testing.assert_array_equal(mapped.missing_indices, expected.missing_indices)


def test_bad_sources_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="folder= is needed"):
        on_disk(X)
    with pytest.raises(InvalidInputError, match="Piece 2 of the data has 3 features, and piece 1 has 2"):
        on_disk([np.ones((1, 2)), np.ones((1, 3))], tmp_path / "counts")
    with pytest.raises(InvalidInputError, match="negative"):
        on_disk([np.ones((1, 2)), -np.ones((1, 2))], tmp_path / "counts")
    with pytest.raises(InvalidInputError, match="no rows"):
        on_disk([], tmp_path / "counts")
    assert list(tmp_path.iterdir()) == []
    on_disk(X, tmp_path / "counts")
    with pytest.raises(InvalidInputError, match="exists already"):
        on_disk(X, tmp_path / "counts")
    for source in (X, PARTS):
        with pytest.raises(InvalidInputError, match=r"transpose= is not for \w+ in memory: drop it"):
            on_disk(source, tmp_path / "new", transpose=True)
    for ignored in ({"folder": tmp_path / "copy"}, {"transpose": True}):
        with pytest.raises(InvalidInputError, match="holds rows that were read and written before"):
            on_disk(tmp_path / "counts", **ignored)
    (tmp_path / "counts" / "values.npy").unlink()
    with pytest.raises(FileFormatError, match=r"lacks values\.npy"):
        on_disk(tmp_path / "counts")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match="cannot write to"):
        on_disk(X, tmp_path / "file" / "counts")


@pytest.mark.parametrize("inference", ["coordinate", "multiplicative"])
@pytest.mark.parametrize("missing", [False, True])
def test_fits_reach_what_fits_in_memory_reach(tmp_path: Path, inference: str, missing: bool) -> None:
    matrix = X.toarray().astype(float)
    if missing:
        matrix[RNG.random(matrix.shape) < 0.1] = np.nan
    mapped = on_disk(matrix, tmp_path / "counts")
    arguments: dict[str, Any] = {"inference": inference, "max_iter": 3000, "tol": 1e-9, "random_state": 0}
    models = [PoissonNMF(3, **arguments).fit(data) for data in (mapped, matrix)]
    left, right = (model.trace_["objective"][-1] for model in models)
    # The data have one good optimum; by rows the last steps are smaller.
    assert abs(left - right) < 1e-5 * abs(right)
    assert models[0].kkt_residual_ < 0.01
    np.testing.assert_allclose(models[0].mean_activations_.sum(), models[1].mean_activations_.sum(), rtol=1e-4)
    np.testing.assert_array_equal(models[0].transform(mapped), models[0].transform(matrix))
    objectives = models[0].trace_["objective"]
    reported = objectives[~np.isnan(objectives)]
    assert np.all(np.diff(reported) > -1e-9 * abs(right)), "EM never falls"


_BRIEF: dict[str, Any] = {"max_iter": 2, "tol": 0.0}
_DRAWS: dict[str, Any] = {"n_draws": 1, "burn_in": 1}
_BY_ROWS = {None, "exact-em", "gibbs", "gibbs-partial", "gibbs-distributed", "cvb0", "bld", "map"}
_OTHER_ALGORITHM = {("PoissonNMF", "coordinate"), ("PoissonNMF", "multiplicative"), ("GammaPoissonNMF", "online")}
"""Fits that the page on large data says to be others from disk: `test_fits_reach_what_fits_in_memory_reach`."""


def _fits_of_counts() -> list[Any]:
    """Every algorithm of every model of counts, and the settings under which it takes another way."""
    found = []
    for name in ("Poisson", "GammaPoisson", "EmpiricalBayesPoisson", "Allocation", "NegativeBinomial"):
        kind = getattr(partwise, f"{name}NMF")
        choices = kind._parameter_constraints.get("inference", [])
        for inference in sorted(choices[0].options) if choices else [None]:
            if (kind.__name__, inference) not in _OTHER_ALGORITHM:
                how = {} if inference is None else {"inference": inference}
                found.append(pytest.param(kind, how, id=f"{name}-{inference}"))
    how = {"inference": "gibbs-partial", "missing": "impute"}
    found.append(pytest.param(partwise.AllocationNMF, how, id="Allocation-missing"))
    found += [pytest.param(NegativeBinomialNMF, {"dispersion": name}, id=name) for name in ("feature", "sample")]
    found.append(pytest.param(partwise.BetaGammaPFA, {}, id="BetaGamma"))
    large = [pytest.param(*case.values, True, id=f"large-{case.id}") for case in found if "Alloc" in str(case.id)]
    return [*(pytest.param(*case.values, False, id=case.id) for case in found), *large]


def _arrays(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if isinstance(value, np.ndarray)}


@pytest.mark.filterwarnings("ignore")  # a few sweeps never converge
@pytest.mark.parametrize(("kind", "how", "large"), _fits_of_counts())
def test_a_fit_is_the_same_from_disk_or_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, how: dict[str, Any], large: bool
) -> None:
    if large:  # from some of the rows, then feature by feature
        monkeypatch.setattr("partwise.allocation.inference.labels.MANY_COMPONENTS", 1)
        monkeypatch.setattr("partwise.allocation.inference.labels._LARGE_WORK", 10)
        monkeypatch.setattr("partwise.allocation.inference.labels._NONZEROS", 200)
    matrix = X[:60].toarray().astype(float)
    if "missing" in how:
        matrix[RNG.random(matrix.shape) < 0.1] = np.nan
    names = kind._parameter_constraints
    given = {name: value for name, value in {**_BRIEF, **_DRAWS}.items() if name in names}
    if "draws_per_iter" in names:
        given |= {"draws_per_iter": 2, "burn_in_per_iter": 0}
    if "n_draws" in names:
        given.pop("max_iter", None)
    mapped = on_disk(matrix, tmp_path / "counts")
    model = kind(3, random_state=0, **given, **how)
    if how.get("inference") not in _BY_ROWS:
        with pytest.raises(InvalidInputError, match="needs columns"):
            model.fit(mapped)
        return
    found, expected = _arrays(model.fit(mapped)), _arrays(model.fit(matrix))
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_columns_are_refused(tmp_path: Path) -> None:
    mapped = on_disk(X, tmp_path / "counts")
    with pytest.raises(InvalidInputError, match="needs columns"):
        _ = mapped.transposed
    with pytest.raises(InvalidInputError, match="nndsvd"):
        PoissonNMF(3, init="nndsvd").fit(mapped)


def test_memory_does_not_grow_with_the_nonzeros(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    parts = (sp.random(2000, 400, 0.25, "csr", random_state=generator).astype(bool).astype(int) for _ in range(10))
    mapped = on_disk(parts, tmp_path / "counts")
    size = mapped.nnz * 6
    PoissonNMF(2, max_iter=1, tol=0.0).fit(mapped)
    tracemalloc.start()
    PoissonNMF(2, max_iter=2, tol=0.0).fit(mapped)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.4 * size, "activations and sums over features, and no copy of the data"


def test_the_command_writes_and_fits_rows_on_disk(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from partwise.cli.app import build

    (tmp_path / "parts").mkdir()
    for number, part in enumerate(PARTS):
        sp.save_npz(tmp_path / "parts" / f"{number}.npz", part)
    rows, model = str(tmp_path / "counts.rows"), str(tmp_path / "model.partwise")
    activations = tmp_path / "activations.csv"
    for arguments in (
        ["convert", str(tmp_path / "parts"), rows],
        ["fit", rows, "-o", model, "-k", "3", "--max-iter", "4", "--tol", "0", "--activations", str(activations)],
    ):
        done = CliRunner().invoke(build(), arguments)
        assert done.exit_code == 0, done.output
    assert len(activations.read_text().splitlines()) == 1 + X.shape[0]


def test_data_that_were_written_anew_are_not_taken_for_the_old(tmp_path: Path) -> None:
    from partwise.engines.worker_tasks import _opened

    first = on_disk(X, tmp_path / "counts")
    before = _opened(str(first.folder), first.checksum)
    first.folder.rename(tmp_path / "old")
    second = on_disk(X[:7], tmp_path / "counts")
    assert second.checksum != first.checksum
    assert _opened(str(second.folder), second.checksum).shape == (7, X.shape[1])
    assert before.shape == X.shape
