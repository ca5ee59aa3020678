from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from io_samples import COLUMNS, compress, counts, dense, write_docword, write_ldac

from partwise.errors import FileFormatError
from partwise.io import read


def test_docword_with_and_without_vocabulary(tmp_path: Path) -> None:
    path = write_docword(tmp_path)
    for file in (path, compress(path)):
        table = read(file)
        np.testing.assert_array_equal(dense(table.matrix), counts())
        assert table.column_labels is None
    (tmp_path / "vocab.toy.txt").write_text("\n".join(COLUMNS) + "\n")
    for file in (path, tmp_path / "docword.toy.txt.gz"):
        found = read(file).column_labels
        assert found is not None
        assert found.tolist() == COLUMNS
    (tmp_path / "vocab.toy.txt").write_text("one\ntwo\n")
    with pytest.raises(FileFormatError, match=r"5 columns but .*vocab\.toy\.txt has 2 labels; .*vocabulary=False"):
        read(path)


def test_docword_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from partwise.io import bags_of_words

    pieces = bags_of_words.byte_chunks
    monkeypatch.setattr(bags_of_words, "byte_chunks", lambda path, limit: pieces(path, limit, size=16))
    np.testing.assert_array_equal(dense(read(write_docword(tmp_path)).matrix), counts())
    (tmp_path / "docword.bad.txt").write_text("3\n3\n3\n1 1 1\n2 2 2\n\n3 3 x\n")
    with pytest.raises(FileFormatError, match="line 7 does not hold 3 integers"):
        read(tmp_path / "docword.bad.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first three lines"),
        ("3\n3\n1 1 1\n", "first three lines"),
        ("3\n3\n2\n1 1 1\n", "2 entries, more than a file of this size|ends after 1 of the 2 entries"),
        ("3\n3\n2\n1 1 1\n            \n", "ends after 1 of the 2 entries"),
        ("3\n3\n1\n1 1 1\n2 2 2\n", "more entries than the 1"),
        ("3\n3\n1\n1 1 1.5\n", "line 4 does not hold 3 integers"),
        ("3\n3\n2\n1 1 1\n1 2\n 3 \n", "line 5 does not hold 3 integers"),
        ("3\n3\n1\n1 1 99999999999999999999\n", "line 4 does not hold 3 integers"),
        ("3\n3\n1\n1 1 -\n", "line 4 does not hold 3 integers"),
        ("3\n3\n1\n4 1 1\n", "entry 1 has document 4, but they are numbered from 1 to 3"),
        ("3\n3\n1\n1 0 1\n", "entry 1 has word 0"),
        ("3\n3\n2\n1 1 1\n1 1 2\n", r"entry 2 \(document 1, word 1\) repeats"),
        ("1000000000\n3\n1\n1 1 1\n", "declares"),
        ("3\n3\n1000000000000\n1 1 1\n", "1000000000000 entries, more than a file of this size"),
    ],
)
def test_bad_docword_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "docword.bad.txt").write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read(tmp_path / "docword.bad.txt")


def test_docword_bomb(tmp_path: Path) -> None:
    (tmp_path / "docword.bomb.txt.gz").write_bytes(gzip.compress(b"3\n3\n100000\n" + b"1 1 1\n" * 100_000))
    with pytest.raises(FileFormatError, match=r"declares 6\.1 MB, more than the 1 MB"):
        read(tmp_path / "docword.bomb.txt.gz", memory_limit="1 MB")
    (tmp_path / "docword.line.txt.gz").write_bytes(gzip.compress(b"3\n3\n1\n" + b" " * (2**24 + 2**21)))
    with pytest.raises(FileFormatError, match="longer than 1 MB"):
        read(tmp_path / "docword.line.txt.gz", memory_limit="1 MB")


def test_ldac_with_and_without_vocabulary(tmp_path: Path) -> None:
    path = write_ldac(tmp_path)
    for file in (path, compress(path)):
        np.testing.assert_array_equal(dense(read(file).matrix), counts())
    (tmp_path / "toy.tokens").write_text("\n".join([*COLUMNS, "never used"]))
    table = read(path)
    assert table.shape == (7, 6)
    assert table.column_labels is not None
    assert table.column_labels.tolist() == [*COLUMNS, "never used"]
    given = read(path, vocabulary=tmp_path / "toy.tokens", row_labels=list("abcdefg"))
    assert given.row_labels is not None
    assert given.row_labels.tolist() == list("abcdefg")
    with pytest.raises(FileFormatError, match="5 columns but the argument vocabulary has 2 labels"):
        read(path, vocabulary=["a", "b"])


def test_ldac_document_formats(tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_bytes(b"2 0:1 3:2\r\n0\r\n1 1:7\r\n\r\n")
    assert dense(read(tmp_path / "x.dat").matrix).tolist() == [[1, 0, 0, 2], [0, 0, 0, 0], [0, 7, 0, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("2 0:1 3:2\n2 0:1\n", "line 2 declares 2 terms but has 1"),
        ("1 0:1\n\n1 0:1\n", "line 2 is not 'M term:count"),
        ("1 0:1\n1 a:1\n", "line 2 is not"),
        ("1 0:1.5\n", "line 1 is not"),
        ("1 -1:1\n", "line 1 is not"),
        ("1 1:-\n", "line 1 is not"),
        ("1 0 1\n", "line 1 is not"),
        ("2 1:1 1:2\n", "term 1 of line 1 repeats the row and column of term 1 of line 1"),
        ("1 100000000000:1\n", "declares"),
        ("1 99999999999999999999:1\n", "line 1 is not"),
    ],
)
def test_bad_ldac_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.ldac").write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read(tmp_path / "bad.ldac")
