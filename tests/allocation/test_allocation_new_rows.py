"""Activations of new rows: beside plain NumPy, and beside all labellings of short rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from partwise.allocation.inference.new_rows import STOP, expected_activations
from partwise.allocation.kernels.new_rows import mean_sample_counts
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.engines import resolve_engine

ENGINE = resolve_engine()
BETA = np.array([0.5, 1.6, 0.9, 0.05])


def plain(
    x: np.ndarray, w: np.ndarray, stop: tuple[float, float], most: int = 32, beta: np.ndarray = BETA
) -> np.ndarray:
    """The same updates of one row in double precision, all parts kept as arrays; from ``most`` cells on, long steps."""
    cells = np.flatnonzero(x)
    x, w = x[cells].astype(float), w[cells]
    many = cells.size >= most
    together, beyond, share = (4, 1.5, 2 * stop[1]) if many else (1, 1.0, stop[1])
    passes, little = (4, 2.0) if many and beta.size >= 256 else (2, 0.5)
    before, totals = np.zeros(beta.size), np.zeros(beta.size)
    for step in range(passes):
        before = np.maximum(before + (1 if step < 2 else 2) * (totals - before), 0.0)
        q = w * (beta + before)
        q /= q.sum(axis=1, keepdims=True)
        totals = x @ q
    kept = totals > little * beta
    if 4 * -(-kept.sum() // 8) > 3 * -(-beta.size // 8):
        kept[:] = True
    # Parts aside hold what they hold without one of their own words.
    held = beta + np.where(kept, totals, totals - (x @ q**2) / np.maximum(totals, 1e-300))
    q[:, ~kept] = 0.0
    for _ in range(min(int(x.sum() / stop[0]), 200)):
        latest = held.copy()
        for first in range(0, cells.size, together):
            some = slice(first, first + together)
            new = w[some] * (held - q[some])
            new /= new.sum(axis=1, keepdims=True)
            new = np.where(kept, np.maximum(q[some] + beyond * (new - q[some]), 0.0), 0.0)
            held += x[some] @ (new - q[some])
            q[some] = new
        if np.abs(held - latest).sum() <= share * x.sum():
            break
    final = w * (held - q)
    return np.asarray(x @ (final / final.sum(axis=1, keepdims=True)))


@pytest.mark.parametrize("n_features", [12, 51])
@pytest.mark.parametrize("stop", [(1e9, 0.0), (10.0, 0.0), (0.5, 0.1), STOP])
@pytest.mark.parametrize("n_parts", [4, 50, 300])
def test_updates_are_those_of_plain_numpy(
    rng: np.random.Generator, stop: tuple[float, float], n_features: int, n_parts: int
) -> None:
    counts = rng.poisson(1.0, size=(30, n_features)) * rng.integers(1, 4, size=(30, n_features))
    counts[3] = 0
    # Of 51 features some rows have fewer than 32, and most have more.
    counts[4, 12:] = 0
    dictionary = rng.dirichlet(np.full(n_features, 0.3), size=n_parts).T + 1e-6
    beta = BETA if n_parts == BETA.size else rng.uniform(0.01, 0.2, size=n_parts).astype(np.float32)
    data = CountMatrix.build(counts)
    out = np.empty((30, n_parts))
    cells = data.indptr, data.indices, data.values
    mean_sample_counts(cells, dictionary.astype(np.float32), beta.astype(np.float32), stop, out)
    expected = np.array([plain(row, dictionary, stop, beta=beta) for row in counts])
    np.testing.assert_allclose(out, expected, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(out.sum(axis=1), counts.sum(axis=1), rtol=1e-5)


def test_long_rows_end_nearer_to_where_their_updates_lead(rng: np.random.Generator) -> None:
    dictionary = rng.dirichlet(np.full(80, 0.5), size=4).T + 1e-6
    rates = rng.dirichlet(BETA, size=30) @ dictionary.T
    counts = np.array([rng.multinomial(200, row / row.sum()) for row in rates])
    assert (np.count_nonzero(counts, axis=1) >= 32).all()
    model = AllocationModel(80, 4, 1.0, BETA, 1.0, 1e-9)
    found = expected_activations(CountMatrix.build(counts), model, dictionary, ENGINE)
    limit, short = (BETA + [plain(row, dictionary, stop, most=1000) for row in counts] for stop in ((1.0, 0.0), STOP))
    far, farther = (
        np.abs(one / one.sum(axis=1, keepdims=True) - limit / limit.sum(axis=1, keepdims=True)).sum()
        for one in (found, short)
    )
    assert far < 0.6 * farther


def posterior_mean(features: np.ndarray, w: np.ndarray) -> np.ndarray:
    """E[S_k | tokens], by all labellings of the tokens."""
    labels = np.array(list(np.ndindex(*[BETA.size] * features.size)))
    totals = (labels[:, :, None] == np.arange(BETA.size)).sum(axis=1)
    logs = np.log(w[features, labels]).sum(axis=1) + gammaln(BETA + totals).sum(axis=1)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights @ totals / weights.sum())


def test_short_rows_are_near_the_posterior_mean(rng: np.random.Generator) -> None:
    dictionary = rng.dirichlet(np.full(10, 0.5), size=4).T + 1e-6
    drawn = [rng.choice(10, size=6, p=dictionary[:, k] / dictionary[:, k].sum()) for k in range(4) for _ in range(5)]
    data = CountMatrix.build(np.array([np.bincount(features, minlength=10) for features in drawn]))
    model = AllocationModel(10, 4, 1.0, BETA, 1.0, 1.0)
    found = expected_activations(data, model, dictionary, ENGINE)
    found /= found.sum(axis=1, keepdims=True)
    exact = np.array([posterior_mean(features, dictionary) for features in drawn]) + BETA
    exact /= exact.sum(axis=1, keepdims=True)
    # Half of the sum of differences: the shares that are wrong. The prior alone is wrong by half of the tokens.
    wrong = 0.5 * np.abs(found - exact).sum(axis=1)
    alone = 0.5 * np.abs(BETA / BETA.sum() - exact).sum(axis=1)
    assert wrong.mean() < 0.03 < 0.25 < alone.mean()
    assert wrong.max() < 0.08


def test_activations_are_shares_of_expected_lengths(rng: np.random.Generator) -> None:
    model = AllocationModel(5, 4, 1.0, BETA, 3.0, 0.7)
    dictionary = rng.dirichlet(np.ones(5), size=4).T
    dictionary[1] = 0.0  # no part holds this feature
    counts = np.array([[2, 0, 1, 3, 0], [0, 1, 2, 0, 4], [0, 0, 0, 0, 0], [1, 1, 0, 2, 5]])
    found = expected_activations(CountMatrix.build(counts), model, dictionary, ENGINE)
    shares = BETA + np.array([plain(row, dictionary, STOP) for row in counts * [1, 0, 1, 1, 1]])
    lengths = (3.0 + counts.sum(axis=1)) / 1.7
    np.testing.assert_allclose(found, lengths[:, None] * shares / shares.sum(axis=1, keepdims=True), rtol=1e-4)


def test_the_scale_of_features_and_the_number_of_rows_do_not_matter(rng: np.random.Generator) -> None:
    dictionary = rng.dirichlet(np.full(40, 0.3), size=4).T + 1e-9
    data = CountMatrix.build(rng.poisson(0.5, size=(50, 40)))
    model = AllocationModel(40, 4, 1.0, BETA, 1.0, 1.0)
    found = expected_activations(data, model, dictionary, ENGINE)
    tiny = dictionary * 10.0 ** -rng.integers(0, 200, size=(40, 1))
    np.testing.assert_allclose(expected_activations(data, model, tiny, ENGINE), found, rtol=1e-4)
    # One row uses a few features, and only these rows of the dictionary.
    np.testing.assert_array_equal(expected_activations(data.rows(7, 8), model, dictionary, ENGINE), found[7:8])
