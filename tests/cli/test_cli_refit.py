"""``fit --presence``, ``match`` and hints about tables that are turned around: what Python gives, in files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import partwise as package
from partwise.io import write_table
from partwise.plotting import signature_channels

REFIT = ["fit", "catalogue.tsv", "--transpose", "-o", "m.partwise", "--components-file", "signatures.tsv"]


def test_presence(partwise, folder: Path) -> None:
    words = ["--presence", "--intervals", "i.csv", "--activations", "a.csv", "--always", "SBS1", "--forbid", "SBS4"]
    shown = partwise(*REFIT, *words)
    assert "parts per sample, median cosine" in shown.stdout
    assert "SBS1  present in" in shown.stdout
    model = package.load("m.partwise")
    table = package.read("catalogue.tsv", transpose=True)
    found = model.presence(table)
    assert np.all(found.probability[:, 3] == 0)
    np.testing.assert_array_equal(package.read("a.csv").matrix, found.mean)
    with Path("i.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == np.sum(found.probability >= 0.05)
    assert set(rows[0]) == {"sample", "part", "presence", "activation", "lower", "upper"}
    transform = ["transform", "m.partwise", "catalogue.tsv", "--transpose", "-o", "again.csv"]
    partwise(*transform, "--intervals", "j.csv", "--allocations", "p.csv")
    assert Path("i.csv").read_text() == Path("j.csv").read_text()
    assert Path("p.csv").read_text().startswith("sample,feature,count,SBS1,SBS2")


def test_presence_is_for_given_parts(partwise, folder: Path) -> None:
    told = partwise.misused("fit", "counts.npz", "-o", "m", "--presence")
    assert "--presence: it needs --components-file" in told
    assert "--always: it needs --presence" in partwise.misused(*REFIT, "--always", "SBS1")
    assert "--intervals: it needs --presence" in partwise.misused(*REFIT, "--intervals", "i.csv")
    assert "there is no part 'SBS9' (forbidden)" in partwise.fails(*REFIT, "--presence", "--forbid", "SBS9")


def test_match(partwise, folder: Path) -> None:
    partwise(*REFIT)
    facts = partwise.json("match", "m.partwise", "signatures.tsv")
    assert facts["best"] == facts["part"] == ["SBS1", "SBS2", "SBS3", "SBS4"]
    lines = partwise("match", "m.partwise", "m.partwise").stdout.splitlines()
    assert lines[1].split("\t")[:3] == ["SBS1", "SBS1", "1.000"]
    partwise("match", "m.partwise", "signatures.tsv", "-o", "matches.csv", "--most", "1")
    assert Path("matches.csv").read_text().startswith("part,best,cosine,runner_up,runner_up_cosine,mixture,")


def test_hint_to_transpose(partwise, folder: Path) -> None:
    write_table("types.tsv", np.ones((96, 3)), signature_channels(), ["s1", "s2", "s3"])
    hint = "the rows of types.tsv look like mutation types: if they are the features, use --transpose"
    assert hint in partwise("info", "types.tsv").stderr
    assert hint not in partwise("info", "types.tsv", "--transpose").stderr


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fixed_parts_from_a_file(partwise, folder: Path) -> None:
    table = package.read("catalogue.tsv", transpose=True)
    known = package.PoissonNMF(2, random_state=0).fit(table).components_[:1]
    frame = pd.DataFrame(known, columns=table.column_labels, index=["=known"])
    write_table("known.csv", known.T, table.column_labels, ["=known"], corner="feature")
    fit = ["fit", "catalogue.tsv", "--transpose", "-o", "m.partwise", "--model", "lda", "-k", 3, "--seed", 1]
    fit += ["--inference", "gibbs-partial", "--set", "n_draws=5", "--set", "burn_in=5", "--set"]
    partwise(*fit, "fixed_parts=known.csv")
    given = package.load("m.partwise")
    settings = {"inference": "gibbs-partial", "n_draws": 5, "burn_in": 5, "random_state": 1}
    model = package.AllocationNMF(3, fixed_parts=frame, **settings).fit(table)
    np.testing.assert_array_equal(given.components_, model.components_)
    assert given.part_labels() == model.part_labels() == ["=known", "part 1", "part 2"]
    assert "no_such.csv" in partwise.fails(*fit, "fixed_parts=no_such.csv")
