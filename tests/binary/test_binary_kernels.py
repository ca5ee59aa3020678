"""Kernels against the plain NumPy that their docstrings open with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from binary_samples import cells_of, planted

from partwise.binary.inference.cells import expected_counts
from partwise.binary.inference.posterior import beta_moments, cell_moments, dirichlet_moments
from partwise.binary.kernels.cells import (
    count_labels,
    fill_indicators,
    log_likelihood_of_block,
    reciprocals_of_cells,
    sums_of_rare_bit,
    to_row_order,
)
from partwise.binary.kernels.collapsed import propose, sweep_beta_dirichlet
from partwise.binary.kernels.collapsed_variational import pass_second_order, pass_zero_order
from partwise.binary.kernels.partial import draw_columns
from partwise.contract.bits import hide
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.kernels.continuous import dirichlet
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, seek
from replay import Uniforms

X = planted()
SEEN = ~np.isnan(X)
ROWS, COLUMNS = np.nonzero(SEEN)
BITS = X[ROWS, COLUMNS].astype(int)
CELLS = cells_of(X)
LISTED = CELLS.row_starts, CELLS.codes


def test_cells_are_listed() -> None:
    np.testing.assert_array_equal(CELLS.codes, 2 * COLUMNS + BITS)
    np.testing.assert_array_equal(CELLS.row_sizes, SEEN.sum(axis=1))
    np.testing.assert_array_equal(CELLS.column_sizes, SEEN.sum(axis=0))
    mirrored = cells_of(X, "dir-beta")
    np.testing.assert_array_equal(mirrored.codes, cells_of(X.T).codes)
    assert mirrored.shape == X.T.shape


def test_cells_are_hidden() -> None:
    hidden = np.random.default_rng(0).random(CELLS.n_cells) < 0.3
    less = X.copy()
    less[ROWS[hidden], COLUMNS[hidden]] = np.nan
    found, bits = hide(BinaryMatrix.build(X), ROWS[hidden], COLUMNS[hidden])
    np.testing.assert_array_equal(bits, X[ROWS[hidden], COLUMNS[hidden]] == 1)
    expected = BinaryMatrix.build(less)
    for name in ("indptr", "indices", "values", "missing_indptr", "missing_indices"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_labels_are_counted() -> None:
    labels = np.random.default_rng(0).integers(4, size=CELLS.n_cells).astype(np.uint8)
    by_row = np.empty_like(labels)
    to_row_order(CELLS.ordered, labels, by_row)
    grid = np.full(X.shape, -1)
    columns, rows = np.nonzero(SEEN.T)
    grid[rows, columns] = labels
    np.testing.assert_array_equal(by_row, grid[ROWS, COLUMNS])
    row_counts, column_counts = np.zeros((40, 4, 2), np.int32), np.zeros((25, 4), np.int32)
    count_labels(CELLS.ordered, labels, row_counts, column_counts)
    expected_rows, expected_columns = np.zeros_like(row_counts), np.zeros_like(column_counts)
    np.add.at(expected_rows, (ROWS, by_row, BITS), 1)
    np.add.at(expected_columns, (COLUMNS, by_row), 1)
    np.testing.assert_array_equal(row_counts, expected_rows)
    np.testing.assert_array_equal(column_counts, expected_columns)


def test_sweep_keeps_counts_true() -> None:
    labels = np.random.default_rng(0).integers(30, size=CELLS.n_cells).astype(np.uint8)
    row_counts, column_counts = np.zeros((40, 30, 2), np.int32), np.zeros((25, 30), np.int32)
    count_labels(CELLS.ordered, labels, row_counts, column_counts)
    before = labels.copy()
    prior, concentration = np.full((30, 2), 0.5), np.geomspace(1e-200, 0.1, 30)
    for attempts in (0, 1, 20):
        words = Key(attempts).words
        sweep_beta_dirichlet(CELLS.ordered, (prior, concentration), attempts, words, labels, row_counts, column_counts)
    again = np.zeros_like(row_counts), np.zeros_like(column_counts)
    count_labels(CELLS.ordered, labels, *again)
    np.testing.assert_array_equal(row_counts, again[0])
    np.testing.assert_array_equal(column_counts, again[1])
    assert (labels != before).mean() > 0.5


def test_indicators() -> None:
    zeros, ones = np.empty((10, 25)), np.empty((10, 25))
    fill_indicators(*LISTED, 5, 15, zeros, ones)
    np.testing.assert_array_equal(ones, X[5:15] == 1)
    np.testing.assert_array_equal(zeros, X[5:15] == 0)


def test_likelihood_and_reciprocals() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.random((10, 25)), rng.random((10, 25)) * 1e-60
    part, seen = X[5:15], SEEN[5:15]
    found, observed = log_likelihood_of_block(*LISTED, p, 5, 15)
    assert np.isclose(found, np.log(np.where(part == 1, p, 1 - p))[seen].sum())
    assert np.isclose(observed, p[seen].sum())
    # weights whose products leave the range of doubles upwards, downwards, and at one step
    for bit, weights in ((0, q), (1, p), (0, 1e60 * q + 1e20), (1, np.where(p < 0.5, 1e-250, 1e-99))):
        inverse = weights.copy()
        total = reciprocals_of_cells(*LISTED, bit, 5, 15, inverse)
        assert np.isclose(total, np.log(weights)[part == bit].sum())
        np.testing.assert_allclose(inverse, np.where(part == bit, 1 / weights, 0))


def test_unlikely_cells_have_finite_logarithms() -> None:
    p = np.where(X[5:15] == 1, 1e-60, 1e-200)
    p[:, ::2] = 1e-250
    found, _ = log_likelihood_of_block(*LISTED, p, 5, 15)
    assert np.isclose(found, np.log(p)[X[5:15] == 1].sum())


@pytest.mark.parametrize("bit", [0, 1])
def test_sums_of_rare_bit(bit: int) -> None:
    rng = np.random.default_rng(0)
    rows, columns, back = rng.random((40, 3)), rng.random((25, 3)), rng.random((25, 3))
    out_rows, out_columns = np.empty((10, 3)), np.ones((25, 3))
    total = sums_of_rare_bit(LISTED, bit, (rows, columns, back), 5, 15, (out_rows, out_columns))
    product = (rows @ columns.T)[5:15]
    inverse = np.where(X[5:15] == bit, 1 / product, 0)
    np.testing.assert_allclose(out_rows, inverse @ back)
    np.testing.assert_allclose(out_columns, 1 + inverse.T @ rows[5:15])
    assert np.isclose(total, np.log(product)[X[5:15] == bit].sum())


@pytest.mark.parametrize("density", [0.05, 0.5, 0.95])
def test_rare_bits_take_a_short_cut_to_the_same_counts(density: float, monkeypatch: pytest.MonkeyPatch) -> None:
    short_cuts = []

    def noted(listed: Any, bit: int, *others: Any) -> float:
        short_cuts.append(bit)
        return float(sums_of_rare_bit(listed, bit, *others))

    monkeypatch.setattr("partwise.binary.inference.cells.sums_of_rare_bit", noted)
    rng = np.random.default_rng(1)
    table = (rng.random((30, 20)) < density).astype(float)
    table[rng.random(table.shape) < 0.1] = np.nan
    cells = cells_of(table)
    h, w = rng.random((30, 3)), rng.dirichlet(np.ones(3), size=20)
    found = expected_counts(cells, np.stack((1 - h, h)), w, resolve_engine())
    as_bit = np.stack((1 - h, h))[np.nan_to_num(table).astype(int), np.arange(30)[:, None]]
    shares = as_bit * w
    normalisers = shares.sum(axis=2, keepdims=True)
    shares = np.where(np.isnan(table)[..., None], 0, shares / normalisers)
    np.testing.assert_allclose(found.columns, shares.sum(axis=0))
    for bit in (0, 1):
        np.testing.assert_allclose(found.rows[..., bit], (shares * (table == bit)[..., None]).sum(axis=1))
    assert np.isclose(found.log_normaliser, np.log(normalisers[..., 0])[~np.isnan(table)].sum())
    assert short_cuts == {0.05: [1], 0.5: [], 0.95: [0]}[density]


@kernel
def _proposals(words: Any, labels: Any, start: int, at: int, n_others: float, cumulative: Any, out: Any) -> None:
    stream = new_stream()
    seek(stream, words[0], words[1], words[2], 0)
    for i in range(out.shape[0]):
        out[i, 0], out[i, 1] = propose(stream, labels, start, at, n_others, cumulative)


def test_proposals_use_what_is_left_of_a_uniform_number() -> None:
    labels, cumulative = np.array([9, 9, 2, 0, 1, 1, 2, 9], np.int32), np.cumsum([1.5, 0.7, 2.0])
    others, uniforms = [2, 0, 1, 2], Uniforms(Key(5).words, 0)  # of the cells 2 to 6, without cell 4
    out = np.empty((200, 2))
    _proposals(Key(5).words, labels, 2, 4, 4.0, cumulative, out)
    for found, rest in out:
        t = uniforms.next() * (4.0 + cumulative[-1])
        if t < 4.0:
            assert (found, rest) == (others[int(t)], pytest.approx(t - int(t)))
        else:
            k = int(np.searchsorted(cumulative, t - 4.0, side="right"))
            before = cumulative[k - 1] if k else 0.0
            assert (found, rest) == (k, pytest.approx((t - 4.0 - before) / (cumulative[k] - before)))


def test_columns_are_dirichlet_draws() -> None:
    counts = np.repeat(np.array([[0, 3, 7]], np.int32), 4000, axis=0)
    out = np.empty((4000, 3))
    draw_columns(counts, np.array([0.5, 0.2, 0.9]), Key(0).words, 0, 4000, out)
    moments = dirichlet_moments(counts, np.array([0.5, 0.2, 0.9]))
    # 4.5 standard errors for 6 numbers: a false alarm in 1 of 25,000 seeds
    assert np.all(np.abs(out.mean(axis=0) - moments.mean[0]) < 4.5 * np.sqrt(moments.variance[0] / 4000))
    spread = out.var(axis=0)
    error = np.sqrt(((out - out.mean(axis=0)) ** 2).var(axis=0) / 4000)
    assert np.all(np.abs(spread - moments.variance[0]) < 4.5 * error)


def test_moments_of_cells_are_those_of_draws() -> None:
    rng = np.random.default_rng(0)
    columns = dirichlet_moments(np.array([[2.0, 0.0, 1.0]]), np.array([0.7, 0.4, 0.1]))
    w = rng.dirichlet([2.7, 0.4, 1.1], size=200_000)
    beta_counts = np.array([[[1.0, 2.0], [0.0, 0.0], [3.0, 1.0]]])
    h_beta = rng.beta(beta_counts[0, :, 1] + 1.3, beta_counts[0, :, 0] + 0.6, size=w.shape)
    dirichlet_counts = np.array([[1.0, 2.0, 0.0]])
    h_dirichlet = rng.dirichlet([1.4, 2.4, 0.4], size=200_000)
    cases = [
        (beta_moments(beta_counts, np.full(3, 1.3), np.full(3, 0.6)), h_beta),
        (dirichlet_moments(dirichlet_counts, np.full(3, 0.4)), h_dirichlet),
    ]
    for rows, h in cases:
        first, second = cell_moments(rows, columns)
        p = (w * h).sum(axis=1)
        # 4.5 standard errors for 4 numbers
        assert abs(p.mean() - first[0, 0]) < 4.5 * p.std() / np.sqrt(p.size)
        assert abs((p**2).mean() - second[0, 0]) < 4.5 * (p**2).std() / np.sqrt(p.size)


def naive_pass(order: int, shares: np.ndarray, priors: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """Cell by cell, every sum taken anew."""
    shares = shares.copy()
    for p in range(len(shares)):
        n, f, x = ROWS[p], COLUMNS[p], BITS[p]
        others = np.arange(len(shares)) != p

        def total(chosen: np.ndarray, others: np.ndarray = others) -> tuple[np.ndarray, np.ndarray]:
            r = shares[chosen & others].astype(np.float64)
            return r.sum(axis=0), (r * (1 - r)).sum(axis=0)

        column, bit, whole = total(f == COLUMNS), total((n == ROWS) & (x == BITS)), total(n == ROWS)
        logs = np.zeros(shares.shape[1])
        for sign, prior, (mean, variance) in (
            (1, gamma, column),
            (1, priors[:, x], bit),
            (-1, priors.sum(axis=1), whole),
        ):
            logs += sign * (np.log(prior + mean) - (order == 2) * variance / (2 * (prior + mean) ** 2))
        weights = np.exp(logs - logs.max())
        shares[p] = (weights / weights.sum()).astype(np.float32)
    return shares


@pytest.mark.parametrize("order", [0, 2])
def test_collapsed_variational_pass(order: int) -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(3, 0.5), size=CELLS.n_cells).astype(np.float32)
    priors, gamma = np.array([[0.6, 1.3], [0.1, 0.2], [2.0, 0.5]]), np.array([0.4, 0.1, 1.2])
    expected = naive_pass(order, shares, priors, gamma)
    r = shares.astype(np.float64)
    sums = []
    for values in (r, r * (1 - r)):
        rows, columns = np.zeros((40, 2, 3)), np.zeros((25, 3))
        np.add.at(rows, (ROWS, BITS), values)
        np.add.at(columns, COLUMNS, values)
        sums.append((rows, columns))
    (row_counts, column_counts), (row_variances, column_variances) = sums
    found = shares.copy()
    if order == 0:
        change = pass_zero_order(LISTED, (priors, gamma), found, row_counts, column_counts)
    else:
        change = pass_second_order(
            LISTED, (priors, gamma), found, (row_counts, column_counts), (row_variances, column_variances)
        )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    assert np.isclose(change, np.abs(found.astype(np.float64) - shares).sum(), rtol=1e-6)
    again = np.zeros_like(column_counts)
    np.add.at(again, COLUMNS, found.astype(np.float64))
    np.testing.assert_allclose(column_counts, again, rtol=1e-12)


def test_columns_are_drawn_from_streams_of_their_own(rng: np.random.Generator) -> None:
    """The words of the key in their order, and the column: the draw does not depend on where a block begins."""
    counts, concentration = rng.integers(0, 9, (5, 3)).astype(np.int32), np.array([0.5, 0.2, 0.9])
    words, out, expected = Key(3, stage=2, chain=1, iteration=4).words, np.zeros((5, 3)), np.zeros((5, 3))
    draw_columns(counts, concentration, words, 2, 5, out)
    for f in range(2, 5):
        stream = new_stream()
        seek(stream, *words, f)
        dirichlet(stream, concentration + counts[f], expected[f])
    np.testing.assert_array_equal(out, expected)
