"""The left-to-right paper: its selection of documents, its published values, and the arithmetic behind the figures."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln
from scipy.stats import nbinom

from mutants import mutant
from partwise.core.data import CountMatrix
from partwise.core.keys import key_from
from partwise.likelihood import direct_sampling, exact, harmonic_mean, left_to_right
from partwise.likelihood.completion import split_tokens
from partwise.likelihood.kernels import left_to_right as kernels
from partwise.reproduce import available, find
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.l2r._corpora import Corpus, draw_rows, enumerable, of_all_lengths, small
from partwise.reproduce.l2r._methods import methods
from partwise.reproduce.l2r.against_exact import divergence, exact_completion

# Exact log-likelihoods of the first ten enumerable tweets, published by the authors (jcapde/L2R on GitHub,
# python/output/Exact_Twitter_10Ntest_100W_5K.json).
PUBLISHED = np.array(
    [
        -32.5799054462662,
        -16.5782762434506,
        -22.3421282504588,
        -15.5994854013663,
        -19.1436177536824,
        -15.277205623735,
        -30.3080488682342,
        -27.423004141889,
        -10.8434189995002,
        -31.5528884447148,
    ]
)
DRAWS = (10, 100, 1000)


def tiny() -> Corpus:
    rng = np.random.default_rng(0)
    dictionary = rng.dirichlet(np.ones(3), size=2).T
    counts = sp.csr_matrix(np.array([[2, 1, 0], [0, 0, 0], [1, 3, 2], [0, 4, 0]]))
    return Corpus("tiny", counts, dictionary, np.array([0.7, 1.5]), np.array([0.4, 2.0]))


def test_published_exact_values(data_folder: Path, tmp_path: Path) -> None:
    corpus = small(Notebook(tmp_path, quick=True), "twitter100", 0)
    first = corpus.tractable()[:10]
    ours = exact(corpus.counts[first], *corpus.model).values
    np.testing.assert_allclose(ours, PUBLISHED, rtol=1e-10)


def test_selects_as_many_documents_as_the_paper(data_folder: Path, tmp_path: Path) -> None:
    # One document of NIPS, Section 6.2.
    assert small(Notebook(tmp_path, quick=True), "nips100", 0).tractable().size == 1


def test_enumeration_sizes() -> None:
    # C(2 + 1, 1) C(1 + 1, 1), nothing, C(2, 1) C(4, 1) C(3, 1), C(5, 1)
    np.testing.assert_allclose(np.exp(tiny().enumeration_sizes()), [6, 1, 24, 5])
    np.testing.assert_array_equal(tiny().tractable(), [0, 2])


def test_divergence_is_one() -> None:
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.6, 0.3])
    assert divergence(np.log(p), np.log(q)) == pytest.approx(float(p @ np.log(p / q)))
    assert divergence(np.log(p), np.log(p)) == 0.0
    # One document alone: the paper's sum p log(p / q) would be negative.
    assert divergence(np.array([-5.0]), np.array([-4.0])) == pytest.approx(np.e - 2.0)


def test_exact_completion_is_a_probability() -> None:
    """Over all tokens that the other half might have held, the predictive probabilities sum to 1."""
    corpus = tiny()
    seed = 3
    data = CountMatrix.build(corpus.counts, integers=True)
    given, other = (part.to_scipy().toarray() for part in split_tokens(data, key_from(seed), 0.5))
    predicted = exact_completion(corpus, seed)
    n = 2
    size = int(predicted["n_tokens"][n])
    assert size == other[n].sum()
    assert size > 0

    half, model = 0.5 * corpus.dictionary, (corpus.shape, corpus.rate)

    def joint(tokens: tuple[int, ...]) -> float:
        """log p(given counts, these tokens in order): both halves as one document with twice the features."""
        counts = np.bincount(tokens, minlength=3)
        both = exact([np.concatenate((given[n], counts))], np.vstack((half, half)), *model).values[0]
        return float(both - gammaln(size + 1.0) + gammaln(counts + 1.0).sum())

    everything = np.array([joint(tokens) for tokens in product(range(3), repeat=size)])
    normaliser = np.log(np.exp(everything).sum())
    mine = joint(tuple(np.repeat(np.arange(3), other[n])))
    assert predicted["tokens"][n] == pytest.approx(mine - normaliser, abs=1e-9)
    alone = exact(given[n : n + 1], half, *model).values[0]
    both = exact([np.concatenate((given[n], other[n]))], np.vstack((half, half)), *model).values[0]
    assert predicted["counts"][n] == pytest.approx(both - alone, abs=1e-9)


CONTRARY = np.array([[0.9, 0.1], [0.02, 0.9]]), 0.3, 0.2
"""A dictionary, shape and rate with which the second of two words contradicts what the first says."""


@pytest.mark.parametrize(("n_draws", "mean"), [(2, 1.31), (10, 1.11), (100, 1.011)])
def test_left_to_right_is_not_unbiased(n_draws: int, mean: float) -> None:
    """The paper says that it is. Mean of p-hat / p over 20,000 runs, five and more standard errors above 1."""
    counts = np.repeat([[3, 6]], 20_000, axis=0)
    runs = left_to_right(counts, *CONTRARY, rng=1, n_draws=n_draws, conditionals="exact").values
    ratios = np.exp(runs - exact(counts[:1], *CONTRARY).values[0])
    error = ratios.std() / np.sqrt(ratios.size)
    assert ratios.mean() - 1.0 > 5 * error
    assert ratios.mean() == pytest.approx(mean, abs=error)


def test_harmonic_mean_is_not_unbiased() -> None:
    """The paper says that it is. Mean of p-hat / p over 300 runs of 1,000 draws: 3.1."""
    counts = np.repeat([[3, 6]], 300, axis=0)
    ratios = np.exp(harmonic_mean(counts, *CONTRARY, rng=1, n_draws=1000).values - exact(counts, *CONTRARY).values)
    assert ratios.mean() == pytest.approx(3.1, abs=0.1)
    assert ratios.mean() - 1.0 > 8 * ratios.std() / np.sqrt(ratios.size)


def test_proposal_of_equation_20() -> None:
    """As printed it is not exact for a single count; with the word itself in the denominator it is."""
    weights, shape, rate = np.array([0.9, 0.1]), np.ones(2), np.array([0.1, 1.0])
    success = weights / (rate + weights)
    target = np.array([0.0, 0.0])
    for k in range(2):
        target[k] = np.prod((1 - success) ** shape) * shape[k] * success[k]
    printed, corrected = shape * weights / rate, shape * success
    spreads = [np.ptp(target / (proposal / proposal.sum())) / target.sum() for proposal in (printed, corrected)]
    assert spreads[0] > 1.0
    assert spreads[1] < 1e-12


def test_conditional_of_equation_17_is_a_coefficient() -> None:
    """The sum over all splits of a count, which the paper calls exponential, against the recurrence in O(count²)."""
    shapes, ratios, count = np.array([0.3, 1.0, 2.5]), np.array([0.8, 0.1, 3.0]), 6
    success = ratios / (1.0 + ratios)
    splits = [split for split in product(range(count + 1), repeat=3) if sum(split) == count]
    summed = sum(np.prod(nbinom.pmf(split, shapes, 1.0 - success)) for split in splits)
    found = kernels.exact_conditional(count, shapes, ratios, np.empty(2 * count + 1))
    assert found == pytest.approx(np.log(summed), abs=1e-12)


def test_divergence_is_that_of_a_few_documents(data_folder: Path, tmp_path: Path) -> None:
    """Of the 200 tweets of Figure 2 the ten likeliest have 74% of the weight."""
    tweets = enumerable(small(Notebook(tmp_path, quick=True), "twitter100", 0), 200)
    weights = np.sort(np.exp(exact(tweets.counts, *tweets.model).values))[::-1]
    assert weights[:10].sum() / weights.sum() == pytest.approx(0.74, abs=0.005)


@pytest.mark.slow
def test_topics_twice_in_the_proposal(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the authors' program: L2R with S' = 1 is then worse than direct sampling on Twitter, and else it is not.

    Divergence at S = 10, 100 and 1,000, mean of 20 runs. Standard errors are 7 to 14 percent of the values.
    """
    tweets = enumerable(small(Notebook(tmp_path, quick=True), "twitter100", 0), 200)
    truth = exact(tweets.counts, *tweets.model).values

    def mean_divergence(estimate: Any) -> list[float]:
        runs = [[estimate(tweets.counts, *tweets.model, rng=seed, n_draws=n) for seed in range(20)] for n in DRAWS]
        return [float(np.mean([divergence(truth, found.values) for found in each])) for each in runs]

    direct, corrected = mean_divergence(direct_sampling), mean_divergence(left_to_right)
    twice = {
        "ratios: Floats,": "ratios: Floats, topics: Floats,",
        "weights[k] = shapes[k] * ratios[k]": "weights[k] = topics[k] * shapes[k] * ratios[k]",
        "if drawn[k] > 1": "if drawn[k] > 0",
        "math.log(shapes[k])": "math.log(topics[k] * shapes[k])",
    }
    monkeypatch.setattr(kernels, "sampled_conditional", mutant(kernels.sampled_conditional, twice))
    passed = {"ratios, n_inner": "ratios, token_weights[w], n_inner", "k] / left[k]\n": "k] ** 2 / left[k]\n"}
    # The first of the two divisions by left[k] gives the ratios, which stay as they are.
    passed["ratios[k] = token_weights[w, k] ** 2"] = "ratios[k] = token_weights[w, k]"
    rows = mutant(kernels.left_to_right_rows, passed)
    monkeypatch.setattr(sys.modules["partwise.likelihood.left_to_right"], "left_to_right_rows", rows)
    planted = mean_divergence(left_to_right)
    np.testing.assert_allclose(direct, [0.055, 0.0050, 0.00049], rtol=0.02)
    np.testing.assert_allclose(corrected, [0.025, 0.0025, 0.00030], rtol=0.02)
    np.testing.assert_allclose(planted, [0.075, 0.0072, 0.00074], rtol=0.02)


def test_rows_are_drawn_by_seed_and_over_all_lengths() -> None:
    np.testing.assert_array_equal(draw_rows(np.arange(100), 5), draw_rows(np.arange(100), 5))
    assert draw_rows(np.arange(3), 5).tolist() == [0, 1, 2]
    rng = np.random.default_rng(0)
    counts = sp.csr_matrix(np.stack([rng.multinomial(length, np.full(8, 0.125)) for length in range(2, 62)]))
    corpus = Corpus("some", counts, rng.dirichlet(np.ones(8), size=2).T, np.ones(2), np.ones(2))
    chosen = of_all_lengths(corpus, 20)
    doublings = np.unique(np.floor(np.log2(corpus.lengths)))
    assert np.unique(np.floor(np.log2(chosen.lengths))).tolist() == doublings.tolist()


@pytest.mark.parametrize("n_draws", [10, 100])
def test_methods_come_near_the_truth(n_draws: int) -> None:
    corpus = tiny()
    truth = exact(corpus.counts, *corpus.model).values
    for method in methods((1, 10), 1000):
        if n_draws <= method.most_draws and method.name not in ("DS", "HM"):
            assert np.abs(method.estimate(corpus, n_draws, 0).values - truth).max() < 2.0


def test_is_listed() -> None:
    assert "l2r" in available()
    assert find("l2r").description.startswith("Capdevila")


@pytest.mark.slow
def test_quick_and_resumed(data_folder: Path, tmp_path: Path) -> None:
    find("l2r").run(tmp_path, True)
    figures = ("figure1", "figure2", "figure2_error", "figure3", "length", "completion")
    for name in (*(f"{figure}.{suffix}" for figure in figures for suffix in ("png", "pdf")), "report.md"):
        assert (tmp_path / name).stat().st_size > 100
    steps = json.loads((tmp_path / "results.json").read_text())["steps"]
    error = {
        method: np.mean(steps[f"twitter100, 15 enumerable documents, {method}, 100 draws, 3 times"]["result"]["error"])
        for method in ("smc", "L2R, S' = 1", "DS", "HM")
    }
    assert error["smc"] < 0.5 * error["L2R, S' = 1"]
    assert error["L2R, S' = 1"] < error["DS"] < error["HM"]
    find("l2r").run(tmp_path, True)
    assert json.loads((tmp_path / "results.json").read_text())["steps"] == steps
