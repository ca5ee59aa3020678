from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from io_samples import COLUMNS, compress, counts, dense, write_npy, write_npz

from partwise.errors import FileFormatError
from partwise.io import read

STORED = 13


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("compressed", [True, False])
def test_every_layout_that_scipy_saves(tmp_path: Path, layout: str, compressed: bool) -> None:
    table = read(write_npz(tmp_path, layout, compressed=compressed))
    assert table.matrix.format == "csr"
    np.testing.assert_array_equal(dense(table.matrix), counts())
    assert table.row_labels is None
    assert table.column_labels is None


def test_scipy_matrix_class_and_bsr_blocks(tmp_path: Path) -> None:
    blocks = sp.bsr_matrix(np.kron(counts(), np.ones((2, 3), dtype=int)), blocksize=(2, 3))
    sp.save_npz(tmp_path / "blocks.npz", blocks)
    np.testing.assert_array_equal(dense(read(tmp_path / "blocks.npz").matrix), blocks.toarray())


def save_plain(path: Path, **changes: Any) -> Path:
    matrix = sp.csr_array(counts())
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    arrays |= {name: np.asarray(value) for name, value in changes.items()}
    np.savez(path, **{name: value for name, value in arrays.items() if value.dtype != object})
    return path


def test_plain_csr_with_vocabulary_beside(tmp_path: Path) -> None:
    (tmp_path / "plain.vocab.txt").write_text("\n".join(COLUMNS) + "\n")
    compress(tmp_path / "plain.vocab.txt")
    (tmp_path / "plain.vocab.txt").unlink()
    path = save_plain(tmp_path / "plain.npz", label=np.arange(7))
    table = read(path)
    np.testing.assert_array_equal(dense(table.matrix), counts())
    assert table.column_labels is not None
    assert table.column_labels.tolist() == COLUMNS
    assert read(path, vocabulary=False).column_labels is None


def test_repeated_entries_are_summed_without_wrapping(tmp_path: Path) -> None:
    repeated = sp.coo_array((np.array([200, 100], dtype=np.uint8), ([0, 0], [1, 1])), shape=(1, 3))
    sp.save_npz(tmp_path / "coo.npz", repeated)
    assert dense(read(tmp_path / "coo.npz").matrix).tolist() == [[0, 300, 0]]
    path = save_plain(
        tmp_path / "csr.npz", data=np.array([200, 100], np.uint8), indices=[1, 1], indptr=[0, 2], shape=[1, 3]
    )
    assert dense(read(path).matrix).tolist() == [[0, 300, 0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": [0, 3, 2, 4, 5, 6, 7, 8]}, "indptr falls after row 1"),
        ({"indptr": [0, 1, 2]}, "indptr has 3 values, but 7 rows need 8"),
        ({"indptr": [0, 0, 0, 0, 0, 0, 0, 9999]}, "there are 13 values"),
        ({"indptr": [1, 2, 2, 4, 5, 6, 7, 8]}, "indptr runs from 1"),
        ({"indices": np.arange(STORED)}, r"row 2 has an entry in column 5, but there are 5 columns"),
        ({"indices": -np.ones(STORED, int)}, r"row 0 has an entry in column -1"),
        ({"indices": [0, 1]}, "13 values but 2 indices"),
        ({"indices": np.zeros(STORED)}, "arrays of integers"),
        ({"shape": [-7, 5]}, "negative"),
        ({"shape": [7, 5, 1]}, "two integers"),
        ({"shape": [7.0, 5.0]}, "two integers"),
        ({"shape": [7, 10**15]}, "declares"),
        ({"data": np.array(["a"] * STORED)}, "not numbers"),
        ({"data": np.ones(STORED, complex)}, "not numbers"),
        ({"data": np.ones((STORED, 1))}, "axes"),
        ({"format": np.array(b"lil")}, "'lil' is unknown"),
        ({"format": np.array(b"dia")}, "needs the array 'offsets'"),
        ({"indptr": object()}, "not one matrix"),
    ],
)
def test_inconsistent_csr(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FileFormatError, match=message) as caught:
        read(save_plain(tmp_path / "bad.npz", **changes))
    assert "bad.npz" in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("layout", "changes", "message"),
    [
        ("coo", {"row": np.full(STORED, 7)}, "entry 0 has row 7"),
        ("coo", {"col": np.arange(12)}, "one integer for each"),
        ("coo", {"shape": [10**10, 5]}, "declares"),
        ("csc", {"shape": [10**9, 5]}, "declares"),
        ("dia", {"offsets": np.zeros(9, int)}, "different integers"),
        ("dia", {"offsets": np.arange(100, 109)}, "outside the shape"),
        ("bsr", {"shape": [8, 5], "data": np.ones((STORED, 3, 1))}, "do not tile"),
    ],
)
def test_inconsistent_other_layouts(tmp_path: Path, layout: str, changes: dict[str, Any], message: str) -> None:
    with np.load(write_npz(tmp_path, layout)) as saved:
        arrays = dict(saved)
    np.savez(tmp_path / "bad.npz", **{**arrays, **changes})
    with pytest.raises(FileFormatError, match=message):
        read(tmp_path / "bad.npz")


def test_one_dense_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "dense.npz", X=counts())
    np.testing.assert_array_equal(read(tmp_path / "dense.npz").matrix, counts())
    np.testing.assert_array_equal(read(write_npy(tmp_path)).matrix, counts())
    np.savez(tmp_path / "two.npz", X=counts(), Y=counts())
    with pytest.raises(FileFormatError, match=r"arrays \['X', 'Y'\] and not one matrix"):
        read(tmp_path / "two.npz")


@pytest.mark.parametrize("dtype", [bool, np.uint8, ">i4", np.float16, np.float32, np.longdouble])
def test_number_types(tmp_path: Path, dtype: Any) -> None:
    np.save(tmp_path / "x.npy", (counts() > 0).astype(dtype))
    matrix = read(tmp_path / "x.npy").matrix
    np.testing.assert_array_equal(matrix, counts() > 0)
    assert matrix.dtype.isnative
    assert matrix.dtype.itemsize <= 8


def test_pickles_are_refused_unopened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "sprung",)

    trap = np.array([[Trap()]], dtype=object)
    np.save(tmp_path / "trap.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "trap.npz", X=trap)
    matrix = sp.csr_array(counts())
    np.savez(tmp_path / "sparse.npz", data=trap, indices=matrix.indices, indptr=matrix.indptr, shape=matrix.shape)
    for name in ("trap.npy", "trap.npz", "sparse.npz"):
        with pytest.raises(FileFormatError, match="pickled Python objects, which could run code"):
            read(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def npy_header(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def test_declared_sizes_are_refused_before_they_are_allocated(tmp_path: Path) -> None:
    (tmp_path / "huge.npy").write_bytes(npy_header((10**9, 10**9)) + bytes(64))
    with pytest.raises(FileFormatError, match="its header declares 8000000000000000000 bytes of values"):
        read(tmp_path / "huge.npy")
    with zipfile.ZipFile(tmp_path / "liar.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", npy_header((10**6, 10**6)) + bytes(64))
    with pytest.raises(FileFormatError, match="array 'X' declares 8000000000000 bytes, but holds fewer"):
        read(tmp_path / "liar.npz")
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", npy_header((2048, 2048)) + bytes(8 * 2048**2))
    assert (tmp_path / "bomb.npz").stat().st_size < 200_000
    with pytest.raises(FileFormatError, match=r"declares 32 MB, more than the 16 MB that may be used; .*memory_limit"):
        read(tmp_path / "bomb.npz", memory_limit="16 MB")
    assert read(tmp_path / "bomb.npz", memory_limit="1 GB").shape == (2048, 2048)


def test_limit_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTWISE_MEMORY_LIMIT", "100")
    with pytest.raises(FileFormatError, match="more than the 100 bytes"):
        read(write_npy(tmp_path))


def test_odd_archives(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("not a zip")
    with pytest.raises(FileFormatError, match=r"not an \.npz archive"):
        read(tmp_path / "text.npz")
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    with pytest.raises(FileFormatError, match="3 axes"):
        read(tmp_path / "cube.npy")
    truncated = write_npz(tmp_path)
    truncated.write_bytes(truncated.read_bytes()[:-40])
    with pytest.raises(FileFormatError, match="truncated"):
        read(truncated)
