"""Whatever goes wrong: one sentence, the right exit code, and no half-written files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partwise import load, on_disk, read
from partwise.cli.output import in_options, printable
from partwise.io import write_table

FIT = ["fit", "counts.npz", "-o", "m.partwise"]


@pytest.fixture
def bad_files(folder: Path) -> Path:
    """Files with faults, and a model of the good ones."""
    write_table("negative.csv", np.array([[1, -2], [3, 4]]), ["x", "y"], ["a", "b"])
    write_table("zeros.csv", np.zeros((3, 2)))
    Path("junk.npz").write_bytes(b"junk")
    Path("junk.partwise").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{not json at all")
    Path("cut.partwise").write_bytes(b"\x10\x00")
    Path("folder").mkdir()
    on_disk(np.eye(2), "old.rows")
    return folder


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "absent.npz", "-o", "m"], "there is no file absent.npz"),
        (["fit", "negative.csv", "-o", "m"], "negative.csv[0, 1] (row 'x', column 'b') = -2"),
        (["fit", "zeros.csv", "-o", "m"], "zeros.csv"),
        (["fit", "junk.npz", "-o", "m"], "cannot read junk.npz"),
        (["fit", "counts.npz", "-o", "absent/m"], "there is no directory"),
        (["fit", "counts.npz", "-o", "folder"], "it is a directory"),
        ([*FIT, "-k", "99999999"], "is more than the number of cells of X"),
        (["fit", "cut.partwise", "-o", "m"], "cut.partwise has the name of a model"),
        (["info", "cut.partwise"], "cut.partwise has the name of a model"),
        (["compare", "counts.npz", "-o", "negative.csv"], "negative.csv is a file, and a comparison needs a folder"),
        ([*FIT, "--layer", "raw"], "--layer does not apply"),
        ([*FIT, "--memory-limit", "1k"], "counts.npz"),
        ([*FIT, "--components-file", "absent.csv"], "there is no file absent.csv"),
        ([*FIT, "--components-file", "junk.partwise"], "junk.partwise"),
        ([*FIT, "--components-file", "negative.csv"], "parts of 2 features, but the data have 30"),
        (["fit", "negative.csv", "-o", "m", "--components-file", "signatures.tsv"], "Negative values in data"),
        (["transform", "absent", "counts.npz", "-o", "a.csv"], "absent"),
        (["transform", "junk.partwise", "counts.npz", "-o", "a.csv"], "junk.partwise"),
        (["transform", "counts.npz", "counts.npz", "-o", "a.csv"], "counts.npz"),
        (["info", "absent"], "there is no file absent"),
        (["info", "junk.partwise"], "junk.partwise"),
        (["info", "folder"], "folder"),
        (["convert", "absent.npz", "x.mtx"], "there is no file absent.npz"),
        (["convert", "counts.npz", "absent/x.mtx"], "there is no directory"),
        (["fit", "counts.npz", "-o", "m" * 300], "the name is too long; give a shorter one"),
        (["convert", "old.rows", "new.rows"], "old.rows holds rows that were read and written before"),
        (["convert", "old.rows", "new.rows", "--transpose"], "old.rows holds rows that were read and written before"),
        (["demo", "-o", "junk.npz"], "junk.npz"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else "",
)
def test_failure_is_one_sentence(words, sentence, partwise, bad_files) -> None:
    before = sorted(Path().rglob("*"))
    assert sentence in partwise.fails(*words)
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "counts.npz"], "Missing option '--output'"),
        (["fit", "counts.npz", "-o", "counts.npz"], "--output: counts.npz is also the input counts.npz"),
        ([*FIT, "--parts", "./m.partwise"], "--parts"),
        ([*FIT, "--parts", "p.csv", "--activations", "p.csv"], "is also the file of --activations"),
        ([*FIT, "--model", "gauss"], "--model: 'gauss' is not one of "),
        ([*FIT, "--set", "gamma=1"], "PoissonNMF has no parameter 'gamma'"),
        ([*FIT, "--set", "callbacks=1"], "no parameter 'callbacks'"),
        ([*FIT, "--set", "n_components=3"], "no parameter 'n_components'"),
        ([*FIT, "--set", "active_threshold"], "is not of the form NAME=VALUE"),
        ([*FIT, "--set", "active_threshold=7"], "'active_threshold' parameter of PoissonNMF must be"),
        ([*FIT, "--preset", "paper"], "PoissonNMF has no preset 'paper': it has none."),
        ([*FIT, "--inference", "magic"], "'inference' parameter of PoissonNMF must be"),
        ([*FIT, "--init", "zeros"], "'init' parameter of PoissonNMF must be"),
        ([*FIT, "-k", "0"], "--components"),
        ([*FIT, "--seed", "-1"], "--seed"),
        ([*FIT, "--threads", "0"], "--threads"),
        ([*FIT, "--format", "word"], "'word' is not one of npz"),
        ([*FIT, "--activations", "a.xls"], "--activations: cannot tell from the name a.xls"),
        ([*FIT, "--components-file", "signatures.tsv", "-k", "3"], "--components: with --components-file"),
        ([*FIT, "--model", "lda", "--max-iter", "3"], "--max-iter: a sampler does burn_in + n_draws * thin sweeps"),
        ([*FIT, "--components-file", "signatures.tsv", "--max-iter", "3"], "--max-iter: with --components-file"),
        (["transform", "m", "counts.npz", "-o", "a.xls"], "--output: cannot tell from the name a.xls"),
        (["transform", "m", "counts.npz", "-o", "counts.npz"], "--output"),
        (["convert", "counts.npz", "counts.xls"], "pass --write-format"),
        (["convert", "counts.npz", "counts.npz"], "OUTPUT: counts.npz is also the input counts.npz"),
        (["info", "counts.npz", "--duplicates", "drop"], "--duplicates"),
        (["convert", "counts.npz", "o.rows", "--write-format", "csv"], "--write-format: o.rows becomes a folder"),
        (["plot", "m", "-o", "p.png", "--kind", "trace", "--groups", "g.csv"], "--groups: it is for dictionary and"),
        (["plot", "m", "-o", "p.png", "--image-shape", "2x3"], "--image-shape: it is for images and reconstruction"),
        (["plot", "m", "-o", "p.png", "--no-header"], "--no-header: it says how to read DATA"),
        (["report", "m", "-o", "r.html", "--transpose"], "--transpose: it says how to read DATA"),
        (["info", "junk.partwise", "--transpose"], "--transpose: junk.partwise holds a model or a checkpoint"),
        (["datasets", "-o", "x.npz"], "NAME: say which data set to write"),
        (["compare", "counts.npz", "--ranks", "1,8-2"], "--ranks: the range 8-2 goes down"),
        (["compare", "counts.npz", "--ranks", "1-999999999999"], "--ranks: the range 1-999999999999 has more than"),
        (["reproduce", "nothing"], "'nothing' is not one of the papers: "),
        (["bogus"], "No such command 'bogus'"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_wrong_usage(words, sentence, partwise, bad_files) -> None:
    assert sentence in partwise.misused(*words)


def test_failed_fit_leaves_the_old_model(partwise, bad_files) -> None:
    partwise("fit", "counts.npz", "-o", "m.partwise", "-k", 2)
    before = Path("m.partwise").read_bytes()
    partwise.fails("fit", "negative.csv", "-o", "m.partwise")
    assert Path("m.partwise").read_bytes() == before


def test_features_of_given_parts_are_matched_by_name(partwise, folder) -> None:
    write_table("wide.csv", np.ones((2, 2)), ["x", "y"], ["a", "b"])
    write_table("parts.csv", np.ones((3, 1)), ["b", "c", "a"], ["p"])
    refit = partwise("fit", "wide.csv", "-o", "m", "--components-file", "parts.csv", "--activations", "a.csv")
    assert refit.stderr.count("X has 2 of the 3 features of the model; the other 1 count as missing.") == 1
    write_table("foreign.csv", np.ones((2, 1)), ["v", "w"], ["p"])
    assert "X has 0 of the 2 features" in partwise.fails(
        "fit", "wide.csv", "-o", "m", "--components-file", "foreign.csv"
    )
    write_table("parts.csv", np.ones((3, 1)), ["b", "a", "a"], ["p"])
    assert "'a' twice" in partwise.fails("fit", "wide.csv", "-o", "m", "--components-file", "parts.csv")


@pytest.mark.parametrize("how", ["option", "variable"])
def test_debug_shows_the_error_itself(how, partwise, folder, monkeypatch) -> None:
    if how == "variable":
        monkeypatch.setenv("PARTWISE_DEBUG", "1")
    result = partwise("info", "absent", *(["--debug"] if how == "option" else []), code=1)
    assert isinstance(result.exception, FileNotFoundError)


def test_fault_of_ours_is_said_to_be_one(partwise, folder, monkeypatch) -> None:
    def broken(*unused: object, **also: object) -> None:
        raise TypeError("two lines\nof nonsense")

    monkeypatch.setattr("partwise.cli.describe.data_facts", broken)
    result = partwise("info", "counts.npz", code=1)
    last = result.stderr.splitlines()[-1]
    assert last == "partwise: TypeError: two lines of nonsense (unexpected: run again with --debug and report it)"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (KeyboardInterrupt(), "interrupted; no file was left half-written"),
        (MemoryError(), "there is not enough memory"),
    ],
)
def test_other_ends(error, sentence, partwise, folder, monkeypatch) -> None:
    def ending(*unused: object, **also: object) -> None:
        raise error

    monkeypatch.setattr("partwise.io.reading.read", ending)
    assert sentence in partwise.fails("info", "counts.npz")


def test_labels_cannot_steer_the_terminal(partwise, folder) -> None:
    hostile = "\x1b]0;title\x07"
    write_table("hostile.csv", np.array([[3, 1], [0, 2]]), ["x", "y"], [hostile, "b"])
    shown = partwise("fit", "hostile.csv", "-o", "m.partwise", "-k", 1).stdout
    shown += partwise("info", "m.partwise").stdout
    assert "\x1b" not in shown
    assert shown.count(r"\x1b]0;title\x07") == 2
    assert partwise.json("info", "m.partwise")["top_features"][0][0]["feature"] == hostile


def test_printable_keeps_letters() -> None:
    assert printable("Łódź 北京 – µ") == "Łódź 北京 – µ"
    assert printable("a\nb\u202e") == "a\\nb\\u202e"


def test_messages_speak_of_options() -> None:
    options = {"transpose": "--transpose", "format": "--format", "memory_limit": "--memory-limit"}
    assert in_options("say transpose=True, format= or memory_limit='8 GB'.", options) == (
        "say --transpose, --format or --memory-limit '8 GB'."
    )
    marks = {"delimiter": "--delimiter", "label_columns": "--label-columns"}
    assert in_options("pass delimiter=';' or label_columns=2.", marks) == "pass --delimiter ';' or --label-columns 2."
    assert in_options("layer=None and informat=3 stay", options) == "layer=None and informat=3 stay"
    assert in_options("pass index=False.", {"index": "--index"}) == "pass --no-index."
    sentence = "pass missing='impute' with inference='gibbs'."
    assert in_options(sentence, {"inference": "--inference"}) == "pass missing='impute' with --inference gibbs."
    assert in_options(sentence, {"inference": "--inference", "settings": "--set"}) == (
        "pass --set missing=impute with --inference gibbs."
    )


def test_warnings_speak_of_options(partwise, folder) -> None:
    Path("bare.csv").write_text("a,b,c\n1,0,1\n1,1,0\n")
    assert "if these are data, pass --no-index." in partwise("fit", "bare.csv", "-o", "m.partwise", "-k", 1).stderr


def test_missing_cells_name_the_option_that_imputes_them(partwise, folder) -> None:
    sentence = partwise.fails("fit", "votes.csv", "-o", "m.partwise", "--model", "allocation", "-k", 2)
    assert "AllocationNMF.fit does not support: pass --set missing=impute with --inference gibbs or" in sentence
    settings = ["--set", "missing=impute", "--set", "n_draws=2", "--set", "burn_in=1", "--activations", "a.csv"]
    partwise("fit", "votes.csv", "-o", "m.partwise", "--model", "allocation", "-k", 2, *settings)
    assert read("a.csv").shape == (40, 2)


def test_rows_that_cannot_be_predicted_are_named_by_their_place(partwise, folder) -> None:
    counts = np.eye(6) + 1
    np.save("whole.npy", counts)
    partwise("fit", "whole.npy", "-o", "m.partwise", "--model", "allocation", "-k", 1)
    counts[4, 2] = 0.5
    np.save("half.npy", counts)
    for rows in ([], ["--row", "1", "--row", "4"]):
        sentence = partwise.fails("recommend", "m.partwise", "half.npy", "--top", 1, *rows)
        assert "half.npy[4, 2] = 0.5 is not a whole number" in sentence


def test_score_of_a_model_of_bits(partwise, folder) -> None:
    write_table("bits.csv", np.eye(4), list("abcd"), list("wxyz"))
    partwise("fit", "bits.csv", "-o", "bits.partwise", "--model", "logistic-pca", "-k", 1, "--max-iter", 2)
    words = ["score", "bits.partwise", "bits.csv"]
    assert "--output: LogisticPCA has one score" in partwise.misused(*words, "-o", "rows.csv")
    assert partwise.json(*words)["log_likelihood_per_cell"] == load("bits.partwise").score(read("bits.csv"))
