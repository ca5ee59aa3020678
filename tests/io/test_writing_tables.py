from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from partwise.errors import InvalidInputError, MissingDependencyError
from partwise.io import read, write_columns, write_table
from partwise.io.writing_tables import neutralised

VALUES = np.array([[0.1, 1e-300, np.nan], [2.0, -1 / 3, np.inf]])
ROWS, COLUMNS = ["naïve", "b,c"], ["part 1", "part\n2\r", 'quo"te']


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz", "x.tsv.gz"])
def test_text_reads_back_to_the_same_bits(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_table(path, VALUES, ROWS, COLUMNS, corner="sample")
    table = read(path)
    np.testing.assert_array_equal(table.matrix, VALUES)
    assert table.row_labels is not None
    assert table.column_labels is not None
    assert table.row_labels.tolist() == ROWS
    assert table.column_labels.tolist() == COLUMNS
    frame = pd.read_csv(path, sep="\t" if "tsv" in name else ",", index_col="sample", float_precision="round_trip")
    np.testing.assert_array_equal(frame.to_numpy(), VALUES)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_float32_is_written_short_and_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((20, 3), dtype=np.float32)
    for name in ("a.csv.gz", "b.csv.gz"):
        write_table(tmp_path / name, values)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    text = gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).decode()
    assert max(map(len, text.split(","))) < 16
    np.testing.assert_array_equal(read(tmp_path / "a.csv.gz").matrix.astype(np.float32), values)


def test_parquet(tmp_path: Path) -> None:
    write_table(tmp_path / "x.parquet", VALUES, ROWS, COLUMNS, corner="sample")
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert frame["sample"].tolist() == ROWS
    np.testing.assert_array_equal(frame[COLUMNS].to_numpy(), VALUES)
    with pytest.raises(InvalidInputError, match="'a' repeats"):
        write_table(tmp_path / "y.parquet", VALUES[:, :2], ROWS, ["a", "a"])
    assert not (tmp_path / "y.parquet").exists()


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1"])
def test_formulas_are_neutralised_in_labels_and_numbers_are_not(tmp_path: Path, text: str) -> None:
    write_table(tmp_path / "x.csv", [[-1.5]], [text], [text])
    with (tmp_path / "x.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["label", "'" + text], ["'" + text, "-1.5"]]
    write_columns(tmp_path / "y.csv", {text: [text]})
    with (tmp_path / "y.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["'" + text], ["'" + text]]
    write_table(tmp_path / "x.csv", [[-1.5]], [text], [text], neutralise=False)
    with (tmp_path / "x.csv").open(newline="") as file:
        assert next(csv.reader(file))[1] == text


def test_what_is_no_formula_stays() -> None:
    for text in ("", "a=b", "-1.5", "+3", "1e5", "'=1", "ünïcode"):
        assert neutralised(text) == text


def test_columns_of_mixed_types(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"part": np.array([1, 2]), "feature": ["a", "b"], "used": [True, False]}
    write_columns(tmp_path / "x.tsv", columns)
    assert (tmp_path / "x.tsv").read_text() == "part\tfeature\tused\n1\ta\t1\n2\tb\t0\n"
    write_columns(tmp_path / "x.parquet", columns)
    assert pd.read_parquet(tmp_path / "x.parquet")["used"].tolist() == [True, False]
    with pytest.raises(InvalidInputError, match="one axis and one length"):
        write_columns(tmp_path / "y.tsv", {"a": [1], "b": [1, 2]})


def test_large_tables_and_no_rows(tmp_path: Path) -> None:
    values = np.arange(20_000.0).reshape(10_000, 2)
    write_table(tmp_path / "x.csv", values)
    np.testing.assert_array_equal(read(tmp_path / "x.csv").matrix, values)
    write_table(tmp_path / "x.csv", values[:0], column_labels=["a", "b"])
    assert (tmp_path / "x.csv").read_text() == "label,a,b\n"


def test_bad_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"end it in \.csv"):
        write_table(tmp_path / "x.xlsx", VALUES)
    with pytest.raises(InvalidInputError, match=r"end it in \.csv"):
        write_table(tmp_path / "x.parquet.gz", VALUES)
    with pytest.raises(InvalidInputError, match="row_labels has 1 labels for 2"):
        write_table(tmp_path / "x.csv", VALUES, ["a"])
    with pytest.raises(InvalidInputError, match="1 axes"):
        write_table(tmp_path / "x.csv", VALUES[0])
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        write_table(tmp_path / "no" / "x.csv", VALUES)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"partwise\[arrow\]"):
        write_table(tmp_path / "x.parquet", VALUES)
    assert list(tmp_path.iterdir()) == []
