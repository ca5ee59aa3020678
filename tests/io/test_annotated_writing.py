from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from io_samples import COLUMNS, ROWS, counts
from io_samples import write_h5ad as write_cells

from partwise.errors import FileFormatError, InvalidInputError, MissingDependencyError
from partwise.io import write_h5ad

anndata = pytest.importorskip("anndata")

ACTIVATIONS = np.random.default_rng(0).random((7, 3))
DICTIONARY = np.random.default_rng(1).random((5, 3))
METADATA: dict[str, Any] = {
    "model": "PoissonNMF",
    "params": {"n_components": 3, "tol": 1e-4, "init": None, "n/jobs": True},
    "trace": [3.0, 2.0, 1.0],
    "names": ["a", "b"],
    "mixed": [1, "a", None],
}


def opened(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return anndata.read_h5ad(path)


def test_results_alone(tmp_path: Path) -> None:
    write_h5ad(
        tmp_path / "x.h5ad",
        matrix=sp.csr_array(counts()),
        activations=ACTIVATIONS,
        dictionary=DICTIONARY,
        metadata=METADATA,
        row_labels=ROWS,
        column_labels=COLUMNS,
    )
    data = opened(tmp_path / "x.h5ad")
    np.testing.assert_array_equal(data.X.toarray(), counts())
    np.testing.assert_array_equal(data.obsm["X_partwise"], ACTIVATIONS)
    np.testing.assert_array_equal(data.varm["partwise"], DICTIONARY)
    assert data.obs_names.tolist() == ROWS
    stored = data.uns["partwise"]
    assert stored["model"] == "PoissonNMF"
    assert stored["params"]["n_components"] == 3
    assert stored["params"]["n_jobs"]
    assert "init" not in stored["params"]
    assert stored["trace"].tolist() == [3, 2, 1]
    assert stored["mixed"] == '[1, "a", null]'
    assert [file.name for file in tmp_path.iterdir()] == ["x.h5ad"]


def test_results_without_a_matrix_and_with_repeated_names(tmp_path: Path) -> None:
    write_h5ad(tmp_path / "x.h5ad", activations=ACTIVATIONS, row_labels=["same"] * 7)
    data = opened(tmp_path / "x.h5ad")
    assert data.shape == (7, 0)
    np.testing.assert_array_equal(data.obsm["X_partwise"], ACTIVATIONS)


def test_results_are_added_to_an_existing_file(tmp_path: Path) -> None:
    base = write_cells(tmp_path)
    before = opened(base)
    for target in (tmp_path / "new.h5ad", base):
        write_h5ad(target, activations=ACTIVATIONS, dictionary=DICTIONARY, base=base, column_labels=COLUMNS)
        data = opened(target)
        np.testing.assert_array_equal(data.layers["counts"].toarray(), counts())
        np.testing.assert_array_equal(data.X.toarray(), before.X.toarray())
        np.testing.assert_array_equal(data.obsm["X_partwise"], ACTIVATIONS)


def test_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = write_cells(tmp_path)
    content = base.read_bytes()
    with pytest.raises(InvalidInputError, match="activations has 6 rows where the file has 7"):
        write_h5ad(base, activations=ACTIVATIONS[:6], base=base)
    with pytest.raises(
        InvalidInputError, match=r"column_labels differ from .*, first at position 0 \('e', there 'naïve'"
    ):
        write_h5ad(base, dictionary=DICTIONARY, base=base, column_labels=COLUMNS[::-1])
    with pytest.raises(InvalidInputError, match="dictionary has 1 axes"):
        write_h5ad(base, dictionary=DICTIONARY[0], base=base)
    (tmp_path / "bad.h5ad").write_text("no")
    with pytest.raises(FileFormatError, match=r"bad\.h5ad"):
        write_h5ad(base, dictionary=DICTIONARY, base=tmp_path / "bad.h5ad")
    assert base.read_bytes() == content
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(MissingDependencyError, match=r"partwise\[anndata\]"):
        write_h5ad(base, activations=ACTIVATIONS)
