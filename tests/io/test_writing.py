from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from io_samples import COLUMNS, ROWS, counts, dense

from partwise.errors import InvalidInputError
from partwise.io import Table, read, write_matrix

NAMES = ["x.npz", "x.npy", "x.mtx", "x.mtx.gz", "x.csv", "x.tsv.gz", "x.h5ad", "long.csv", "long.tsv.gz", "x.parquet"]


def options(name: str) -> dict[str, Any]:
    return {"format": "long"} if name.startswith("long") else {}


def labelled(matrix: Any, **changes: Any) -> Table:
    fields = {"row_labels": np.array(ROWS), "column_labels": np.array(COLUMNS), **changes}
    return Table(matrix, **fields)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sparse", [True, False])
def test_everything_survives_the_way_there_and_back(tmp_path: Path, name: str, sparse: bool) -> None:
    table = labelled(sp.csc_array(counts()) if sparse else counts())
    written = write_matrix(tmp_path / name, table, **options(name))
    assert sorted(written) == sorted(tmp_path.iterdir())
    assert written[-1] == tmp_path / name
    again = read(tmp_path / name, **options(name))
    np.testing.assert_array_equal(dense(again.matrix), counts())
    assert again.row_labels is not None
    assert again.column_labels is not None
    assert again.row_labels.tolist() == ROWS
    assert again.column_labels.tolist() == COLUMNS


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sparse", [True, False])
def test_missing_cells_survive(tmp_path: Path, name: str, sparse: bool) -> None:
    missing = np.zeros((7, 5), dtype=bool)
    missing[3], missing[0, 0], missing[4, 2] = True, True, True
    given = sp.csr_array(counts()) if sparse else counts()
    write_matrix(tmp_path / name, labelled(given, missing=sp.csr_array(missing)), **options(name))
    expected = np.where(missing, np.nan, counts())
    np.testing.assert_array_equal(dense(read(tmp_path / name, **options(name)).matrix), expected)


def test_other_programs_read_it_too(tmp_path: Path) -> None:
    table = labelled(sp.csr_array(counts().astype(float)))
    write_matrix(tmp_path / "x.npz", table)
    np.testing.assert_array_equal(sp.load_npz(tmp_path / "x.npz").toarray(), counts())
    write_matrix(tmp_path / "x.mtx", table)
    assert "coordinate integer general" in (tmp_path / "x.mtx").read_text()
    np.testing.assert_array_equal(scipy.io.mmread(tmp_path / "x.mtx").toarray(), counts())
    anndata = pytest.importorskip("anndata")
    write_matrix(tmp_path / "x.h5ad", table)
    data = anndata.read_h5ad(tmp_path / "x.h5ad")
    np.testing.assert_array_equal(data.X.toarray(), counts())
    assert data.var_names.tolist() == COLUMNS


@pytest.mark.parametrize("name", NAMES)
def test_without_labels(tmp_path: Path, name: str) -> None:
    written = write_matrix(tmp_path / name, Table(counts() > 0), **options(name))
    assert written == [tmp_path / name]
    np.testing.assert_array_equal(dense(read(tmp_path / name, **options(name)).matrix), counts() > 0)


def test_formulas_in_labels(tmp_path: Path) -> None:
    table = labelled(counts(), column_labels=np.array(["=1", "-2", "c", "d", "e"]))
    for name in ("x.csv", "long.csv"):
        write_matrix(tmp_path / name, table, **options(name))
        found = read(tmp_path / name, **options(name)).column_labels
        assert found is not None
        assert found[:2].tolist() == ["'=1", "-2"]
        write_matrix(tmp_path / name, table, neutralise=False, **options(name))
        found = read(tmp_path / name, **options(name)).column_labels
        assert found is not None
        assert found[0] == "=1"


def test_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"format ldac can be read only; write one of: npz, npy, mtx, h5ad"):
        write_matrix(tmp_path / "x.ldac", Table(counts()))
    with pytest.raises(InvalidInputError, match="does not say what format"):
        write_matrix(tmp_path / "x.xlsx", Table(counts()))
    with pytest.raises(InvalidInputError, match="row_labels has 1 labels for 7"):
        write_matrix(tmp_path / "x.npz", Table(counts(), row_labels=np.array(["a"])))
    with pytest.raises(InvalidInputError, match="two rows are labelled 'a', which a long table cannot tell apart"):
        write_matrix(tmp_path / "x.csv", labelled(counts(), row_labels=np.array(["a"] * 7)), format="long")
    with pytest.raises(InvalidInputError, match="has a line end"):
        write_matrix(tmp_path / "x.mtx", labelled(counts(), row_labels=np.array(["a\nb"] * 7)))
    monkeypatch.setenv("PARTWISE_MEMORY_LIMIT", "100")
    with pytest.raises(InvalidInputError, match=r"takes 280 bytes, more than the 100 bytes .* write it as \.npz"):
        write_matrix(tmp_path / "x.npy", Table(sp.csr_array(counts())))
    assert list(tmp_path.iterdir()) == []


def test_large_and_fractional_values(tmp_path: Path) -> None:
    values = np.array([[2.0**60, 0.1], [0.5, 3.0]])
    for name in ("x.mtx", "x.csv", "x.npz", "x.parquet"):
        write_matrix(tmp_path / name, Table(sp.csr_array(values)))
        np.testing.assert_array_equal(dense(read(tmp_path / name).matrix), values)
