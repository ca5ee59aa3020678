"""`partwise info`, `convert`, `demo` and `reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from partwise import read, reproduce
from partwise.cli.output import Outcome
from partwise.io import write_table


def test_info_of_data(partwise, folder, counts) -> None:
    content = partwise.json("info", "catalogue.tsv", "--transpose")
    assert content["kind"] == "data"
    assert (content["n_samples"], content["n_features"]) == counts.shape
    assert content["n_nonzeros"] == np.count_nonzero(counts)
    assert content["total"] == counts.sum()
    assert content["largest"] == counts.max()
    assert content["whole_numbers"]
    assert not content["zeros_and_ones"]
    assert content["n_empty_samples"] == np.sum(counts.sum(axis=1) == 0)
    assert content["has_sample_names"]
    assert content["faults"] == []
    text = partwise("info", "catalogue.tsv", "--transpose").stdout
    assert text.startswith("catalogue.tsv: 60 samples x 30 features\n")
    assert "values: whole numbers" in text
    assert "names: samples and features" in text
    assert "known about" not in text


def test_info_names_what_is_known_about_samples(partwise, folder: Path) -> None:
    Path("posts.csv").write_text("year,body\n1999,goal team\n2000,team goal\n")
    partwise("count", "posts.csv", "-o", "posts.npz", "--text-column", "body", "--time-column", "year", "--keep-texts")
    assert partwise.json("info", "posts.npz")["metadata"] == ["time", "text"]
    assert "known about each sample: time, text\n" in partwise("info", "posts.npz").stdout


def test_info_of_data_with_faults(partwise, folder) -> None:
    write_table("bits.csv", np.array([[0, 1], [np.nan, 1], [0, 0]]))
    content = partwise.json("info", "bits.csv")
    assert content["zeros_and_ones"]
    assert (content["n_missing"], content["n_empty_samples"], content["n_empty_features"]) == (1, 1, 1)
    write_table("negative.csv", np.array([[1.5, -2], [3, 4]]), ["x", "y"], ["a", "b"])
    content = partwise.json("info", "negative.csv")
    assert not content["whole_numbers"]
    (fault,) = content["faults"]
    assert "row 'x', column 'b'" in fault
    assert f"fault: {fault}" in partwise("info", "negative.csv").stdout
    write_table("zeros.csv", np.zeros((2, 2)))
    assert len(partwise.json("info", "zeros.csv")["faults"]) == 1


def test_info_of_model(partwise, folder) -> None:
    partwise("fit", "catalogue.tsv", "--transpose", "-o", "m.partwise", "-k", 3)
    content = partwise.json("info", "m.partwise", "--top", 2)
    assert content["kind"] == "model"
    assert content["parameters"]["n_components"] == 3
    assert [len(part) for part in content["top_features"]] == [2, 2, 2]
    assert content["top_features"][0][0]["share"] >= content["top_features"][0][1]["share"] > 0
    text = partwise("info", "m.partwise", "--top", 2).stdout
    first = [entry["feature"] for entry in content["top_features"][0]]
    assert text.splitlines()[-3] == f"part 0  {', '.join(first)}"
    assert "PoissonNMF with 3 parts of 30 features (with names)" in text


def test_info_of_many_parts_is_short(partwise, folder) -> None:
    write_table("counts40.csv", np.arange(90).reshape(2, 45))
    partwise("fit", "counts40.csv", "-o", "m.partwise", "-k", 40, "--max-iter", 1)
    assert partwise("info", "m.partwise").stdout.splitlines()[-1] == "… and 10 more"


def test_info_of_checkpoint(partwise, folder) -> None:
    partwise("fit", "counts.npz", "-o", "m.partwise", "-k", 3, "--seed", 5, "--checkpoint", "c", "--max-iter", 4)
    content = partwise.json("info", "c")
    assert content["kind"] == "checkpoint"
    assert (content["n_iter"], content["seed"]) == (4, 5)
    assert partwise("info", "c").stdout.startswith("c: checkpoint of CoordinateDescent after 4 iterations\n")


@pytest.mark.parametrize("name", ["x.npz", "x.mtx.gz", "x.csv", "x.tsv.gz"])
def test_convert_keeps_values_and_names(name, partwise, folder, counts) -> None:
    content = partwise.json("convert", "catalogue.tsv", name, "--transpose")
    assert content["written"][-1] == name
    table = read(name)
    matrix = table.matrix if isinstance(table.matrix, np.ndarray) else table.matrix.toarray()
    np.testing.assert_array_equal(matrix, counts)
    assert table.row_labels[0] == "sample0"
    assert table.column_labels[0] == "feature0"


def test_convert_to_long(partwise, folder, counts) -> None:
    partwise("convert", "catalogue.tsv", "x.csv", "--transpose", "--write-format", "long")
    np.testing.assert_array_equal(read("x.csv", format="long").matrix.toarray(), counts)


def test_demo_is_the_same_each_time(partwise, folder) -> None:
    first = partwise("demo", "-o", "a").stdout
    second = partwise("demo", "-o", "b", "--threads", 2).stdout
    assert first.replace("a/demo.png", "b/demo.png") == second
    assert Path("a/demo.png").read_bytes() == Path("b/demo.png").read_bytes()
    assert Path("a/demo.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in Path("a").iterdir()] == ["demo.png"]
    assert "thread" in first
    assert "handwritten digits: 1797 samples x 64 features" in first


def test_demo_without_matplotlib_says_so(partwise, folder, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = partwise("demo")
    assert "there is no picture: matplotlib is not installed" in result.stderr
    assert list(Path("out").iterdir()) == []


def test_reproduce_lists_and_runs_modules(partwise, folder, monkeypatch) -> None:
    modules = folder / "modules"
    modules.mkdir()
    (modules / "toy.py").write_text(
        '"""Redo the toy figure.\n\nMore."""\n\n'
        "def write(notebook):\n"
        "    (notebook.folder / 'result.txt').write_text(f'quick={notebook.quick}')\n\n"
        "EXPERIMENTS = (write,)\n"
    )
    (modules / "_helper.py").write_text("raise SystemError('helpers are not for listing')\n")
    monkeypatch.setattr(reproduce, "__path__", [])
    assert partwise.json("reproduce")["available"] == {}
    monkeypatch.setattr(reproduce, "__path__", [str(modules)])
    assert partwise("reproduce").stdout == "toy  Redo the toy figure.\n"
    assert partwise("reproduce", "toy", "-o", "results").stdout == "wrote results/toy\n"
    assert Path("results/toy/result.txt").read_text() == "quick=True"
    partwise("reproduce", "toy", "-o", "results", "--full")
    assert Path("results/toy/result.txt").read_text() == "quick=False"
    assert "'paper' is not one of the papers: toy." in partwise.misused("reproduce", "paper")


def test_tables_are_aligned_in_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome({}, [("part", "best"), ("part 10", "signature0")], [Path("matches.csv")])
    outcome.show("match", as_json=False)
    assert capsys.readouterr().out == "part\tbest\npart 10\tsignature0\nwrote matches.csv\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    outcome.show("match", as_json=False)
    assert capsys.readouterr().out == "part     best\npart 10  signature0\nwrote matches.csv\n"
