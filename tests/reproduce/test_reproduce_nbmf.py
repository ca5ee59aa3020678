"""The reproduction of the binary paper: its parts work without data, and with data the short version runs."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb, factorial, prod
from pathlib import Path

import numpy as np
import pytest

from partwise.reproduce import find
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf import concentration, definitions, dictionaries, prediction, references
from partwise.reproduce.nbmf._data import Split, bits, negative_log_likelihood, random_split, reference_split
from partwise.reproduce.nbmf._methods import (
    FULL,
    QUICK,
    RunLengths,
    baselines,
    beta_dir_gs,
    bica,
    dir_dir_gs,
    extra_gibbs_methods,
    gibbs_methods,
    lda_shares,
    variational_methods,
)

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
    scores = {
        name: split.perplexity(predict(split.train, 0))
        for group in (gibbs_methods, extra_gibbs_methods, variational_methods, baselines)
        for name, predict in group(QUICK).items()
    }
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
    definitions.draw_links(notebook)
    definitions.draw_synthetic(notebook)
    concentration.make(notebook)
    assert {path.stem for path in tmp_path.glob("*.png")} == {"figure1_links", "figure2_synthetic", "concentration"}
    runs = [step["result"] for step in json.loads((tmp_path / "results.json").read_text())["steps"].values()]
    assert all(0.3 < value < 0.75 for run in runs for value in run)
    scores = {"votes": {"Beta-Dir GS": [0.3, 0.4], "Beta-Dir VB": [0.2, 0.3], "constant": [0.6, 0.6]}}
    scores["votes"]["Dir-Dir GS, η = 1"] = [0.9, 0.8]
    notebook.figure("figure10_prediction", prediction.picture(scores))
    prediction.write_scores(notebook, scores)
    prediction.write_seconds(notebook, {"votes": 20.0})
    fit = dictionaries.DictionaryFit(dictionary=np.ones((1, 1)), n_active=9, nll=4800.2, probabilities=np.ones((1, 1)))
    dictionaries.write_parliament(notebook, {"Beta-Dir GS": fit})
    line = {"data": "animals", "method": "Beta-Dir GS", "reference": 0.53, "random": 0.51, "vb": 0.54}
    references.write(notebook, [line])
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| Beta-Dir GS | 4,863 | 4,800 | 9 |" in text
    assert "| animals | Beta-Dir GS | 0.530 | 0.5100 | 0.5400 | better |" in text
    assert "| Beta-Dir GS | 0.3500 |" in text
    assert "| all, two cores | 10 |" in text
    assert "## Concentration of the fit: mean perplexity\n\n| size | 0.1 | 1 | 10 | largest difference |" in text


def _summed(eta: list[int], ones: list[int], zeros: list[int], *, printed: bool = False) -> Fraction:
    """p(v_n | Z_n) by the nested sums of Eq. 110; as printed the second gamma function is in the product over k."""
    total = Fraction(0)
    for chosen in product(*(range(each + 1) for each in zeros)):
        below = factorial(sum(eta) + sum(ones) + sum(chosen) - 1)
        term = Fraction(1)
        for a, b, c, j in zip(eta, ones, zeros, chosen, strict=True):
            term *= Fraction((-1) ** j * comb(c, j) * factorial(a + b + j - 1), below if printed else 1)
        total += term if printed else term / below
    return total * Fraction(factorial(sum(eta) - 1), prod(factorial(a - 1) for a in eta))


def _convolved(eta: list[int], ones: list[int], zeros: list[int]) -> tuple[Fraction, int]:
    """The same as a product of polynomials, as the sums meet only in their total; and the multiplications it took."""
    series, taken = [Fraction(1)], 0
    for a, b, c in zip(eta, ones, zeros, strict=True):
        longer = [Fraction(0)] * (len(series) + c)
        for (i, value), j in product(enumerate(series), range(c + 1)):
            longer[i + j] += value * (-1) ** j * comb(c, j) * factorial(a + b + j - 1)
            taken += 1
        series = longer
    start = sum(eta) + sum(ones) - 1
    total = sum((value / factorial(start + m) for m, value in enumerate(series)), Fraction(0))
    return total * Fraction(factorial(sum(eta) - 1), prod(factorial(a - 1) for a in eta)), taken


def test_equation_110() -> None:
    """A single one in one of two parts has probability 1/2, and 1/4 as printed; its sums are a short product."""
    assert _summed([1, 1], [1, 0], [0, 0]) == Fraction(1, 2)
    assert _summed([1, 1], [1, 0], [0, 0], printed=True) == Fraction(1, 4)
    eta, ones, zeros = [1, 2, 1, 3], [2, 0, 1, 1], [3, 4, 2, 5]
    assert _convolved(eta, ones, zeros)[0] == _summed(eta, ones, zeros)
    # Twenty parts with three zeros each: 4^20 terms, a million million.
    assert _convolved([1] * 20, [1] * 20, [3] * 20)[1] == 2360


@needs_data
def test_data_are_what_the_page_says() -> None:
    sizes = {"animals": (85, 50), "lastfm": (285, 1226), "paleo": (253, 902), "parliament": (130, 130)}
    sizes |= {"unvotes": (200, 5429), "unvotes_coldwar_absna": (100, 3638)}
    assert {name: bits(name).T.shape for name in sizes} == sizes
    assert np.count_nonzero(bits("paleo").sum(axis=1) == 1) == 10


@needs_data
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fit_of_bica_by_its_number_of_parts() -> None:
    """The paper says that the fit of parliament ceases to improve at K = 8, with 4,957."""
    X = bits("parliament")
    found = {k: negative_log_likelihood(X, bica(k, FULL, 7).fit(X).predict_proba()) for k in range(5, 11)}
    assert min(found, key=lambda k: found[k]) == 7
    np.testing.assert_allclose([found[7], found[8], found[9]], [4903, 4958, 5035], atol=1.0)


@needs_data
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_short_chains() -> None:
    """The numbers on the page that are of shorter chains than the protocol's."""

    def lasting(n_sweeps: int, n_components: int = 100) -> RunLengths:
        return replace(FULL, n_components=n_components, burn_in=n_sweeps - 200, n_draws=20)

    X = bits("parliament")
    whole = dir_dir_gs(replace(FULL, burn_in=1000, n_draws=50), 1, init="random").fit(X)
    assert negative_log_likelihood(X, whole.predict_proba()) == pytest.approx(9589, abs=1.0)
    assert whole.n_active_components_ == 1
    first = random_split(bits("paleo"), 0)
    few = [first.perplexity(dir_dir_gs(lasting(1200, k), 0).fit(first.train).predict_proba()) for k in (4, 7, 10, 20)]
    np.testing.assert_allclose(few, [0.1228, 0.1196, 0.1174, 0.1175], atol=1e-4)
    other = reference_split("paleo", 1)
    many = dir_dir_gs(lasting(1200), 1, init="random").fit(other.train)
    assert other.perplexity(many.predict_proba()) == pytest.approx(0.1374, abs=1e-4)
    votes = bits("unvotes_coldwar_absna")
    fits = [beta_dir_gs(lasting(1000), seed, init="vb").fit(votes) for seed in (7, 8)]
    found = [negative_log_likelihood(votes, fit.predict_proba()) for fit in fits]
    np.testing.assert_allclose(found, [31284, 31065], atol=1.0)
    assert [fit.n_active_components_ for fit in fits] == [4, 4]


@needs_data
def test_reference_splits_are_those_of_the_files() -> None:
    split = reference_split("animals", 1)
    assert split.train.shape == (50, 85)
    assert 0.2 < split.held_out.mean() < 0.3
    assert isinstance(split, Split)


@needs_data
@pytest.mark.slow
def test_short_version_runs_and_goes_on(tmp_path: Path) -> None:
    find("nbmf").run(tmp_path, quick=True)
    pictures = {path.stem.partition("_")[0] for path in tmp_path.glob("*.png")}
    assert {f"figure{number}" for number in (1, 2, 5, 6, 7, 8, 9, 10, 11)} <= pictures
    before = (tmp_path / "results.json").read_bytes()
    assert json.loads(before)["quick"]
    find("nbmf").run(tmp_path, quick=True)
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
