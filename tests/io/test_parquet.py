from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from io_samples import dense, long_frame, write_parquet
from test_delimited_text import check_long

from partwise.errors import FileFormatError, InvalidInputError, MissingDependencyError
from partwise.io import read

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def save(folder: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), folder / "x.parquet")
    return folder / "x.parquet"


def test_files_of_pandas_polars_and_pyarrow(tmp_path: Path) -> None:
    check_long(read(write_parquet(tmp_path)))
    polars = pytest.importorskip("polars")
    polars.from_pandas(long_frame()).write_parquet(tmp_path / "polars.parquet")
    check_long(read(tmp_path / "polars.parquet"))
    long_frame().astype({"sample": "category", "feature": "category"}).to_parquet(tmp_path / "categories.parquet")
    wanted = ("sample", "feature", "count")
    check_long(read(tmp_path / "categories.parquet", long_columns=wanted))
    pq.write_table(pa.Table.from_pandas(long_frame()), tmp_path / "groups.parquet", row_group_size=3)
    check_long(read(tmp_path / "groups.parquet", long_columns=wanted))


def test_types_of_labels_and_values(tmp_path: Path) -> None:
    table = read(save(tmp_path, r=[7, 3, 7], c=["x", "x", "y"], v=pa.array([True, None, False])))
    assert table.row_labels is not None
    assert table.row_labels.tolist() == ["7", "3"]
    np.testing.assert_array_equal(dense(table.matrix), [[1, 0], [np.nan, 0]])
    events = save(tmp_path, r=["a", "a"], c=["x", "x"], t=[1, 2])
    assert dense(read(events, long_columns=("r", "c"), duplicates="sum").matrix).tolist() == [[2]]
    empty = save(tmp_path, r=pa.array([], pa.string()), c=pa.array([], pa.string()), v=pa.array([], pa.int64()))
    assert read(empty).shape == (0, 0)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"r": ["a"], "c": ["x"]}, FileFormatError, "2 columns where row, column and value"),
        ({"r": ["a"], "c": ["x"], "v": ["1"]}, FileFormatError, "'v' has values of type string, not numbers"),
        ({"r": ["a", None], "c": ["x", "y"], "v": [1, 2]}, FileFormatError, "'r' has no label in record 1"),
        ({"r": ["a", "a"], "c": ["x", "x"], "v": [1, 2]}, FileFormatError, "record 1 repeats .* record 0"),
        ({"r": [["a"]], "c": ["x"], "v": [1]}, FileFormatError, "'r' has labels of type list"),
        ({"r": ["a"], "c": ["x"], "v": [2**60 + 1]}, FileFormatError, "plain numbers"),
    ],
)
def test_bad_columns(tmp_path: Path, columns: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read(save(tmp_path, **columns))


def test_bad_files(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("row,column,value\n")
    with pytest.raises(FileFormatError, match="not a Parquet file"):
        read(tmp_path / "text.parquet")
    with pytest.raises(InvalidInputError, match=r"'z', which .* has 0 times"):
        read(write_parquet(tmp_path), long_columns=("z", "feature", "count"))


def test_run_length_bomb(tmp_path: Path) -> None:
    one = np.zeros(5_000_000, dtype=np.int8)
    path = save(tmp_path, r=one, c=one, v=one)
    assert path.stat().st_size < 100_000
    with pytest.raises(FileFormatError, match=r"\(5000000 records\) declares 305 MB, more than the 100 MB"):
        read(path, memory_limit="100 MB")


def test_long_repeated_label_is_held_once(tmp_path: Path) -> None:
    text = "x" * 10_000
    path = save(tmp_path, r=[text] * 2000, c=[str(n) for n in range(2000)], v=np.ones(2000))
    assert read(path, memory_limit="5 MB").shape == (1, 2000)


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingDependencyError, match=r'needs pyarrow: pip install "partwise\[arrow\]"'):
        read(path)
