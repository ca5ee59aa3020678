"""Kernels that several families share, each beside NumPy or SciPy: their own tests are too far away to point here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from goodness import ALARM
from scipy import stats
from scipy.special import log_ndtr

from partwise.core.keys import Key
from partwise.kernels.alias import build_tables, draw_from_table
from partwise.kernels.cholesky import solve
from partwise.kernels.jit import kernel
from partwise.kernels.special import log_normal_cdf
from partwise.kernels.streams import new_stream, next_uniform, seek, seek_row


@kernel
def _draws(words: Any, thresholds: np.ndarray, aliases: np.ndarray, f: int, out: np.ndarray) -> None:
    stream = new_stream()
    seek_row(stream, words, 0)
    for i in range(out.shape[1]):
        out[0, i], out[1, i] = draw_from_table(stream, thresholds, aliases, f)


@kernel
def _uniforms(words: Any, row: int, out: np.ndarray) -> None:
    stream = new_stream()
    seek_row(stream, words, row)
    out[0] = next_uniform(stream)
    seek(stream, words[0], words[1], words[2], row)
    out[1] = next_uniform(stream)


@kernel
def _solved(factor: np.ndarray, vector: np.ndarray) -> None:
    solve(factor, vector.size, vector)


@kernel
def _log_cdf(x: np.ndarray, out: np.ndarray) -> None:
    for i in range(x.size):
        out[i] = log_normal_cdf(x[i])


def test_draws_from_a_table_have_its_weights_and_leave_a_uniform() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(6), size=3)
    thresholds, aliases = np.empty((3, 6)), np.empty((3, 6), np.int32)
    build_tables(weights, 0, 3, thresholds, aliases)
    out = np.empty((2, 20_000))
    _draws(Key(0).words, thresholds, aliases, 1, out)
    counts = np.bincount(out[0].astype(int), minlength=6)
    assert stats.chisquare(counts, weights[1] * counts.sum()).pvalue > ALARM
    assert stats.kstest(out[1], "uniform").pvalue > ALARM


def test_seeking_with_all_words_of_a_key() -> None:
    out = np.empty(2)
    _uniforms(Key(3).for_stage("init").for_chain(2).words, 7, out)
    assert out[0] == out[1]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_equations_by_a_factor(size: int) -> None:
    rng = np.random.default_rng(size)
    factor = np.tril(rng.normal(size=(size, size))) + 3.0 * np.eye(size)
    vector = rng.normal(size=size)
    expected = np.linalg.solve(factor @ factor.T, vector)
    # What stands above the diagonal is never read.
    _solved(factor + np.triu(np.full((size, size), np.nan), 1), vector)
    np.testing.assert_allclose(vector, expected, rtol=1e-10)


def test_log_normal_cdf() -> None:
    x = np.array([-60.0, -40.0, -20.0, -5.0, -1.0, 0.0, 2.0])
    out = np.empty(x.size)
    _log_cdf(x, out)
    np.testing.assert_allclose(out, log_ndtr(x), rtol=1e-4)
