from __future__ import annotations

import json
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from io_samples import COLUMNS, ROWS, annotated, counts, dense, write_h5ad, write_zarr

from partwise.errors import FileFormatError, InvalidInputError, MissingDependencyError
from partwise.io import read

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")
pytest.importorskip("anndata")

Writer = Callable[..., Path]
both = pytest.mark.parametrize("write", [write_h5ad, write_zarr])


@both
@pytest.mark.parametrize("sparse", ["csr", "csc", None])
def test_matrix_layers_and_names(tmp_path: Path, write: Writer, sparse: str | None) -> None:
    path = write(tmp_path, sparse=sparse)
    table = read(path, layer="counts")
    np.testing.assert_array_equal(dense(table.matrix), counts())
    assert table.row_labels is not None
    assert table.column_labels is not None
    assert table.row_labels.tolist() == ROWS
    assert table.column_labels.tolist() == COLUMNS
    np.testing.assert_allclose(dense(read(path).matrix), np.log1p(counts()), rtol=1e-6)
    with pytest.raises(InvalidInputError, match=r"layer='raw' is not in .*; its layers are: counts\."):
        read(path, layer="raw")


@pytest.mark.parametrize("compression", ["gzip", "lzf"])
def test_compressed_file_and_categorical_index(tmp_path: Path, compression: Any) -> None:
    data = annotated()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.write_h5ad(tmp_path / "x.h5ad", compression=compression)
    np.testing.assert_array_equal(dense(read(tmp_path / "x.h5ad", layer="counts").matrix), counts())
    from anndata.io import write_elem

    with h5py.File(tmp_path / "x.h5ad", "r+") as file:
        import pandas as pd

        del file["obs/_index"]
        write_elem(file["obs"], "_index", pd.Categorical([*ROWS[:6], ROWS[0]]))
    table = read(tmp_path / "x.h5ad")
    assert table.row_labels is not None
    assert table.row_labels.tolist() == [*ROWS[:6], ROWS[0]]


def change(path: Path, **changes: Any) -> Path:
    """Replace parts of an .h5ad file; None removes one."""
    with h5py.File(path, "r+") as file:
        for name, value in changes.items():
            where = name.replace("__", "/")
            if where in file:
                del file[where]
            if value is not None:
                file[where] = value
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"obs": None}, "not an AnnData file"),
        ({"X": None}, "has no X; name one of its layers with layer="),
        ({"X": np.ones(3)}, r"shape \(3,\)"),
        ({"X": np.full((7, 5), b"a")}, "does not hold plain numbers"),
        ({"X": np.ones((6, 5))}, "obs has 7 names where the matrix has 6"),
        ({"X__indptr": np.array([0, 1, 99, 3, 4, 5, 6, 7])}, "indptr falls|there are 13 values"),
        ({"X__indices": np.full(13, 99)}, "row 0 has an entry in column 99"),
        ({"X__data": np.ones(5)}, "5 values but 13 indices"),
        ({"obs___index": None}, "obs has no index"),
        ({"obs___index": np.array([b"\xff"] * 7)}, "truncated, damaged or not"),
        ({"X": h5py.ExternalLink("/etc/passwd", "/X")}, "'X' is a link; copy the data into one file"),
        ({"X": h5py.SoftLink("/layers/counts")}, "'X' is a link"),
    ],
)
def test_bad_h5ad(tmp_path: Path, changes: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=message) as caught:
        read(change(write_h5ad(tmp_path), **changes))
    assert "cells.h5ad" in str(caught.value)


def test_declared_sizes_and_values_in_other_files(tmp_path: Path) -> None:
    path = change(write_h5ad(tmp_path), X=None)
    (tmp_path / "secret").write_bytes(bytes(7 * 5 * 8))
    with h5py.File(path, "r+") as file:
        file.create_dataset("X", shape=(10**6, 10**6), dtype="f8", chunks=(1000, 1000))
    with pytest.raises(FileFormatError, match=r"declares 7\.\d+ TB, more than"):
        read(path)
    with h5py.File(change(path, X=None), "r+") as file:
        external = [(str(tmp_path / "secret"), 0, 7 * 5 * 8)]
        file.create_dataset("X", shape=(7, 5), dtype="f8", external=external)
    with pytest.raises(FileFormatError, match="its values lie in another file"):
        read(path)


def test_no_hdf5_file_and_a_crash_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.h5ad").write_text("no HDF5")
    with pytest.raises(FileFormatError, match=r"not an \.h5ad file"):
        read(tmp_path / "x.h5ad")
    from partwise.io import annotated as reader

    monkeypatch.setattr(reader, "_PROCESS", "faulthandler_that_is_not_there")
    with pytest.raises(FileFormatError, match="so damaged, or so far from an"):
        read(write_h5ad(tmp_path))


def test_bad_zarr(tmp_path: Path) -> None:
    path = write_zarr(tmp_path)
    zarr.open_group(str(path), mode="r+")["X/indices"][:] = 99
    with pytest.raises(FileFormatError, match="in column 99"):
        read(path)
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(FileFormatError, match="a part of it is missing"):
        read(tmp_path / "empty.zarr")
    (tmp_path / "file.zarr").write_text("")
    with pytest.raises(FileFormatError, match="not a directory"):
        read(tmp_path / "file.zarr")


def plain_zarr(path: Path, **options: Any) -> Any:
    """The least that counts as AnnData, in the older version of zarr."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = zarr.open_group(str(path), mode="w", zarr_format=2)
        for part, names in (("obs", ROWS), ("var", COLUMNS)):
            root.create_group(part).attrs["_index"] = "_index"
            root[part].create_array("_index", data=np.arange(len(names)))
        return root.create_array("X", **options)


def test_zarr_bomb(tmp_path: Path) -> None:
    plain_zarr(tmp_path / "bomb.zarr", shape=(10**7, 10**7), dtype="f8", chunks=(1000, 1000))
    with pytest.raises(FileFormatError, match=r"declares 727\.\d TB, more than the"):
        read(tmp_path / "bomb.zarr")


@pytest.mark.parametrize(("codec", "message"), [("pickle", "pickle"), ("base64", "it is encoded with 'base64'")])
def test_codecs_that_could_run_code_or_are_unknown(tmp_path: Path, codec: str, message: str) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "sprung",)

    path = tmp_path / "trap.zarr"
    plain_zarr(path, data=counts().astype("f8"), chunks=(7, 5))
    np.testing.assert_array_equal(read(path).matrix, counts())
    description = json.loads((path / "X" / ".zarray").read_text())
    description["compressor"] = {"id": codec}
    (path / "X" / ".zarray").write_text(json.dumps(description))
    (path / "X" / "0.0").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(FileFormatError, match=message):
        read(path)
    assert not (tmp_path / "sprung").exists()


def test_without_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"h5py": write_h5ad(tmp_path), "zarr": write_zarr(tmp_path)}
    for module, path in files.items():
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingDependencyError, match=rf'{path.suffix} .*pip install "partwise\[anndata\]"'):
            read(path)
