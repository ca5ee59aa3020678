"""Lists of likely and of similar features, their scores, and which part made the counts of a cell."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import ndcg_score

from partwise import BinaryNMF, GammaPoissonNMF, PoissonNMF, Table
from partwise.contract import popular_features
from partwise.errors import InvalidInputError
from partwise.metrics import ranking_scores


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.poisson(rng.gamma(0.4, 2.0, (60, 3)) @ rng.dirichlet([0.3] * 30, 3) * 10)


@pytest.fixture(scope="module")
def model(counts: np.ndarray) -> PoissonNMF:
    return PoissonNMF(3, random_state=0).fit(Table(counts, column_labels=np.array([f"f{f}" for f in range(30)])))


def test_recommend_names_what_a_row_has_not(model: PoissonNMF, counts: np.ndarray, monkeypatch) -> None:
    monkeypatch.setattr("partwise.contract.lists._CELLS_AT_ONCE", 100)  # several blocks
    names = np.array([f"row {n}" for n in range(60)])
    table = Table(counts[:, ::-1], row_labels=names, column_labels=np.array([f"f{f}" for f in range(29, -1, -1)]))
    lists = model.recommend(table, n=4)
    expected = model.inverse_transform(model.transform(table))
    expected[counts > 0] = -np.inf
    np.testing.assert_array_equal(lists.positions, np.argsort(-expected, axis=1, kind="stable")[:, :4])
    assert lists.row_names == names.tolist()
    assert lists.features[7] == [f"f{f}" for f in lists.positions[7]]
    assert lists.columns()["place"][:5] == [1, 2, 3, 4, 1]
    np.testing.assert_allclose(lists.values, -np.sort(-expected, axis=1)[:, :4], rtol=1e-12)
    threads = PoissonNMF.from_components(model.components_, n_jobs=2).recommend(counts, n=4)
    np.testing.assert_array_equal(threads.positions, lists.positions)
    np.testing.assert_array_equal(threads.values, lists.values)


def test_everything_seen_ends_a_list(model: PoissonNMF, counts: np.ndarray) -> None:
    full = np.ones((1, 30))
    full[0, [3, 5]] = 0
    lists = model.recommend(Table(full, column_labels=model.feature_names_in_.astype(str)), n=5)
    assert sorted(lists.positions[0].tolist()) == [-1, -1, -1, 3, 5]
    assert len(lists.features[0]) == 2
    seen = model.recommend(Table(full, column_labels=model.feature_names_in_.astype(str)), n=50, exclude_seen=False)
    assert sorted(seen.positions[0]) == list(range(30))


def test_an_empty_row_gets_what_is_popular(model: PoissonNMF, counts: np.ndarray) -> None:
    empty = Table(np.zeros((1, 30)), column_labels=model.feature_names_in_.astype(str))
    popular = np.argsort(-counts.sum(axis=0), kind="stable")[:5]
    assert len(set(model.recommend(empty, n=5).positions[0]) & set(popular)) >= 4
    assert model.recommend(empty, n=5).values[0, 0] > 0
    gamma = GammaPoissonNMF(3, random_state=0, max_iter=30, tol=0.0).fit(counts)
    assert len(set(gamma.recommend(np.zeros((1, 30)), n=5).positions[0]) & set(popular)) >= 4


def test_bits_are_recommended_by_probability(counts: np.ndarray) -> None:
    bits = (counts > 0).astype(float)
    model = BinaryNMF(3, n_draws=20, burn_in=20, random_state=0).fit(bits)
    lists = model.recommend(bits, n=3)
    probabilities = np.where(bits > 0, -np.inf, model.expected(model.transform(bits)))
    np.testing.assert_array_equal(lists.positions, np.argsort(-probabilities, axis=1, kind="stable")[:, :3])


def test_similar_features_come_from_the_same_parts() -> None:
    X = np.kron(np.eye(3), np.ones((8, 4))) * 5
    model = PoissonNMF(3, random_state=0).fit(X)
    assert sorted(model.similar_features(5, n=3).positions[0]) == [4, 6, 7]
    assert model.similar_features(["feature 0", "feature 11"], n=2).row_names == ["feature 0", "feature 11"]
    with pytest.raises(InvalidInputError, match="there is no feature 'x': give a name, or a position below 12"):
        model.similar_features("x")
    with pytest.raises(InvalidInputError, match="n must be at least 1"):
        model.recommend(X, n=0)


def test_scores_agree_with_other_formulas() -> None:
    rng = np.random.default_rng(1)
    relevant = (rng.random((40, 25)) < 0.2).astype(int)
    relevant[3] = 0
    scores = rng.random((40, 25))
    lists = np.argsort(-scores, axis=1)[:, :7]
    found = ranking_scores(lists, sp.csr_array(relevant))
    rows = np.flatnonzero(relevant.sum(axis=1))
    assert found.n_rows == rows.size == 39 - (relevant.sum(axis=1) == 0).sum() + 1
    each = [ndcg_score(relevant[[n]], scores[[n]], k=7) for n in rows]
    assert found.ndcg.mean == pytest.approx(np.mean(each))
    assert found.ndcg.std_error == pytest.approx(np.std(each, ddof=1) / np.sqrt(rows.size))
    hits = np.take_along_axis(relevant, lists, axis=1).sum(axis=1)[rows]
    assert found.precision.mean == pytest.approx(np.mean(hits / 7))
    assert found.recall.mean == pytest.approx(np.mean(hits / relevant.sum(axis=1)[rows]))
    with pytest.raises(InvalidInputError, match="one list per row"):
        ranking_scores(lists[:3], relevant)
    with pytest.raises(InvalidInputError, match="nothing to score"):
        ranking_scores(lists, 0 * relevant)


def test_lists_beat_popularity_where_parts_differ(counts: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    truth = rng.gamma(0.2, 1.0, (300, 4)) @ rng.dirichlet([0.1] * 60, 4) * 60
    train, test = rng.poisson(truth), rng.poisson(truth)
    test[train > 0] = 0
    model = PoissonNMF(4, random_state=0).fit(train)
    ours = ranking_scores(model.recommend(train, n=5).positions, test)
    popular = ranking_scores(popular_features(train, 5), test)
    assert ours.ndcg.mean > popular.ndcg.mean + 3 * popular.ndcg.std_error


def test_allocate(model: PoissonNMF, counts: np.ndarray) -> None:
    table = Table(counts, column_labels=model.feature_names_in_.astype(str))
    found = model.allocate(table)
    activations = model.transform(table)
    n, f = np.nonzero(counts)
    np.testing.assert_array_equal(found.rows, n)
    np.testing.assert_array_equal(found.columns, f)
    np.testing.assert_array_equal(found.counts, counts[n, f])
    joint = activations[n] * model.components_[:, f].T
    np.testing.assert_allclose(found.probabilities, joint / joint.sum(axis=1, keepdims=True), rtol=1e-12)
    # At the maximum, the counts that a part made are its activation.
    made = np.zeros_like(activations)
    np.add.at(made, n, found.counts[:, None] * found.probabilities)
    np.testing.assert_allclose(made, activations, rtol=1e-4, atol=1e-2)
    assert list(found.table())[:4] == ["sample", "feature", "count", "part 0"]
