from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from io_samples import counts, write_csv, write_docword, write_ldac, write_mtx, write_npz

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.reading import FORMATS, read


def test_missing_files_directories_and_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"^there is no file .*absent\.npz; check the name\.$"):
        read(tmp_path / "absent.npz")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileFormatError, match="it is a directory"):
        read(tmp_path / "folder.csv")
    with pytest.raises(FileFormatError, match="device or a pipe"):
        read(os.devnull, format="csv")

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    path = write_mtx(tmp_path)
    monkeypatch.setattr(Path, "open", refuse)  # the superuser may read anything
    with pytest.raises(PermissionError, match=r"permission denied; ask its owner for read access\.$"):
        read(path)


def test_unknown_names_and_formats_list_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "data.xlsx").write_text("")
    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path / "data.xlsx")
    message = str(caught.value)
    for known in (".npz", ".mtx", ".h5ad", ".zarr", ".csv", ".tsv", ".parquet", "docword.*.txt", ".ldac", "10x", ".gz"):
        assert known in message
    with pytest.raises(InvalidInputError, match="format='excel' is unknown; the formats are: npz, npy, mtx, 10x"):
        read(tmp_path / "data.xlsx", format="excel")


def test_format_overrules_the_name(tmp_path: Path) -> None:
    path = write_npz(tmp_path).rename(tmp_path / "matrix.bin")
    np.testing.assert_array_equal(read(path, format="npz").matrix.toarray(), counts())
    assert read(write_docword(tmp_path).rename(tmp_path / "x.txt"), format="docword").shape == (7, 5)
    upper = write_csv(tmp_path).rename(tmp_path / "WIDE.CSV")
    assert read(upper).shape == (7, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "counts"}, "layer= does not apply .* read as ldac .*; it is for: h5ad, zarr"),
        ({"header": False}, "header= .* it is for: csv, tsv, long"),
        ({"long_columns": ("a", "b", "c")}, "it is for: long, parquet"),
        ({"feature_column": "id"}, "it is for: 10x"),
        ({"duplicates": "mean"}, "duplicates='mean' is unknown"),
        ({"delimiter": "ab"}, "delimiter='ab' must be one character"),
        ({"memory_limit": "much"}, "memory_limit='much' is not an amount of memory"),
        ({"memory_limit": -1}, "memory_limit=-1"),
    ],
)
def test_options_that_do_not_apply_are_refused(tmp_path: Path, options: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read(write_ldac(tmp_path), **options)


def test_default_values_may_be_given_for_any_format(tmp_path: Path) -> None:
    same = "".join(["ref", "use"])  # equal to the default, not the same object
    assert read(write_npz(tmp_path), duplicates=same, header=True).shape == (7, 5)  # type: ignore[arg-type]


def test_label_files(tmp_path: Path) -> None:
    path = write_npz(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*absent"):
        read(path, vocabulary=tmp_path / "absent.txt")
    (tmp_path / "latin.txt").write_bytes(b"a\nb\n\xe9\nd\ne\n")
    with pytest.raises(FileFormatError, match=r"latin\.txt: line 3 is not UTF-8"):
        read(path, vocabulary=tmp_path / "latin.txt")
    with pytest.raises(FileFormatError, match="it has 7 rows but the argument row_labels has 1 labels"):
        read(path, row_labels=["a"])
    table = read(path, vocabulary=np.array(["a", "b", "a", "b", "c"]), transpose=True)
    assert table.row_labels is not None
    assert table.row_labels.tolist() == ["a", "b", "a", "b", "c"]


def test_description_echoes_the_shape(tmp_path: Path) -> None:
    path = write_npz(tmp_path)
    assert read(path).describe() == f"{path}: 7 samples x 5 features (sparse, 13 stored values)"
    assert read(path, transpose=True).describe().startswith(f"{path}: 5 samples x 7 features")


def test_every_reader_can_be_loaded() -> None:
    for known in FORMATS:
        assert callable(known.load_reader())


def test_import_leaves_optional_packages_alone() -> None:
    code = (
        "import sys; from partwise.io import read, write_table, write_matrix, write_h5ad;"
        "print({'pandas', 'anndata', 'pyarrow', 'polars', 'h5py', 'zarr', 'safetensors'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
