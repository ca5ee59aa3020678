"""Every command that reads data gives the same for a folder of rows on disk as for the file that it was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise import read

# What names files, times or sizes in memory is not compared.
# Rows on disk are not read once more to know the training data again.
_ASIDE = {
    "warnings",
    "data",
    "model",
    "output",
    "written",
    "seconds",
    "path",
    "file",
    "folder",
    "table",
    "results",
    "source",
}


@pytest.fixture
def rows(partwise, folder) -> None:
    """counts.rows and votes.rows, and models of both."""
    partwise("convert", "counts.npz", "counts.rows")
    partwise("convert", "votes.csv", "votes.rows")
    partwise("fit", "counts.npz", "-o", "counts.partwise", "-k", 3, "--max-iter", 20)
    partwise(
        "fit", "votes.csv", "-o", "votes.partwise", "-k", 3, "--model", "binary", "--inference", "em", "--max-iter", 20
    )


def _same(first: Any, second: Any) -> None:
    """Facts without those that name files or times."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first.keys() - _ASIDE:
            _same(first[key], second[key])
    elif isinstance(first, list):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            _same(one, other)
    else:
        assert first == second


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (("info",), "counts.npz"),
        (("info",), "votes.csv"),
        (("score", "counts.partwise"), "counts.npz"),
        (("score", "votes.partwise"), "votes.csv"),
        (("compare",), "counts.npz"),
        (("compare",), "votes.csv"),
    ],
    ids=str,
)
def test_same_facts(partwise, rows, words, data) -> None:
    model = "poisson" if "counts" in data else "logistic-pca"
    more = ("--models", model, "--ranks", "1,2") if "compare" in words else ()
    from_file = partwise.json(*words, data, *more)
    from_file.pop("coherence", None)  # data on disk are not read again for it
    _same(from_file, partwise.json(*words, Path(data).with_suffix(".rows"), *more))


@pytest.mark.parametrize(
    ("command", "data"), [("transform", "counts.npz"), ("transform", "votes.csv"), ("predict", "votes.csv")]
)
def test_same_tables(partwise, rows, command, data) -> None:
    model, folder = Path(data).with_suffix(".partwise"), Path(data).with_suffix(".rows")
    partwise(command, model, data, "-o", "file.csv")
    partwise(command, model, folder, "-o", "rows.csv")
    assert Path("file.csv").read_text() == Path("rows.csv").read_text()


@pytest.mark.parametrize("data", ["counts.npz", "votes.csv"])
def test_back_again_with_missing_cells_and_names(partwise, rows, data) -> None:
    partwise("convert", Path(data).with_suffix(".rows"), "back.csv")
    partwise("convert", data, "direct.csv")
    assert Path("back.csv").read_text() == Path("direct.csv").read_text()


def test_anndata_has_missing_cells(partwise, rows) -> None:
    for name in ("votes.csv", "votes.rows"):
        partwise("transform", "votes.partwise", name, "-o", f"{name}.h5ad")
    one, other = read("votes.csv.h5ad").matrix, read("votes.rows.h5ad").matrix
    dense = [matrix if isinstance(matrix, np.ndarray) else matrix.toarray() for matrix in (one, other)]
    assert np.isnan(dense[0]).any()
    np.testing.assert_array_equal(*dense)


def test_reports_and_pictures(partwise, rows) -> None:
    for kind in ("npz", "rows"):
        partwise("report", "counts.partwise", f"counts.{kind}", "-o", f"{kind}.html")
        partwise("plot", "counts.partwise", f"counts.{kind}", "--kind", "structure", "-o", f"{kind}.svg")
    assert abs(Path("npz.html").stat().st_size - Path("rows.html").stat().st_size) < 100


def test_fit_of_rows_reads_the_same_counts(partwise, rows) -> None:
    facts = [
        partwise.json("fit", f"counts.{kind}", "-o", f"{kind}.partwise", "-k", 3, "--inference", "multiplicative")
        for kind in ("npz", "rows")
    ]
    _same(*(found["data"] for found in facts))


def test_options_are_for_the_conversion(partwise, folder) -> None:
    partwise("convert", "catalogue.tsv", "catalogue.rows", "--transpose")
    assert partwise.json("info", "catalogue.rows")["n_samples"] == 60
    message = partwise.fails("info", "catalogue.rows", "--transpose")
    assert "drop --transpose" in message
    assert "drop --no-header" in partwise.fails("info", "catalogue.rows", "--no-header")
    partwise("convert", "counts.npz", "counts.h5ad")
    assert "--transpose is not for AnnData" in partwise.fails("convert", "counts.h5ad", "x.rows", "--transpose")
