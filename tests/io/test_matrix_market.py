from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from io_samples import COLUMNS, ROWS, compress, counts, dense, write_10x, write_dense_mtx, write_mtx

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io import read

COORDINATE = "%%MatrixMarket matrix coordinate {} general\n% comment\n{}\n{}"


def test_written_by_scipy(tmp_path: Path) -> None:
    path = write_mtx(tmp_path)
    for file in (path, compress(path)):
        table = read(file)
        np.testing.assert_array_equal(dense(table.matrix), counts())
        assert table.matrix.dtype.kind == "i"
    np.testing.assert_array_equal(read(write_dense_mtx(tmp_path)).matrix, counts() / 2)


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric", "general"])
@pytest.mark.parametrize("layout", ["coordinate", "array"])
def test_symmetric_matrices_are_filled_in(tmp_path: Path, symmetry: str, layout: str) -> None:
    lower = np.tril(np.arange(16.0).reshape(4, 4), k=-1)
    full = lower - lower.T if symmetry == "skew-symmetric" else lower + lower.T
    scipy.io.mmwrite(tmp_path / "s.mtx", sp.coo_array(full) if layout == "coordinate" else full, symmetry=symmetry)
    assert f"{layout} real {symmetry}" in (tmp_path / "s.mtx").read_text()
    np.testing.assert_array_equal(dense(read(tmp_path / "s.mtx").matrix), full)


def test_pattern_and_labels_beside(tmp_path: Path) -> None:
    scipy.io.mmwrite(tmp_path / "p.mtx", sp.coo_array(counts() > 0), field="pattern")
    (tmp_path / "p.rows.txt").write_text("\n".join(ROWS))
    (tmp_path / "p.vocab.txt").write_text("\n".join(COLUMNS))
    table = read(tmp_path / "p.mtx")
    np.testing.assert_array_equal(dense(table.matrix), counts() > 0)
    assert table.row_labels is not None
    assert table.row_labels.tolist() == ROWS
    turned = read(tmp_path / "p.mtx", transpose=True)
    assert turned.shape == (5, 7)
    assert turned.row_labels is not None
    assert turned.row_labels.tolist() == COLUMNS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 is not a Matrix Market banner"),
        ("1 2 3\n", "line 1 is not a Matrix Market banner"),
        ("%%MatrixMarket vector coordinate real general\n5 2\n1 1\n2 1\n", "announces a vector"),
        ("%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 2 3\n", "announces complex values"),
        ("%%MatrixMarket matrix coordinate real general\n% only comments\n", "no line with the size"),
        (COORDINATE.format("integer", "2 2", "1 1 1\n"), "line 3 does not give the size"),
        (COORDINATE.format("integer", "-2 2 1", "1 1 1\n"), "line 3 does not give the size"),
        (COORDINATE.format("integer", "2 2 2", "1 1 1\n"), "Expected another 1 lines"),
        (COORDINATE.format("integer", "2 2 1", "1 1 1\n2 2 1\n"), "Line 5: Too many lines"),
        (COORDINATE.format("integer", "2 2 1", "3 1 1\n"), "Line 4: Row index out of bounds"),
        (COORDINATE.format("integer", "2 2 1", "0 1 1\n"), "Line 4: Row index out of bounds"),
        (COORDINATE.format("integer", "2 2 1", "1 1 5.7\n"), r"the character '\.' occurs, though line 1 announces int"),
        (COORDINATE.format("real", "2 2 1", "1 1 3,5\n"), "the character ',' occurs"),
        (COORDINATE.format("integer", "2 2 1", "1 1 5 9\n"), "holds 4 numbers where 1 entries of 3"),
        (COORDINATE.format("integer", "2 2 2", "1 1 1\n1 1 2\n"), r"entry 1 repeats .* entry 0; .*duplicates='sum'"),
        (COORDINATE.format("integer", "2 2 1000000000000", "1 1 1\n"), "1000000000000 entries, more than a file of"),
        (COORDINATE.format("integer", "1000000000 2 1", "1 1 1\n"), "declares"),
        ("%%MatrixMarket matrix array real general\n100000 100000\n1\n", "10000000000 entries, more than a file of"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.mtx").write_text(text)
    with pytest.raises(FileFormatError, match=message) as caught:
        read(tmp_path / "bad.mtx")
    assert "bad.mtx" in str(caught.value)


@pytest.mark.parametrize("ending", ["", " ", "\t", "\n"])
def test_last_line_may_end_anyhow(tmp_path: Path, ending: str) -> None:
    # SciPy 1.17.1 itself crashes on the space and the tab.
    (tmp_path / "x.mtx").write_text(COORDINATE.format("integer", "2 2 1", "1 2 5" + ending))
    assert dense(read(tmp_path / "x.mtx").matrix).tolist() == [[0, 5], [0, 0]]


def test_repeats_are_summed_when_asked(tmp_path: Path) -> None:
    (tmp_path / "x.mtx").write_text(COORDINATE.format("integer", "2 2 2", "1 1 1\n1 1 2\n"))
    assert dense(read(tmp_path / "x.mtx", duplicates="sum").matrix).tolist() == [[3, 0], [0, 0]]


def test_compressed_bombs(tmp_path: Path) -> None:
    header = COORDINATE.format("integer", "2 2 1", "").encode()
    (tmp_path / "line.mtx.gz").write_bytes(gzip.compress(header + b" " * 2**22))
    with pytest.raises(FileFormatError, match=r"one line of it\) declares"):
        read(tmp_path / "line.mtx.gz", memory_limit="16 MB")
    (tmp_path / "comments.mtx.gz").write_bytes(gzip.compress(header[:49] + b"% \n" * 2**19))
    with pytest.raises(FileFormatError, match="no line with the size"):
        read(tmp_path / "comments.mtx.gz")
    (tmp_path / "cut.mtx.gz").write_bytes(compress(write_mtx(tmp_path)).read_bytes()[:-30])
    with pytest.raises(FileFormatError, match="compressed data are truncated"):
        read(tmp_path / "cut.mtx.gz")
    (tmp_path / "plain.mtx.gz").write_bytes(write_mtx(tmp_path).read_bytes())
    with pytest.raises(FileFormatError, match="compressed data are truncated or damaged"):
        read(tmp_path / "plain.mtx.gz")


@pytest.mark.parametrize("version", [2, 3])
def test_10x_directory_is_turned_to_cells_by_features(tmp_path: Path, version: int) -> None:
    folder = write_10x(tmp_path, version=version)
    table = read(folder)
    np.testing.assert_array_equal(dense(table.matrix), counts())
    assert table.matrix.format == "csr"
    assert table.row_labels is not None
    assert table.column_labels is not None
    assert table.row_labels.tolist() == [f"{name}-1" for name in ROWS]
    assert table.column_labels.tolist() == COLUMNS
    by_id = read(folder, feature_column="id").column_labels
    assert by_id is not None
    assert by_id[1] == "ENSG00000000001"


def test_bad_10x_directories(tmp_path: Path) -> None:
    folder = write_10x(tmp_path, version=2)
    (folder / "barcodes.tsv").write_text("only one\n")
    with pytest.raises(FileFormatError, match="matrix has 7 barcodes but 1 are listed"):
        read(folder)
    (folder / "barcodes.tsv.gz").write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"both barcodes\.tsv and barcodes\.tsv\.gz"):
        read(folder)
    (folder / "barcodes.tsv.gz").unlink()
    (folder / "genes.tsv").unlink()
    with pytest.raises(FileFormatError, match=r"holds no features\.tsv; a 10x directory holds"):
        read(folder)
    with pytest.raises(FileFormatError, match=r"holds no matrix\.mtx"):
        read(tmp_path)
    with pytest.raises(FileFormatError, match="not a directory"):
        read(write_mtx(tmp_path), format="10x")
    with pytest.raises(InvalidInputError, match="feature_column='symbol' is unknown"):
        read(folder, feature_column="symbol")  # type: ignore[arg-type]
