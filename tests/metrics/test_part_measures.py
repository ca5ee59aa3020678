"""Coherence, diversity, similarity, representative samples, groups and times: against definitions and simulation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from partwise import PoissonNMF, Table
from partwise.errors import InvalidInputError
from partwise.metrics import (
    coherence,
    diversity,
    part_measures,
    part_similarity,
    parts_by_group,
    parts_over_time,
    representative_samples,
)
from partwise.metrics.samples import shares_of_groups, time_bins

RNG = np.random.default_rng(5)
X = RNG.poisson(0.6, size=(40, 12))
MODEL = PoissonNMF.from_components(RNG.gamma(0.5, size=(3, 12)))


def test_coherence_is_its_definition_pair_by_pair() -> None:
    expected = []
    for weights in MODEL.components_:
        values = []
        for i, j in combinations(np.argsort(-weights)[:5], 2):
            one, other = X[:, i] > 0, X[:, j] > 0
            both = np.mean(one & other)
            values.append(-1.0 if both == 0 else np.log(both / (one.mean() * other.mean())) / -np.log(both))
        expected.append(np.mean(values))
    np.testing.assert_allclose(coherence(MODEL, X, n=5), expected, rtol=1e-12)


def test_coherence_in_another_corpus_goes_by_names() -> None:
    names = np.array([f"w{f}" for f in range(12)])
    named = PoissonNMF.from_components(MODEL.components_, feature_names=names)
    order = RNG.permutation(12)
    shuffled = Table(X[:, order], column_labels=names[order])
    np.testing.assert_allclose(coherence(named, shuffled), coherence(MODEL, X), rtol=1e-12)
    fewer = Table(X[:, :1], column_labels=names[:1])
    assert np.isnan(coherence(named, fewer)).all()
    with pytest.raises(InvalidInputError, match="X has 1 features and the model 12"):
        coherence(MODEL, X[:, :1])
    # features of every sample tell nothing, and features that never meet count -1
    pair = PoissonNMF.from_components([[1, 1]])
    assert coherence(pair, [[1, 1], [2, 3]]).tolist() == [0.0]
    assert coherence(pair, [[1, 0], [0, 3]]).tolist() == [-1.0]


def test_diversity_and_similarity() -> None:
    assert diversity(PoissonNMF.from_components(np.eye(3)), n=2) == 1.0
    assert diversity(PoissonNMF.from_components(np.ones((4, 2))), n=2) == 0.25
    found = part_similarity(MODEL)
    shares = MODEL.feature_importance()
    for k, other in combinations(range(3), 2):
        assert found[k, other] == pytest.approx(1 - jensenshannon(shares[k], shares[other], 2) ** 2)
    assert part_similarity(PoissonNMF.from_components([[1, 0], [0, 1], [1, 0]])).tolist() == [
        [1, 0, 1],
        [0, 1, 0],
        [1, 0, 1],
    ]
    measures = part_measures(MODEL, X)
    assert measures["coherence"] == pytest.approx(coherence(MODEL, X).mean())
    assert set(measures) == {"coherence", "diversity"}


def test_representative_samples_are_not_the_shortest() -> None:
    model = PoissonNMF.from_components([[1, 0], [0, 1]])
    counts = np.array([[1, 0], [90, 2], [1, 50], [40, 40], [0, 0], [0, 30]])
    found = representative_samples(model, n=2, activations=counts.astype(float))
    assert [row for row, _ in found[0]] == [1, 0]
    assert found[0][0][1] == pytest.approx(90 / 92)
    assert [row for row, _ in found[1]] == [2, 5]
    assert all(len(part) == 2 for part in found)


def test_shares_of_groups_have_intervals_that_cover() -> None:
    # 400 groups of 30 samples. Larger shares are covered at 95%, very skewed ones (0.1) at 93%, as 1,500 groups showed;
    # fewer hits than these have a probability below 1e-3 in all.
    rng = np.random.default_rng(11)
    truth = np.array([0.6, 0.3, 0.1])
    made, groups = [], []
    for group in range(400):
        totals = rng.gamma(2.0, 50.0, size=30)
        made.append(totals[:, None] * rng.dirichlet(4 * truth, size=30))
        groups += [f"{group:03d}"] * 30
    found = shares_of_groups(np.vstack(made), groups)
    for k in range(3):
        hits = np.sum((found.low[:, k] <= truth[k]) & (truth[k] <= found.high[:, k]))
        assert (364, 364, 354)[k] <= hits <= 396, (k, hits)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    # half as wide intervals would be noticed
    narrow = 0.5 * (found.high - found.low)
    middle = found.shares
    hits = np.sum(np.abs(middle[:, 0] - truth[0]) <= narrow[:, 0] / 2)
    assert hits < 362


def test_groups_and_times_come_with_the_table() -> None:
    table = Table(X).with_metadata(group=["a", "b", "b", ""] * 10, time=[str(2000 + n % 4) for n in range(40)])
    by_group = parts_by_group(MODEL, table)
    assert by_group.labels == ["a", "b"]
    assert by_group.n_samples.tolist() == [10, 20]
    assert np.all((by_group.low <= by_group.shares) & (by_group.shares <= by_group.high))
    over_time = parts_over_time(MODEL, table)
    assert over_time.labels == ["2000", "2001", "2002", "2003"]
    alone = parts_by_group(MODEL, table, groups=[*"a" * 39, "b"])
    assert alone.low[1].tolist() == [0, 0, 0]
    assert alone.high[1].tolist() == [1, 1, 1]
    with pytest.raises(InvalidInputError, match="X has no metadata 'time': give times="):
        parts_over_time(MODEL, X)
    with pytest.raises(InvalidInputError, match="there are 1 groups for 40 samples"):
        parts_by_group(MODEL, X, ["a"])


def test_times_are_taken_together() -> None:
    days = [f"20{y:02d}-{m:02d}-{d:02d}" for y in range(3) for m in range(1, 13) for d in (1, 15)]
    labels, order = time_bins(days)
    assert order == ["2000", "2001", "2002"]
    assert labels[0] == "2000"
    assert time_bins(days[:48:2])[1][0] == "2000-01-01"
    assert len(time_bins(days[:24] + ["2000-01-02"] * 3 + [f"2000-02-{d:02d}" for d in range(2, 12)])[1]) == 12
    labels, order = time_bins([str(n / 7) for n in range(100)])
    assert len(order) == 15
    assert labels[-1] == order[-1]
    with pytest.raises(InvalidInputError, match="the time 'May' is neither"):
        time_bins(["2001-02-03", "May"])
    with pytest.raises(InvalidInputError, match="finite"):
        time_bins(["inf", "1"])
