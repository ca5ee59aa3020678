"""The reproduction of the binary paper: its parts work without data, and with data the short version runs."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf import concentration, links, references, run, synthetic
from partwise.reproduce.nbmf._data import Split, negative_log_likelihood, random_split, reference_split
from partwise.reproduce.nbmf._methods import (
    baselines,
    extra_gibbs_methods,
    gibbs_methods,
    lda_shares,
    variational_methods,
)
from partwise.reproduce.nbmf._protocol import FULL, QUICK
from partwise.reproduce.nbmf.prediction import draw
from partwise.reproduce.nbmf.report import Results, sections

needs_data = pytest.mark.skipif(not os.environ.get("PARTWISE_DATA"), reason="PARTWISE_DATA is not set")


def blocks(n_samples: int = 40, n_features: int = 24) -> np.ndarray:
    rng = np.random.default_rng(0)
    kind, block = rng.integers(2, size=n_samples), rng.integers(2, size=n_features)
    return (rng.random((n_samples, n_features)) < np.where(kind[:, None] == block, 0.9, 0.1)).astype(float)


def test_splits_hide_a_quarter_and_score_it() -> None:
    truth = blocks()
    truth[0, 0] = np.nan
    split = random_split(truth, 3)
    assert 0.2 < split.held_out.mean() < 0.3
    assert not split.held_out[0, 0]
    assert np.isnan(split.train[split.held_out]).all()
    np.testing.assert_array_equal(split.train[~split.held_out], truth[~split.held_out])
    assert np.isclose(split.perplexity(np.full(truth.shape, 0.5)), np.log(2))
    assert np.isclose(negative_log_likelihood(truth, np.full(truth.shape, 0.5)), (truth.size - 1) * np.log(2))
    np.testing.assert_array_equal(random_split(truth, 3).train, split.train)
    assert not np.array_equal(random_split(truth, 4).held_out, split.held_out)


# as many iterations as the protocol says, converged or not
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_methods_beside_a_constant() -> None:
    split = random_split(blocks(), 0)
    methods = [
        method
        for group in (gibbs_methods, extra_gibbs_methods, variational_methods, baselines)
        for method in group(QUICK)
    ]
    scores = {method.name: split.perplexity(method.predict(split.train, 0)) for method in methods}
    constant = scores.pop("constant")
    assert np.isclose(constant, np.log(2), atol=0.02)
    # maximum likelihood is too sure of cells that it has not seen, and η = 1 spreads samples over all parts
    assert {name for name, score in scores.items() if score > constant} == {"logPCA-2", "Dir-Dir GS, η = 1"}
    assert scores["Dir-Dir GS, η = 1/K"] < 0.6
    shares = lda_shares(2, split.train, 0)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_full_protocol_is_that_of_the_paper() -> None:
    assert FULL.burn_in + FULL.n_draws * FULL.thin == 5000
    assert (FULL.n_components, FULL.max_iter, FULL.n_splits, len(FULL.datasets)) == (100, 500, 10, 5)
    assert (min(FULL.concentrations), max(FULL.concentrations)) == (0.1, 10.0)


def test_figures_without_data(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path, quick=True)
    links.draw(notebook)
    synthetic.draw(notebook)
    lines = concentration.draw(notebook, QUICK)
    assert {path.stem for path in tmp_path.glob("*.png")} == {"figure1_links", "figure2_synthetic", "concentration"}
    assert all(0.3 < value < 0.75 for line in lines for value in line["perplexity"])
    scores = {"votes": {"Beta-Dir GS": [0.3, 0.4], "Beta-Dir VB": [0.2, 0.3], "constant": [0.6, 0.6]}}
    scores["votes"]["Dir-Dir GS, η = 1"] = [0.9, 0.8]
    draw(notebook, scores)
    results = Results(
        parliament=[{"method": "Beta-Dir GS", "paper": 4863, "ours": 4800.2, "active": 9}],
        dictionaries=[{"data": "paleo", "method": "Beta-Dir GS", "ours": 1.0, "active": 2}],
        references=[{"data": "animals", "method": "Beta-Dir GS", "reference": 0.53, "random": 0.51, "vb": 0.54}],
        dir_dir=[],
        concentration=lines,
        concentrations=QUICK.concentrations,
        scores=scores,
        seconds={"votes": 20.0},
    )
    text = "\n".join(sections(results).values())
    assert "| Beta-Dir GS | 4,863 | 4,800 | 9 |" in text
    assert "| animals | Beta-Dir GS | 0.530 | 0.5100 | 0.5400 | better |" in text
    assert "| Beta-Dir GS | 0.3500 |" in text
    assert "| all, two cores | 10 |" in text


@needs_data
def test_reference_splits_are_those_of_the_files() -> None:
    split = reference_split("animals", 1)
    assert split.train.shape == (50, 85)
    assert 0.2 < split.held_out.mean() < 0.3
    assert isinstance(split, Split)


@needs_data
@pytest.mark.slow
def test_short_version_runs_and_goes_on(tmp_path: Path) -> None:
    run(tmp_path, quick=True)
    pictures = {path.stem for path in tmp_path.glob("*.png")}
    assert {f"fig{number:02d}" for number in (1, 2, 5, 6, 7, 8, 9, 10, 11)} <= {name[:5] for name in pictures}
    before = (tmp_path / "results.json").read_bytes()
    assert json.loads(before)["quick"]
    run(tmp_path, quick=True)
    assert (tmp_path / "results.json").read_bytes() == before
    assert "## Parliament" in (tmp_path / "report.md").read_text(encoding="utf-8")


@needs_data
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_perplexities_are_those_of_the_authors_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(references.REFERENCES, "lastfm")
    lines = references.compare(Notebook(tmp_path, quick=False), replace(FULL, burn_in=1500, n_draws=50))
    assert len(lines) == 6
    for line in lines:
        assert line["random"] < line["reference"] + 0.01, line
        # two kinds of start agree on the predictions, if not on the labels
        assert abs(line.get("vb", line["random"]) - line["random"]) < 0.01, line
