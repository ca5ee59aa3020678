"""Sweeps by proposals, replayed in plain Python, and the dictionaries that they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mutants import mutant
from partwise.allocation.kernels.proposals import draw_dictionary, move_counts, share_features, sweep_by_proposals
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines.blocks import first_tokens
from partwise.kernels.alias import build_tables
from replay import Uniforms

KEY = Key(7, stage=3, chain=1, iteration=5)
COUNTS = np.array([[2, 0, 1, 3, 0], [0, 1, 2, 0, 4], [0, 0, 0, 0, 0], [1, 1, 0, 2, 5]])
ROWS, FEATURES = (np.repeat(index, COUNTS.ravel()) for index in np.indices(COUNTS.shape).reshape(2, -1))


def from_table(uniform: float, thresholds: np.ndarray, aliases: np.ndarray) -> tuple[int, float]:
    """A draw by an alias table, and what is left of the uniform number."""
    place = int(uniform * thresholds.size)
    rest, threshold = uniform * thresholds.size - place, float(thresholds[place])
    if rest < threshold:
        return place, rest / threshold
    return int(aliases[place]), (rest - threshold) / (1.0 - threshold)


def counted(labels: np.ndarray, places: np.ndarray, n_places: int, n_components: int) -> np.ndarray:
    out = np.zeros((n_places, n_components), np.int32)
    np.add.at(out, (places, labels), 1)
    return out


def replayed(sweep: Any, n_components: int, n_cycles: int, rows: tuple[int, int]) -> tuple[Any, ...]:
    """Labels as they should be and as they are, and the counts of samples and of features after the sweep."""
    rng = np.random.default_rng(n_components)
    beta, data = rng.gamma(1.0, size=n_components), CountMatrix.build(COUNTS)
    dictionary = rng.dirichlet(np.full(n_components, 0.5), size=5).astype(np.float32)
    thresholds, aliases = np.empty_like(dictionary), np.empty(dictionary.shape, np.uint8)
    build_tables(dictionary, 0, 5, thresholds, aliases)
    own = np.empty((1, n_components)), np.empty((1, n_components), np.int32)
    build_tables(beta[None] / beta.sum(), 0, 1, *own)
    labels = rng.integers(n_components, size=ROWS.size).astype(np.uint8)
    expected = labels.astype(int)
    for n in range(*rows):
        uniforms, tokens = Uniforms(KEY.words, 100 + n), np.flatnonzero(n == ROWS)
        for i in np.tile(tokens, n_cycles):
            f, others = FEATURES[i], tokens[tokens != i]
            new, rest = from_table(uniforms.next(), thresholds[f], aliases[f])
            share = beta + np.bincount(expected[others], minlength=n_components)
            if rest < share[new] / share[expected[i]]:
                expected[i] = new
            at = uniforms.next() * (tokens.size + beta.sum())
            if at < tokens.size:
                new, rest = expected[tokens[int(at)]], at % 1.0
            else:
                new, rest = from_table(uniforms.next(), own[0][0], own[1][0])
            if rest < float(dictionary[f, new]) / float(dictionary[f, expected[i]]):
                expected[i] = new

    sample_counts = counted(labels, ROWS, 4, n_components)
    feature_counts = counted(labels, FEATURES, 5, n_components)
    moves = np.empty((ROWS.size, 2), np.int64)
    given = dictionary, thresholds, aliases, beta, *own, n_cycles, *KEY.words, 100, *rows
    cells = data.indptr, data.indices, data.values, first_tokens(data)
    n_moves = sweep(*cells, *given, labels, sample_counts, moves)
    assert n_components == 1 or n_moves > 0
    move_counts(moves[:n_moves], n_components, feature_counts)
    return expected, labels, sample_counts, feature_counts


@pytest.mark.parametrize(("n_components", "n_cycles"), [(1, 1), (3, 1), (3, 4), (11, 2)])
@pytest.mark.parametrize("rows", [(0, 4), (1, 3)])
def test_a_sweep_is_the_textbook_one(n_components: int, n_cycles: int, rows: tuple[int, int]) -> None:
    expected, labels, by_sample, by_feature = replayed(sweep_by_proposals, n_components, n_cycles, rows)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(by_sample, counted(expected, ROWS, 4, n_components))
    np.testing.assert_array_equal(by_feature, counted(expected, FEATURES, 5, n_components))


BUGS = {
    "the token itself is counted": {"sample_counts[n, old])": "sample_counts[n, old] + 1)"},
    "a row of one token less": {"* (length + prior)": "* (length - 1 + prior)"},
    "the wrong feature": {"f = indices[p]": "f = indices[indptr[n]]"},
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    expected, labels, *_ = replayed(mutant(sweep_by_proposals, BUGS[bug]), 3, 4, (0, 4))
    assert np.any(labels != expected)


def test_dictionaries_are_gamma_draws_as_shares_of_features() -> None:
    """Two tests of 4,000 draws each; a false alarm once in 5,000 runs of other seeds."""
    counts = np.zeros((4000, 8), np.int32)
    counts[:, 1] = 3
    alpha = np.full(4000, 0.2)
    out, sums = np.empty((4000, 2), np.float32), np.zeros(2)
    draw_dictionary(counts, alpha, *KEY.words, 0, 2500, out, sums)
    draw_dictionary(counts, alpha, *KEY.words, 2500, 4000, out, sums)
    np.testing.assert_allclose(sums, out.sum(axis=0, dtype=np.float64), rtol=1e-5)
    for k, shape in enumerate([0.2, 3.2]):
        assert stats.kstest(out[:, k], stats.gamma(shape).cdf).pvalue > 1e-4
    shares = out.astype(float) / sums
    expected = shares / shares.sum(axis=1, keepdims=True)
    untouched = out[3000:].copy()
    share_features(sums, 0, 3000, out)
    np.testing.assert_allclose(out[:3000], np.maximum(expected[:3000], 1e-30), rtol=1e-5)
    np.testing.assert_array_equal(out[3000:], untouched)
