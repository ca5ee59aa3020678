"""Small kernels of the estimators against the NumPy lines of their docstrings, with the same random numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from partwise.core.keys import Key
from partwise.kernels.streams import new_stream, seek
from partwise.likelihood import word_prediction
from partwise.likelihood.kernels.completion import split_rows
from partwise.likelihood.kernels.tokens import (
    choose_parents,
    copy_lanes,
    lattice_multiplier,
    log_mean_weight,
    spread_tokens,
)
from replay import Uniforms

WORDS = Key(11, stage=4, chain=2, iteration=9).words


@pytest.mark.parametrize(("first", "size"), [(0, 16), (8, 8), (4, 1), (0, 5)])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_parents_are_chosen_systematically(first: int, size: int, spread: float) -> None:
    rng = np.random.default_rng(0)
    for row in range(20):
        log_weights = rng.normal(scale=spread, size=16)
        own = log_weights[first : first + size]
        log_mean, effective = log_mean_weight(log_weights, first, size)
        assert log_mean == pytest.approx(logsumexp(own) - np.log(size), abs=1e-12)
        shares = np.exp(own - logsumexp(own))
        assert effective == pytest.approx(1.0 / np.square(shares).sum())
        stream, out = new_stream(), np.full(16, -1)
        seek(stream, *WORDS, row)
        choose_parents(stream, log_weights, log_mean, first, size, out)
        places = np.arange(size) + Uniforms(WORDS, row).next()
        expected = np.searchsorted(np.cumsum(np.exp(own - log_mean)), places, side="right")
        np.testing.assert_array_equal(out[first : first + size], first + np.minimum(expected, size - 1))
        assert np.all(np.delete(out, np.arange(first, first + size)) == -1)


def test_lanes_are_copied_from_their_parents() -> None:
    rng = np.random.default_rng(0)
    counts, labels = rng.random((3, 8)), rng.integers(9, size=(5, 8)).astype(np.uint16)
    parents = rng.integers(8, size=8)
    expected = counts[:, parents], np.vstack([labels[:4, parents], labels[4:]])
    copy_lanes(parents, 3, 4, np.empty(8), np.empty(8, np.uint16), counts, labels)
    np.testing.assert_array_equal(counts, expected[0])
    np.testing.assert_array_equal(labels, expected[1])


@pytest.mark.parametrize("counts", [[1, 1, 1, 1], [5], [3, 0, 2, 7], [0, 4, 0]])
def test_tokens_of_a_feature_are_evenly_spread(counts: list[int]) -> None:
    n_tokens = sum(counts)
    for row in range(10):
        stream, out = new_stream(), np.full(n_tokens, -1, np.int32)
        seek(stream, *WORDS, row)
        room = np.empty(n_tokens, np.int32), np.empty(n_tokens + 1, np.int32)
        spread_tokens(stream, np.array(counts), len(counts), n_tokens, *room, out)
        uniforms = Uniforms(WORDS, row)
        offsets = [uniforms.next() for _ in counts]
        # in whole places, so that tokens of one place keep the order of their features
        places = [
            (min(int((i + offsets[f]) / count * n_tokens), n_tokens - 1), f)
            for f, count in enumerate(counts)
            for i in range(count)
        ]
        np.testing.assert_array_equal(out, [f for _, f in sorted(places)])


def test_multipliers_are_powers_until_they_repeat() -> None:
    assert [int(lattice_multiplier(i, 16)) for i in range(6)] == [1, 27, 27**2, 27**3, 0, 0]
    assert [int(lattice_multiplier(i, 1)) for i in range(3)] == [1, 0, 0]


def test_rows_of_a_block_are_split_and_no_others() -> None:
    rng = np.random.default_rng(0)
    indptr = np.array([0, 3, 5, 5, 9])
    values = rng.poisson(6.0, size=9) + 0.25
    whole = np.full(9, np.nan)
    split_rows(indptr, values, 0.4, WORDS, 100, 0, 4, whole)
    part = np.full(9, np.nan)
    split_rows(indptr, values, 0.4, WORDS, 100, 1, 3, part)
    np.testing.assert_array_equal(part[3:5], whole[3:5])
    assert np.isnan(part[:3]).all()
    assert np.isnan(part[5:]).all()
    moved = np.full(6, np.nan)
    split_rows(indptr[1:] - 3, values[3:], 0.4, WORDS, 101, 0, 3, moved)
    np.testing.assert_array_equal(moved, whole[3:])
    assert np.all(whole >= 0.0)
    assert np.all(whole <= values)
    assert np.all(np.isin((values - whole) % 1.0, [0.0, 0.25]))


def test_labels_of_a_table_do_not_change_a_prediction() -> None:
    X, hidden = np.array([[2, 1, 0], [1, 0, 4]]), np.array([[False, True, True], [True, False, False]])
    dictionary = np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]])
    table = pd.DataFrame(X, index=["a", "b"], columns=["x", "y", "z"])
    plain, labelled = (word_prediction(data, hidden, dictionary, 1.0, 0.5).values for data in (X, table))
    np.testing.assert_array_equal(labelled, plain)
