"""Comparisons by lists: scores against plain loops, popularity, and what a folder of fits remembers."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from partwise import PoissonNMF
from partwise.core.data import BinaryMatrix, CountMatrix
from partwise.core.keys import Key
from partwise.engines import LocalEngine
from partwise.engines.dask import DaskEngine
from partwise.errors import EmptyRowsWarning, InvalidInputError
from partwise.selection import compare
from partwise.selection.fitting import cell_fold, count_fold
from partwise.selection.list_scores import ListMetric


@pytest.fixture(scope="module")
def plays() -> np.ndarray:
    rng = np.random.default_rng(0)
    found = rng.poisson(rng.gamma(0.3, 12.0, size=(120, 3)) @ rng.dirichlet(np.full(40, 0.2), size=3))
    found[7] = 0
    return found


def by_hand(metric: ListMetric, expected: np.ndarray, known: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Row by row: sort what is not known by expected values, and look how much of it is right."""
    scores = np.zeros(len(expected))
    for n in np.flatnonzero(right.any(axis=1)):
        order = [f for f in np.argsort(-expected[n], kind="stable") if not known[n, f]][: metric.n]
        hits = right[n, order]
        ideal = sum(1 / np.log2(place + 2) for place in range(min(right[n].sum(), metric.n)))
        scores[n] = {
            "ndcg": sum(hit / np.log2(place + 2) for place, hit in enumerate(hits)) / ideal,
            "precision": hits.sum() / metric.n,
            "recall": hits.sum() / right[n].sum(),
        }[metric.name]
    return scores


@pytest.mark.parametrize("name", ["ndcg@5", "precision@7", "recall@12"])
def test_rows_of_thinned_counts(plays: np.ndarray, name: str) -> None:
    metric = ListMetric.of(name)
    fold = count_fold(CountMatrix.build(plays), Key(1), 0)
    model = PoissonNMF(3, random_state=0).fit(fold.train)
    train, held = fold.train.to_scipy().astype(np.int64).toarray(), fold.held_out.toarray()
    right = (held > 0) & (train == 0)
    expected = model.training_activations(fold.train) @ model.components_
    expected[~train.any(axis=1)] = model.feature_frequencies()
    np.testing.assert_allclose(metric.of_model(model, fold), by_hand(metric, expected, train > 0, right))
    popular = np.tile(train.sum(axis=0), (len(train), 1))
    np.testing.assert_allclose(metric.of_popularity(fold), by_hand(metric, popular, train > 0, right))
    np.testing.assert_array_equal(metric.counted(fold), right.any(axis=1))
    # What a row has already is not new to it: lists with it would score differently.
    assert np.any(by_hand(metric, expected, train < 0, right) != metric.of_model(model, fold))


def test_rows_of_hidden_bits() -> None:
    rng = np.random.default_rng(1)
    bits = rng.random((60, 30)) < expit(rng.normal(size=(60, 1)) + 2 * rng.normal(size=30) - 1)
    fold, metric = cell_fold(BinaryMatrix.build(bits), Key(2), 0), ListMetric.of("ndcg@4")
    hidden, right = np.zeros(bits.shape, bool), np.zeros(bits.shape, bool)
    hidden[fold.rows, fold.columns] = True
    right[fold.rows, fold.columns] = fold.bits
    popular = np.tile(np.where(hidden, 0, bits).sum(axis=0), (60, 1))
    np.testing.assert_allclose(metric.of_popularity(fold), by_hand(metric, popular, ~hidden, right))


def test_rows_that_holding_out_empties_are_not_warned_of(plays: np.ndarray) -> None:
    one = plays.copy()
    one[:10] = 0
    one[:10, 0] = 1  # is held out, or is all that is left
    with warnings.catch_warnings():
        warnings.simplefilter("error", EmptyRowsWarning)
        compare(one, ["poisson"], [2], n_restarts=1, metric="ndcg@5", random_state=0)


def test_mean_and_standard_error_are_over_the_rows_that_count(plays: np.ndarray) -> None:
    found = compare(plays, ["poisson"], [3], n_restarts=1, metric="NDCG@5", random_state=0)
    assert found.noise is not None
    size = np.inf if found.noise.poisson else found.noise.size
    fold, metric = count_fold(CountMatrix.build(plays), Key(found.seed), 0, size), ListMetric.of("ndcg@5")
    (row, popularity), counts = found.table(), metric.counted(fold) > 0
    assert 10 < counts.sum() < len(plays)
    values = next(iter(found.fits.values())).rows[counts]
    assert row.score == pytest.approx(values.mean())
    assert row.std_error == pytest.approx(values.std(ddof=1) / np.sqrt(counts.sum()), rel=0.02)
    plain = metric.of_popularity(fold)[counts]
    assert (popularity.model, popularity.rank) == ("popularity", 0)
    assert popularity.score == pytest.approx(plain.mean())
    assert popularity.std_error == pytest.approx(plain.std(ddof=1) / np.sqrt(counts.sum()), rel=0.02)
    assert popularity.behind == pytest.approx(values.mean() - plain.mean())
    assert found.scale == "NDCG@5"
    assert not found.new_rows
    assert any("lists of the most popular features" in note for note in found.notes)


def test_same_numbers_by_threads_and_workers(plays: np.ndarray) -> None:
    data = CountMatrix.build(plays)
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        one, two = (
            compare(data, ["poisson"], [2, 3], n_restarts=2, metric="recall@5", random_state=0, engine=engine)
            for engine in (LocalEngine(2), DaskEngine(client))
        )
    assert [row.score for row in one.table()] == [row.score for row in two.table()]


def test_a_folder_knows_its_metric(plays: np.ndarray, tmp_path: Path) -> None:
    compare(plays, ["poisson"], [2], n_restarts=1, metric="ndcg@5", random_state=0, output=tmp_path)
    for other in (None, "ndcg@6"):
        with pytest.raises(InvalidInputError, match="differs in its metric"):
            compare(plays, ["poisson"], [2], n_restarts=1, metric=other, random_state=0, output=tmp_path)


@pytest.mark.parametrize("wrong", ["ndcg", "map@5", "ndcg@0", "ndcg@x", ""])
def test_unknown_metrics(plays: np.ndarray, wrong: str) -> None:
    with pytest.raises(InvalidInputError, match="such as ndcg@20"):
        compare(plays, ["poisson"], [2], metric=wrong)
