"""Published data: documented sizes are checked, and a missing file gets a sentence that says where it comes from."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from partwise import datasets
from partwise.datasets import BINARY, COUNTS, GAP, load_binary, load_counts, load_gap
from partwise.errors import FileFormatError, InvalidInputError

LOADERS = [("reuters395", load_counts), ("animals", load_binary), ("nips100", load_gap)]


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str, data_folder: Path) -> None:
    table = load_counts(name)
    assert table.shape == COUNTS[name].shape
    assert (table.column_labels is None) == (name == "kos")


def test_newsgroups_are_labelled(data_folder: Path) -> None:
    labels = load_counts("newsgroups20").row_labels
    assert len(np.unique(labels)) == 20
    assert labels[0] == "alt.atheism"


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, data_folder: Path) -> None:
    table = load_binary(name)
    assert table.shape == BINARY[name].shape
    observed = table.matrix[~np.isnan(table.matrix)]
    assert set(np.unique(observed)) == {0.0, 1.0}


def test_binary_turned(data_folder: Path) -> None:
    published, turned = load_binary("animals"), load_binary("animals", transpose=True)
    np.testing.assert_array_equal(turned.matrix, published.matrix.T)
    assert turned.row_labels.tolist() == published.column_labels.tolist()


@pytest.mark.parametrize("name", GAP)
def test_gap(name: str, data_folder: Path) -> None:
    model = load_gap(name)
    assert model.dictionary.shape == (100, 5)
    np.testing.assert_allclose(model.dictionary.sum(axis=0), 1.0)
    assert model.shape.tolist() == [1.0] * 5
    if name == "nips100":  # two topics are practically switched off; their p is documented to two digits
        assert [f"{p:.1e}" for p in 1 / (1 + model.rate[[1, 4]])] == ["3.2e-05", "2.1e-04"]


@pytest.mark.parametrize(("name", "load"), LOADERS)
def test_without_the_variable(name: str, load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTWISE_DATA", raising=False)
    with pytest.raises(InvalidInputError, match=r"PARTWISE_DATA is not set.*download it from the GitHub repository"):
        load(name)


@pytest.mark.parametrize(("name", "load"), LOADERS)
def test_without_the_file(name: str, load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARTWISE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"no \w+/{name}.*download it from the GitHub repository"):
        load(name)


@pytest.mark.parametrize(("name", "load"), LOADERS)
def test_unknown_name(name: str, load) -> None:
    with pytest.raises(InvalidInputError, match=f"no data set called 'x'; there are .*{name}"):
        load("x")


def test_folder_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARTWISE_DATA", str(tmp_path / "absent"))
    with pytest.raises(InvalidInputError, match="is not a folder"):
        datasets.data_folder()


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARTWISE_DATA", str(tmp_path))
    (tmp_path / "nbmf").mkdir()
    with gzip.open(tmp_path / "nbmf" / "animals.csv.gz", "wt") as file:
        file.write("row,a,b\nx,1,0\ny,0,1\n")
    with pytest.raises(FileFormatError, match=r"has shape \(2, 2\), and the published data have \(85, 50\)"):
        load_binary("animals")


def test_a_changed_count_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data_folder: Path) -> None:
    (tmp_path / "counts").mkdir()
    with np.load(data_folder / "counts" / "reuters395.npz") as archive:
        arrays = dict(archive)
    arrays["data"][0] += 1
    np.savez(tmp_path / "counts" / "reuters395.npz", **arrays)
    monkeypatch.setenv("PARTWISE_DATA", str(tmp_path))
    with pytest.raises(FileFormatError, match="has total 84011, and the published data have 84010"):
        load_counts("reuters395")


def test_gap_without_its_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data_folder: Path) -> None:
    (tmp_path / "gap").mkdir()
    with np.load(data_folder / "gap" / "twitter100.npz") as archive:
        arrays = {key: archive[key] for key in archive if key != "p"}
    np.savez(tmp_path / "gap" / "twitter100.npz", **arrays)
    monkeypatch.setenv("PARTWISE_DATA", str(tmp_path))
    with pytest.raises(FileFormatError, match="lacks the array 'p'"):
        load_gap("twitter100")
