"""``compare``, ``predict``, ``recommend`` and ``datasets``: numbers are those of Python, mistakes get one sentence."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import partwise as package
from partwise._registry import compared_names
from partwise.datasets import simulate_allocation
from partwise.selection import compare, model_names


def advised(text: str) -> list[str]:
    """Command lines that are told on standard error to go on with."""
    return [line.strip() for line in text.partition("Next:")[2].splitlines() if line.strip()]


QUICK = ["--models", "poisson,allocation", "--ranks", "2-5", "--restarts", "2"]


class TestCompare:
    def test_same_numbers_as_python(self, partwise, folder: Path) -> None:
        facts = partwise.json("compare", "counts.npz", *QUICK, "--seed", "3", "--threads", "2", "-o", "comparison")
        found = compare(
            package.read("counts.npz"), ["poisson", "allocation"], range(2, 6), n_restarts=2, random_state=3
        )
        assert facts["sentence"] == found.sentence
        assert facts["recommended"] == found.recommended._asdict()
        rows = {(row["model"], row["rank"]): row["score"] for row in facts["candidates"]}
        assert rows == {(row.model, row.rank): row.score for row in found.table()}
        lines = (folder / "comparison" / "fits.csv").read_text().splitlines()
        assert lines[0].startswith("model,rank,restart,score,")
        assert len(lines) == 1 + len(found.fits)

    def test_sentence_is_the_last_line_and_the_choice_is_written(self, partwise, folder: Path) -> None:
        words = ["compare", "counts.npz", *QUICK, "--table", "candidates.csv", "--save", "best.partwise"]
        out = partwise(*words).stdout.splitlines()
        assert out[-1] == "wrote best.partwise"
        sentence = next(line for line in out if line.startswith("Take "))
        model = package.load("best.partwise")
        assert f"with {model.n_components_} parts" in sentence
        with Path("candidates.csv").open(newline="") as file:
            assert [row["model"] for row in csv.DictReader(file)] == ["poisson"] * 4 + ["allocation"] * 4

    def test_lists_beside_popularity(self, partwise, folder: Path) -> None:
        words = ["--models", "poisson", "--ranks", "2,3", "--restarts", "2", "--metric", "ndcg@20"]
        out = partwise("compare", "counts.npz", *words, "--table", "all.csv", "--plot", "ranks.png").stdout
        assert "NDCG@20: of lists of held-out features, ± its standard error; higher is better" in out
        assert any(line.startswith("popularity") for line in out.splitlines())
        with Path("all.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        found = compare(package.read("counts.npz"), ["poisson"], [2, 3], n_restarts=2, metric="ndcg@20", random_state=0)
        assert [(row["model"], float(row["score"])) for row in rows] == [
            (row.model, row.score) for row in found.table()
        ]
        assert "such as ndcg@20" in partwise.fails("compare", "counts.npz", "--metric", "map@5")

    def test_nothing_is_called_stable_that_has_no_restarts(self, partwise, folder: Path) -> None:
        few = ["--models", "poisson", "--ranks", "2,3", "--seed", "4", "--restarts"]
        one, two = (partwise("compare", "counts.npz", *few, n).stdout for n in ("1", "2"))
        assert "No candidate has parts known to be stable." in one
        agreed = "Most parts that restarts agree on: poisson with" in two
        assert agreed != ("No candidate has parts known to be stable." in two)

    def test_overruled(self, partwise, folder: Path) -> None:
        out = partwise("compare", "counts.npz", *QUICK, "--model", "poisson", "--rank", "2", "--save", "own.partwise")
        assert "You took poisson with 2 parts instead of" in out.stdout
        model = package.load("own.partwise")
        assert (type(model).__name__, model.n_components_) == ("PoissonNMF", 2)

    def test_advised_commands_run_and_the_fit_is_what_save_writes(self, partwise, folder: Path) -> None:
        few = ["--models", "allocation", "--ranks", "2,3", "--restarts", "1", "--seed", "4"]
        saved = partwise("compare", "catalogue.tsv", "--transpose", *few, "--save", "best.partwise")
        told = partwise("compare", "catalogue.tsv", "--transpose", *few)
        further, fit = advised(told.stderr)
        assert further == "partwise compare catalogue.tsv --transpose --models allocation --ranks 3,4,5,6,7,8 --seed 4"
        assert "3 is the most parts that allocation was tried with" in told.stdout
        partwise(*shlex.split(fit)[1:])
        mine, expected = package.load("catalogue.partwise"), package.load("best.partwise")
        np.testing.assert_array_equal(mine.components_, expected.components_)
        assert mine.get_params() == expected.get_params()
        assert advised(saved.stderr)[-1] == "partwise report best.partwise catalogue.tsv --transpose -o best.html"
        partwise(*shlex.split(advised(saved.stderr)[-1])[1:])

    def test_models_of_bits_are_fitted_by_the_names_that_are_recommended(self, partwise, folder: Path) -> None:
        words = ["compare", "votes.csv", "--models", "dir-dir", "--ranks", "2,3", "--restarts", "1", "--rank", "2"]
        fit = advised(partwise(*words, "--save", "best.partwise", "--no-progress").stderr)
        assert fit == ["partwise report best.partwise votes.csv -o best.html"]
        (fit,) = [line for line in advised(partwise(*words).stderr) if " fit " in line]
        partwise(*shlex.split(fit)[1:])
        mine, expected = package.load("votes.partwise"), package.load("best.partwise")
        assert mine.model == "dir-dir"
        np.testing.assert_array_equal(mine.components_, expected.components_)
        assert "set this way" in partwise.misused(*shlex.split(fit)[1:], "--set", "model=beta-dir")

    def test_names_that_are_completed_are_those_of_the_candidates(self) -> None:
        assert set(compared_names()) == {*model_names("counts"), *model_names("bits")}

    def test_picture(self, partwise, folder: Path) -> None:
        few = ["--models", "poisson", "--ranks", "2,3", "--restarts", "1"]
        partwise("compare", "counts.npz", *few, "--plot", "ranks.svg")
        assert Path("ranks.svg").read_text().startswith("<?xml")
        assert "does not end in .png" in partwise.misused("compare", "counts.npz", *few, "--plot", "ranks.doc")

    @pytest.mark.parametrize("ranks", ["0-3", "a", "2-", "", "3,-1"])
    def test_ranks_that_are_none(self, partwise, folder: Path, ranks: str) -> None:
        assert "--ranks" in partwise.misused("compare", "counts.npz", "--ranks", ranks)

    def test_unknown_model(self, partwise, folder: Path) -> None:
        assert "no model of counts called 'lsa'" in partwise.fails("compare", "counts.npz", "--models", "lsa")

    def test_lda_is_allocation(self, partwise, folder: Path) -> None:
        few = ["--models", "lda", "--ranks", "2", "--restarts", "1", "--seed", "1"]
        found = partwise.json("compare", "counts.npz", *few)
        assert "allocation" in json.dumps(found)

    def test_folder_of_another_comparison(self, partwise, folder: Path) -> None:
        few = ["--models", "poisson", "--ranks", "2", "--restarts", "1", "-o", "comparison"]
        partwise("compare", "counts.npz", *few)
        assert "differs in its data" in partwise.fails("compare", "new_counts.npz", *few)

    def test_interrupted(self, partwise, folder: Path, monkeypatch) -> None:
        def interrupted(*arguments, **options) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("partwise.selection.compare", interrupted)
        told = partwise.fails("compare", "counts.npz", "-o", "comparison")
        assert told == "partwise: interrupted: the same command continues from comparison."

    def test_a_budget_is_repeated_by_its_fits(self, partwise, folder: Path) -> None:
        words = ["compare", "counts.npz", "--models", "poisson,negative-binomial", "--rule", "best"]
        result = partwise(*words, "--fits", "3")
        assert "The same command with --fits 3 repeats this result; without a limit it starts from" in result.stderr
        assert "This is the best answer after 3 fits: the budget was used up" in result.stdout
        assert "Best prediction: " in result.stdout
        facts = partwise.json(*words, "--fits", "3", "--time-budget", "10m")
        assert (facts["n_fits"], facts["stopped"], facts["rule"]) == (3, "budget", "best")
        assert facts["answers"]["best"] == facts["recommended"]
        assert partwise.json(*words, "--time-budget", "0.001s", "-o", "kept")["n_fits"] == 1
        for wrong in ("5 minutes", "0s", "-1m"):
            assert "--time-budget" in partwise.misused(*words, f"--time-budget={wrong}")

    def test_progress_goes_to_standard_error(self, partwise, folder: Path) -> None:
        result = partwise("compare", "counts.npz", "--models", "poisson", "--ranks", "2", "--progress", "--json")
        assert "poisson, 2 parts, restart 0" in result.stderr
        json.loads(result.stdout)


class TestPredict:
    def test_missing_cells_of_bits(self, partwise, folder: Path) -> None:
        quick = ["--set", "n_draws=20", "--set", "burn_in=20"]
        partwise("fit", "votes.csv", "--model", "binary", "-o", "votes.partwise", "-k", "3", *quick)
        facts = partwise.json("predict", "votes.partwise", "votes.csv")
        table = package.read("votes.csv")
        rows, columns = np.nonzero(np.isnan(table.matrix))
        assert facts["n_cells"] == rows.size > 20
        expected = package.load("votes.partwise").predict_proba(table)[rows, columns]
        np.testing.assert_array_equal(facts["expected"], expected)
        assert facts["sample"][0] == table.row_labels[rows[0]]
        assert facts["feature"][0] == table.column_labels[columns[0]]

    def test_top_features_are_those_that_a_row_has_not(self, partwise, folder: Path, counts) -> None:
        partwise("fit", "counts.npz", "-o", "topics.partwise", "-k", "4")
        facts = partwise.json("recommend", "topics.partwise", "counts.npz", "--top", "3", "--row", "7")
        model = package.load("topics.partwise")
        expected = model.inverse_transform(model.transform(counts[7:8]))[0]
        unseen = [f for f in np.argsort(-expected, kind="stable") if counts[7, f] == 0][:3]
        assert facts["feature"] == [f"feature {f}" for f in unseen]
        np.testing.assert_allclose(facts["value"], expected[unseen], rtol=1e-12)
        lines = partwise("recommend", "topics.partwise", "counts.npz", "--top", "3", "--row", "7").stdout.splitlines()
        assert [line.split("\t") for line in lines] == [
            ["7", str(place + 1), f"feature {f}", f"{expected[f]:.6g}"] for place, f in enumerate(unseen)
        ]
        everything = partwise.json("recommend", "topics.partwise", "counts.npz", "--top", "1", "--row", "7", "--seen")
        assert everything["feature"] == [f"feature {np.argmax(expected)}"]

    def test_table(self, partwise, folder: Path) -> None:
        partwise("fit", "counts.npz", "-o", "topics.partwise", "-k", "4")
        partwise("recommend", "topics.partwise", "new_counts.npz", "--top", "2", "-o", "likely.csv")
        with Path("likely.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 40
        assert set(rows[0]) == {"sample", "place", "feature", "value"}

    def test_refused(self, partwise, folder: Path) -> None:
        partwise("fit", "counts.npz", "-o", "topics.partwise", "-k", "4")
        assert "no cell is missing" in partwise.fails("predict", "topics.partwise", "counts.npz")
        assert "no row 'x'" in partwise.fails("recommend", "topics.partwise", "counts.npz", "--row", "x")


class TestDatasets:
    def test_list(self, partwise) -> None:
        assert "reuters395" in partwise("datasets").stdout
        assert "digits" in partwise.json("datasets")["available"]

    def test_same_numbers_as_python(self, partwise, folder: Path) -> None:
        words = ["--samples", "20", "--features", "9", "-k", "3", "--seed", "5", "--set", "mean_total=40"]
        partwise("datasets", "simulated-allocation", "-o", "x.npz", *words)
        expected = simulate_allocation(20, 9, 3, mean_total=40, random_state=5).table.matrix.toarray()
        np.testing.assert_array_equal(package.read("x.npz").matrix.toarray(), expected)

    def test_refused(self, partwise, folder: Path) -> None:
        assert "no data set 'enron'" in partwise.misused("datasets", "enron", "-o", "x.npz")
        assert "say where" in partwise.misused("datasets", "digits")
        assert "not simulated" in partwise.misused("datasets", "digits", "-o", "x.npz", "--samples", "3")
        assert "no parameter 'colour'" in partwise.misused(
            "datasets", "simulated-binary", "-o", "x.npz", "--set", "colour=1"
        )

    def test_published_data_say_where_to_get_them(self, partwise, folder: Path, monkeypatch) -> None:
        monkeypatch.delenv("PARTWISE_DATA", raising=False)
        assert "PARTWISE_DATA is not set" in partwise.fails("datasets", "reuters395", "-o", "x.npz")


def test_references_in_the_report_and_counts_in_the_picture(partwise, folder: Path) -> None:
    words = ["catalogue.tsv", "--transpose"]
    partwise("fit", *words, "-o", "refit.partwise", "--components-file", "signatures.tsv")
    partwise("report", "refit.partwise", "-o", "report.html", "--reference", "signatures.tsv")
    assert "<td>SBS1</td><td>1.00</td>" in Path("report.html").read_text()
    partwise("plot", "refit.partwise", *words, "-o", "counts.png", "--kind", "structure", "--counts")
    assert Path("counts.png").stat().st_size > 5000
    bad = partwise.misused("plot", "refit.partwise", "-o", "x.png", "--reference", "signatures.tsv")
    assert "it is for signatures, not for dictionary" in bad
