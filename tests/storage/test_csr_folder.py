"""The folder format: what is written is read back, and damaged folders are refused with one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from partwise import on_disk
from partwise.core.data import BinaryMatrix, CountMatrix, SparseData
from partwise.errors import FileFormatError, InvalidInputError
from partwise.storage.csr_folder import Description, MappedCounts, new_folder, open_data
from partwise.storage.writing import write_data, write_rows

RNG = np.random.default_rng(0)
X = sp.csr_matrix(RNG.poisson(RNG.gamma(0.5, 30.0, size=(120, 3)) @ RNG.dirichlet(np.full(50, 0.3), size=3)))
ARRAYS = ("indptr", "indices", "values", "missing_indptr", "missing_indices", "row_labels", "column_labels")


def assert_equal_data(found: SparseData, expected: SparseData) -> None:
    assert isinstance(found, type(expected))
    assert (found.shape, found.total) == (expected.shape, expected.total)
    for name in (*ARRAYS, "column_sums"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


@pytest.mark.parametrize("kind", [CountMatrix, BinaryMatrix])
def test_data_in_memory_come_back(tmp_path: Path, kind: Any) -> None:
    data = kind.build(np.array([[1.0, 0.0, np.nan], [0.0, 0.0, 1.0]]))
    write_data(data, tmp_path / "whole")
    assert_equal_data(open_data(tmp_path / "whole"), data)
    write_rows((data.rows(start, start + 1) for start in (0, 1)), tmp_path / "rows")
    assert_equal_data(open_data(tmp_path / "rows"), data)
    if kind is BinaryMatrix:
        with pytest.raises(InvalidInputError, match="holds bits, not counts"):
            MappedCounts.open(tmp_path / "whole")


def test_labels_come_back(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    data = CountMatrix.build(pandas.DataFrame([[1, 0], [0, 2]], index=["a", "a longer name"], columns=["x", "y"]))
    write_data(data, tmp_path / "whole")
    write_rows((data.rows(start, start + 1) for start in (0, 1)), tmp_path / "rows")
    for name in ("whole", "rows"):
        assert_equal_data(open_data(tmp_path / name), data)


def test_a_description_of_parts_is_that_of_the_whole() -> None:
    data = CountMatrix.build(X)
    parts = [Description.of(data.rows(0, 50)), Description.of(data.rows(50, 120))]
    whole, joined = Description.of(data), Description.of_all(parts)
    assert (joined.shape, joined.nonzeros, joined.total) == (whole.shape, whole.nonzeros, whole.total)
    assert joined.arrays() == whole.arrays()


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with new_folder(tmp_path / "counts") as aside:
            (aside / "values.npy").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


def replaced(name: str, change: Any) -> Any:
    def change_file(folder: Path) -> None:
        path = folder / f"{name}.npy"
        np.save(path, change(np.load(path)))

    return change_file


def described(**changes: Any) -> Any:
    def change_file(folder: Path) -> None:
        path = folder / "matrix.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change_file


DAMAGE = {
    "position too large": replaced("indices", lambda a: np.where(np.arange(a.size) == 9, np.int32(50), a)),
    "position negative": replaced("indices", lambda a: np.where(np.arange(a.size) == 9, np.int32(-1), a)),
    "positions of 64 bits": replaced("indices", lambda a: a.astype(np.int64)),
    "pointers fall": replaced("indptr", lambda a: np.concatenate((a[:1], a[2:3], a[1:2], a[3:]))),
    "pointers end early": replaced("indptr", lambda a: np.minimum(a, a[-1] - 1)),
    "pointers of reals": replaced("indptr", lambda a: a.astype(float)),
    "missing cells without pointers": replaced("missing_indices", lambda a: np.zeros(3, np.int32)),
    "values are text": replaced("values", lambda a: a.astype(str)),
    "values in two dimensions": replaced("values", lambda a: a[None]),
    "sums of other columns": replaced("column_sums", lambda a: a[1:]),
    "too few names": lambda folder: np.save(folder / "column_labels.npy", np.array(["a"])),
    "names are numbers": lambda folder: np.save(folder / "column_labels.npy", np.arange(50)),
    "names are gone": described(row_labels="<U3"),
    "other version": described(version=1),
    "values of a type unknown": described(values="no type"),
    "facts that nobody knows": described(more=1),
    "empty file": lambda folder: (folder / "indices.npy").write_bytes(b""),
    "no sums": lambda folder: (folder / "column_sums.npy").unlink(),
    "other shape": described(shape=[120, 49]),
    "shape of one number": described(shape=[120]),
    "no total": described(total=None),
    "no object": lambda folder: (folder / "matrix.json").write_text("[]"),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damaged_folders_are_refused(tmp_path: Path, damage: str) -> None:
    on_disk(X, tmp_path / "counts")
    DAMAGE[damage](tmp_path / "counts")
    with pytest.raises(FileFormatError, match=r"counts .*: write it again\.$"):
        on_disk(tmp_path / "counts")
