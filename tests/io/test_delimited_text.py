from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from io_samples import COLUMNS, ROWS, compress, counts, dense, frame, long_frame, write_csv, write_long, write_tsv_gz

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io import read
from partwise.io.text_cells import parse_numbers


def save(folder: Path, text: str, name: str = "x.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def labels(array: Any) -> list[str]:
    return [] if array is None else array.tolist()


def test_wide_files_of_pandas(tmp_path: Path) -> None:
    for path in (write_csv(tmp_path), write_tsv_gz(tmp_path)):
        table = read(path)
        np.testing.assert_array_equal(table.matrix, counts())
        assert labels(table.row_labels) == ROWS
        assert labels(table.column_labels) == COLUMNS
    turned = read(write_csv(tmp_path), transpose=True)
    assert turned.shape == (5, 7)
    assert labels(turned.column_labels) == ROWS


@pytest.mark.parametrize("sign", ["", "NA", "NaN", "nan", "null", " "])
def test_missing_cells(tmp_path: Path, sign: str) -> None:
    table = read(save(tmp_path, f"id,a,b\nr,{sign},1\ns,2,{sign}\n"))
    np.testing.assert_array_equal(table.matrix, [[np.nan, 1], [2, np.nan]])


def test_header_and_index_are_what_the_caller_says(tmp_path: Path) -> None:
    path = save(tmp_path, "1,2\n3,4\n")
    assert read(path).matrix.tolist() == [[4]]
    assert labels(read(path).column_labels) == ["2"]
    assert read(path, header=False).matrix.tolist() == [[2], [4]]
    assert read(path, index=False).matrix.tolist() == [[3, 4]]
    bare = read(path, header=False, index=False, vocabulary=["a", "b"], row_labels=["r", "s"])
    assert bare.matrix.tolist() == [[1, 2], [3, 4]]
    assert labels(bare.column_labels) == ["a", "b"]
    with pytest.raises(InvalidInputError, match="names them itself; pass header=False"):
        read(path, vocabulary=["a"])


def test_dialects(tmp_path: Path) -> None:
    assert read(save(tmp_path, "\ufeffid;a\r\nr;1.5e3\r\n"), delimiter=";").matrix.tolist() == [[1500]]
    assert labels(read(save(tmp_path, "\ufeffid,a\r\nr,1\r\n")).column_labels) == ["a"]
    assert labels(read(save(tmp_path, '"","a ""b"""\n"r\ns",1\n')).row_labels) == ["r\ns"]
    assert read(save(tmp_path, "id,a\n\nr,1\n\n")).shape == (1, 1)
    assert read(save(tmp_path, "id,a,b\n")).shape == (0, 2)
    repeated = read(save(tmp_path, "id,a,a\nr,1,2\nr,3,4\n"))
    assert labels(repeated.column_labels) == ["a", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("id,a,b\nr,1,2\ns,3\n", "line 3 has 2 cells where 3 are expected"),
        ("id,a,b\nr,1,2,3\n", r"line 2 has 4 cells where 3 are expected; .*col\.names=NA"),
        ("id,a,b\nr,1,two\n", r"line 2, column 3 \('b'\) holds 'two', which is not a number"),
        ("id,a,b\nr,1_000,2\n", r"line 2, column 2 \('a'\) holds '1_000'"),
        ("id,a,b\nr,'1',2\n", "holds \"'1'\", which is not a number"),
        ('id,a\nr,"1\n', "is not valid CSV"),
        ("id,a\nr,1\x00\n", "which is not a number"),
    ],
)
def test_bad_wide_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read(save(tmp_path, text))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(b"id,a\nr,1\n" + "é,2\n".encode("latin-1"))
    with pytest.raises(FileFormatError, match=r"line 3 is not UTF-8 text; save it as UTF-8\.$"):
        read(tmp_path / "latin.csv")
    (tmp_path / "wide.csv").write_text("id,a\nr,1\n", encoding="utf-16")
    with pytest.raises(FileFormatError, match="line 1 is not UTF-8"):
        read(tmp_path / "wide.csv")
    path = compress(save(tmp_path, "id,a\n" + "r,1\n" * 1000))
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(FileFormatError, match="compressed data are truncated"):
        read(path)


def test_text_bombs(tmp_path: Path) -> None:
    (tmp_path / "line.csv.gz").write_bytes(gzip.compress(b"id,a\n" + b"1" * 2**22))
    with pytest.raises(FileFormatError, match="it has a line longer than 1 MB"):
        read(tmp_path / "line.csv.gz", memory_limit="4 MB")
    (tmp_path / "cells.csv.gz").write_bytes(gzip.compress(b"id,a\n" + b"r,1\n" * 2**17))
    with pytest.raises(FileFormatError, match=r"cells\.csv\.gz \(up to line 131073\) declares 1 MB"):
        read(tmp_path / "cells.csv.gz", memory_limit="512 kB")
    (tmp_path / "label.csv").write_text("id,a\n" + "r,1\n" * 2**10 + "r" * 100_000 + ",1\n")
    with pytest.raises(FileFormatError, match="labels of up to 100000 characters"):
        read(tmp_path / "label.csv", memory_limit="16 MB")


def check_long(table: Any) -> None:
    kept = frame().loc[frame().sum(axis=1) > 0, frame().sum() > 0]
    got = {
        (r, c): value
        for r, row in zip(labels(table.row_labels), dense(table.matrix), strict=True)
        for c, value in zip(labels(table.column_labels), row, strict=True)
    }
    assert got == kept.stack().to_dict()
    assert labels(table.row_labels) == list(dict.fromkeys(long_frame()["sample"]))


def test_long_files_of_pandas(tmp_path: Path) -> None:
    path = write_long(tmp_path)
    check_long(read(path, format="long"))
    check_long(read(compress(path), format="long"))
    wider = long_frame().assign(extra="x")[["count", "extra", "feature", "sample"]]
    wider.to_csv(tmp_path / "wider.tsv", sep="\t", index=False)
    check_long(read(tmp_path / "wider.tsv", format="long", long_columns=("sample", "feature", "count")))
    check_long(read(tmp_path / "wider.tsv", format="long", long_columns=(3, 2, 0)))
    wider.to_csv(tmp_path / "bare.txt", sep="|", index=False, header=False)
    check_long(read(tmp_path / "bare.txt", format="long", long_columns=(3, 2, 0), header=False, delimiter="|"))


def test_long_missing_values_and_events(tmp_path: Path) -> None:
    table = read(save(tmp_path, "u,i,v\na,x,\nb,y,2\n"), format="long")
    np.testing.assert_array_equal(dense(table.matrix), [[np.nan, 0], [0, 2]])
    events = save(tmp_path, "user,item,time\na,x,9\na,x,10\nb,x,11\n")
    with pytest.raises(FileFormatError, match=r"line 3 repeats the row and column of line 2; .*duplicates='sum'"):
        read(events, format="long", long_columns=("user", "item"))
    summed = read(events, format="long", long_columns=("user", "item"), duplicates="sum")
    assert dense(summed.matrix).tolist() == [[2], [1]]


@pytest.mark.parametrize(
    "cells",
    [
        ["1", "-2", "0", "9007199254740992"],
        ["", "1", "", "", "2", ""],
        [""],
        ["-9223372036854775808", ""],
        ["9223372036854775808", "-18446744073709551616", "1e23"],
        ["1.5", "-2e-3", "NA", " ", " 4 ", "inf"],
        [],
    ],
)
def test_numbers_are_those_of_python(cells: list[str]) -> None:
    expected = [float("nan") if cell.strip() in {"", "NA"} else float(cell) for cell in cells]
    np.testing.assert_array_equal(parse_numbers(cells), expected)


@pytest.mark.parametrize(
    "cell",
    [
        "-",
        "+",
        "--1",
        "1-2",
        "1,2",
        "1 2",
        "0x10",
        "1_0",
        "one",
        "1\n2",
        "+-1",
        "-,",
        "9007199254740993",
        "-99999999999999999999999",
    ],
)
def test_what_is_no_number(cell: str) -> None:
    for others in ([], ["1", "", "2"]):
        with pytest.raises(ValueError):
            parse_numbers([*others, cell, *others])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id;a;b\n1;2;3\n", "line 1 has one cell when cut at ','; pass delimiter=';'"),
        ("goal team\nlaw court\n", "line 1 has one cell when cut at ','; pass delimiter=' '; if it is raw text, count"),
        ("# made by hand\nid,a\n1,2\n", "line 1 is a comment; remove comments"),
        ("id,a,\n1,2,\n2,3,\n", "column 3 has neither a name nor a value, because lines end in ','"),
        ("id,a\n1,9007199254740993\n", r"line 2, column 2 \('a'\) holds 9007199254740993, which is above 2\^53"),
        ("id,a,b\n1,0.5,9007199254740993\n", "is above 2.53 and would be rounded"),
    ],
)
def test_files_that_were_read_wrongly(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(FileFormatError, match=sentence):
        read(tmp_path / "a.csv")


def test_many_lines(tmp_path: Path) -> None:
    # More than one batch, with the bad line in the second.
    lines = [f"r{n},c{n % 7},1\n" for n in range(40_000)]
    assert read(save(tmp_path, "r,c,v\n" + "".join(lines)), format="long").shape == (40_000, 7)
    lines[30_000] = "r,c,many\n"
    with pytest.raises(FileFormatError, match="line 30002, column 3 holds 'many'"):
        read(save(tmp_path, "r,c,v\n" + "".join(lines)), format="long")
    with pytest.raises(FileFormatError, match=r"declares 2\.44 MB"):
        read(save(tmp_path, "r,c,v\n" + "".join(lines[:30_000] + lines[30_001:])), format="long", memory_limit="2.4 MB")


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("", {}, FileFormatError, "it is empty"),
        ("a,b\n1,2\n", {}, FileFormatError, "2 columns where row, column and value .*long_columns"),
        ("a,b,c\n1,2\n", {}, FileFormatError, "line 2 has 2 cells where 3"),
        ("a,b,c\n1,2,x\n", {}, FileFormatError, "line 2, column 3 holds 'x'"),
        (
            "a,b,c\n1,2,3\n",
            {"long_columns": ("a", "b", "d")},
            InvalidInputError,
            "'d', which .* has 0 times; it has: a",
        ),
        ("a,b,c\n1,2,3\n", {"long_columns": (0, 1, 3)}, InvalidInputError, "column 3, but .* has 0 to 2"),
        ("a,b,c\n1,2,3\n", {"long_columns": "abc"}, InvalidInputError, "must list"),
        ("1,2,3\n", {"long_columns": ("a", "b", "c"), "header": False}, InvalidInputError, "give positions"),
    ],
)
def test_bad_long_files(tmp_path: Path, text: str, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read(save(tmp_path, text), format="long", **options)


def test_long_needs_a_delimiter(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="pass delimiter="):
        read(save(tmp_path, "a b c\n", "x.all"), format="long")


def test_text_files_are_tab_separated(tmp_path: Path) -> None:
    (tmp_path / "counts.txt").write_text("type\ts1\ts2\na\t1\t2\nb\t3\t4\n")
    assert read(tmp_path / "counts.txt").matrix.tolist() == [[1, 2], [3, 4]]


def test_a_named_format_says_how_cells_are_separated(tmp_path: Path) -> None:
    (tmp_path / "counts.all").write_text("type\ts1\na\t1\n")
    assert read(tmp_path / "counts.all", format="tsv").column_labels.tolist() == ["s1"]
    (tmp_path / "counts.csv").write_text("type\ts1\na\t1\n")
    for options in ({"format": "tsv"}, {"delimiter": "tab"}, {"delimiter": "\\t"}, {"delimiter": "\t"}):
        assert read(tmp_path / "counts.csv", **options).matrix.tolist() == [[1]]
    (tmp_path / "counts.tsv").write_text("type,s1\na,1\n")
    assert read(tmp_path / "counts.tsv", format="csv").matrix.tolist() == [[1]]


def test_two_columns_of_labels(tmp_path: Path) -> None:
    (tmp_path / "catalogue.csv").write_text("Mutation type,Trinucleotide,s1,s2\nC>A,ACA,1,2\nT>G,TTT,3,4\n")
    table = read(tmp_path / "catalogue.csv", label_columns=2)
    assert table.row_labels.tolist() == ["A[C>A]A", "T[T>G]T"]
    assert table.column_labels.tolist() == ["s1", "s2"]
    assert table.matrix.tolist() == [[1, 2], [3, 4]]
    (tmp_path / "other.csv").write_text("organ,stage,x\nliver,2,1\n")
    assert read(tmp_path / "other.csv", label_columns=2).row_labels.tolist() == ["liver 2"]
    with pytest.raises(FileFormatError, match=r"column 2 \('Trinucleotide'\) holds 'ACA'.*label_columns=2"):
        read(tmp_path / "catalogue.csv")
    (tmp_path / "plays.csv").write_text("listener,song,plays\nann,tune,3\n")
    with pytest.raises(FileFormatError, match="format='long' reads lines of row, column and value"):
        read(tmp_path / "plays.csv")
    with pytest.raises(FileFormatError, match="all of them labels"):
        read(tmp_path / "other.csv", label_columns=3)
    with pytest.raises(InvalidInputError, match="label_columns=0 must be a whole number from 1 on"):
        read(tmp_path / "other.csv", label_columns=0)
    with pytest.raises(InvalidInputError, match="drop index=False"):
        read(tmp_path / "other.csv", label_columns=2, index=False)


def test_data_are_not_taken_for_names(tmp_path: Path) -> None:
    """A file without a header, or without names of rows, would lose its first line or column."""
    (tmp_path / "votes.csv").write_text("ann,1,0,1\nbob,0,1,1\n")
    with pytest.raises(FileFormatError, match=r"line 1 holds numbers .* pass header=False if it has no header line"):
        read(tmp_path / "votes.csv")
    assert read(tmp_path / "votes.csv", header=False).matrix.shape == (2, 3)
    (tmp_path / "years.csv").write_text("name,2023,2024\nann,1,0\n")  # numbers, but all different
    assert read(tmp_path / "years.csv").column_labels.tolist() == ["2023", "2024"]
    (tmp_path / "bare.csv").write_text("a,b,c\n1,0,1\n1,1,0\n")
    with pytest.warns(UserWarning, match=r"first column holds numbers, .* index=False\.$"):
        read(tmp_path / "bare.csv")
    (tmp_path / "ids.csv").write_text("id,b,c\n7,0,1\n8,1,0\n")
    assert read(tmp_path / "ids.csv").row_labels.tolist() == ["7", "8"]
    (tmp_path / "plays.csv").write_text("ann,tune,3\nbob,tune,1\n")
    with pytest.raises(FileFormatError, match=r"line 1 has a number \(3\) where the value column is named"):
        read(tmp_path / "plays.csv", format="long")
    assert read(tmp_path / "plays.csv", format="long", header=False).matrix.sum() == 4
