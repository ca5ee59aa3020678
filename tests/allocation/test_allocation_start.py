"""Where fits of the allocation model start from."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from partwise import AllocationNMF
from partwise.allocation.inference import gibbs, labels, squares, variational
from partwise.allocation.inference.collapsed_variational import AllocationCollapsedVariational
from partwise.allocation.inference.labels import MANY_COMPONENTS, best_order, first_feature_counts
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.poisson.inference.multiplicative import Multiplicative

MODEL = AllocationModel(200, 10, 0.05, 0.1, 40.0, 0.4)
SOON = {"burn_in": 20, "n_draws": 5}
FEW: dict[str, dict[str, int]] = {"vb": {}, "cvb0": {}, "gibbs": SOON, "gibbs-partial": SOON}


def noise(key: Key, data: Any, model: AllocationModel, *_: Any) -> np.ndarray:
    """Features dealt out at random, in the place of KL-NMF."""
    weights = key.for_stage("init").generator().exponential(size=(data.shape[1], model.n_components)) + 0.1
    return weights * (data.column_sums / weights.sum(axis=1))[:, None]


def worst_cosine(inference: str, seed: int) -> float:
    """Of the true parts and those that are found."""
    drawn = MODEL.simulate(Key(seed), 300)
    found = AllocationNMF(
        10,
        dictionary_concentration=0.05,
        activation_concentration=0.1,
        inference=inference,
        n_chains=1,
        random_state=0,
        progress=False,
        **FEW[inference],
    ).fit(drawn.counts)
    cosines = found.components_ @ drawn.dictionary
    cosines /= np.outer(np.linalg.norm(found.components_, axis=1), np.linalg.norm(drawn.dictionary, axis=0))
    return float(cosines[linear_sum_assignment(cosines, maximize=True)].min())


@pytest.mark.parametrize("inference", FEW)
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_all_parts_are_found_soon(inference: str, seed: int) -> None:
    assert worst_cosine(inference, seed) > 0.95


@pytest.mark.parametrize(("inference", "module"), [("vb", variational), ("gibbs", labels)])
def test_from_noise_they_are_not(inference: str, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "first_feature_counts", noise)
    assert min(worst_cosine(inference, seed) for seed in (4, 5)) < 0.5


def test_unequal_concentrations_get_the_best_of_all_orders() -> None:
    rng = np.random.default_rng(0)
    sample_counts = rng.poisson([0.5, 3.0, 9.0], (20, 3)).astype(float)
    feature_counts = np.full((4, 3), 5.0)
    for concentration in ([0.1, 5.0, 1.0], [5.0, 0.1, 1.0], [1.0, 5.0, 0.1]):
        model = AllocationModel(4, 3, 0.5, concentration)
        scores = {order: model.log_sums(sample_counts[:, order], feature_counts) for order in permutations(range(3))}
        assert tuple(best_order(model, sample_counts)) == max(scores, key=lambda order: scores[order])
    assert best_order(AllocationModel(4, 3), sample_counts).tolist() == [0, 1, 2]


@pytest.mark.parametrize("concentration", [0.3, [0.1, 2.0, 5.0]])
def test_counts_are_those_of_the_data(concentration: Any) -> None:
    data = CountMatrix.build(np.random.default_rng(0).poisson(2.0, (12, 7)))
    model = AllocationModel(7, 3, 0.5, concentration)
    counts = first_feature_counts(Key(0), data, model, "random", resolve_engine())
    assert counts.shape == (7, 3)
    # Equal where KL-NMF has converged, which it has not.
    np.testing.assert_allclose(counts.sum(axis=1), data.column_sums, rtol=1e-2)


@pytest.mark.parametrize(("iterations", "n_steps"), [(3000, 30), (50, 16), (3, 10)])
def test_large_data_start_from_steps_of_em(iterations: int, n_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "_LARGE_WORK", 0)
    monkeypatch.setattr(labels, "_EM_ITERATIONS", iterations)
    data, engine, key = CountMatrix.build(np.random.default_rng(0).poisson(2.0, (12, 7))), resolve_engine(), Key(0)
    solver = Multiplicative(3, "random", engine)
    factors = solver.init(key, data)
    for iteration in range(1, n_steps + 1):
        factors, _ = solver.step(key.at(iteration), data, factors)
    counts = first_feature_counts(key, data, AllocationModel(7, 3, 0.5, 0.3), "random", engine)
    np.testing.assert_allclose(counts, factors.dictionary * factors.activations.sum(axis=0), rtol=1e-12)


def test_large_data_start_from_some_of_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.default_rng(0).poisson(0.5, (400, 30)).astype(float)
    counts[np.random.default_rng(1).random(counts.shape) < 0.02] = np.nan
    data, model = CountMatrix.build(counts), AllocationModel(30, 3, 0.5, [0.1, 2.0, 5.0])
    assert labels.chosen_rows(Key(0), data, 3) is None
    monkeypatch.setattr(labels, "_LARGE_WORK", 0)
    monkeypatch.setattr(labels, "_NONZEROS", 1000)
    rows = labels.chosen_rows(Key(0), data, 3)
    assert rows is not None
    assert np.diff(rows).min() > 0
    sizes = np.diff(data.indptr)[rows]
    assert 1000 <= sizes.sum() < 1000 + np.diff(data.indptr).max()
    assert labels.chosen_rows(Key(0), data, 90).size == 360
    monkeypatch.setattr(labels, "_NONZEROS", 10**6)
    assert labels.chosen_rows(Key(0), data, 1) is None
    monkeypatch.setattr(labels, "_ROWS", 150)
    assert labels.chosen_rows(Key(0), data, 1).size == 150
    assert labels.chosen_rows(Key(0), data, 3) is None
    monkeypatch.setattr(labels, "_NONZEROS", 1000)
    some = data.take(rows)
    np.testing.assert_array_equal(some.to_scipy().toarray(), data.to_scipy()[rows].toarray())
    np.testing.assert_array_equal(some.missing_matrix().toarray(), data.missing_matrix()[rows].toarray())
    found = first_feature_counts(Key(0), data, model, "random", resolve_engine())
    assert found.sum() == pytest.approx(data.total, rel=0.05)
    given = np.ones((400, 3)), np.random.default_rng(2).random((3, 30))
    assert first_feature_counts(Key(0), data, model, given, resolve_engine()).shape == (30, 3)


def refused(*_: Any) -> Any:
    raise LookupError("KL-NMF")


def test_many_parts_start_without_kl_nmf(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.default_rng(0).poisson(0.5, (12, 7))
    settings: dict[str, Any] = {"burn_in": 1, "n_draws": 1, "n_chains": 2, "random_state": 0, "progress": False}
    sums: list[float] = []
    looked = [lambda _iteration, state, _trace: sums.extend(each.sum() for each in state.activation_concentration)]
    monkeypatch.setattr(gibbs, "guide_counts", refused)
    for inference in ("gibbs", "gibbs-partial"):
        AllocationNMF(MANY_COMPONENTS, inference=inference, callbacks=looked, **settings).fit(counts)
    assert sums == pytest.approx([20.0] * 8)
    sums.clear()
    AllocationNMF(MANY_COMPONENTS, activation_concentration=0.5, callbacks=looked, **settings).fit(counts)
    assert sums == [0.5 * MANY_COMPONENTS] * 4
    given = np.ones((12, MANY_COMPONENTS)), np.ones((MANY_COMPONENTS, 7))
    for start in ({"init": given}, {"init": "nndsvd"}, {"seeds": {"a": [0, 1]}}, {"n_components": MANY_COMPONENTS - 1}):
        with pytest.raises(LookupError, match="KL-NMF"):
            AllocationNMF(**{"n_components": MANY_COMPONENTS, **settings, **start}).fit(counts)


@pytest.mark.parametrize("n_rows", [1, 2, 37])
def test_many_parts_start_from_half_of_the_rows(n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.default_rng(0).poisson(0.5, (n_rows, 19)).astype(float)
    counts[0, 0], counts[-1, 3] = 3.0, np.nan
    data, sizes = CountMatrix.build(counts), []
    models = [AllocationModel(19, 5, 0.1, 0.2)] * 2
    keys = [Key(3).for_chain(chain) for chain in range(2)]
    monkeypatch.setattr(squares, "_TOKENS_PER_PART", 1)
    monkeypatch.setattr(labels, "MANY_COMPONENTS", 1)
    real = squares.sweep_squares
    monkeypatch.setattr(squares, "sweep_squares", lambda *args: (sizes.append(args[1].shape[0]), real(*args)))
    found = [labels.TokenLabels.none_yet(data, 5, 2) for _ in range(2)]
    for threads, state in enumerate(found, start=1):
        squares.label_by_halves(keys, data, models, state, resolve_engine(None, threads))
    expected = {1: [], 2: [1] * 16, 37: [n for n in (1, 2, 3, 5, 10, 19) for _ in range(16)]}[n_rows]
    assert sizes == expected * 2
    rows, features = (np.repeat(each, data.values.astype(int)) for each in data.to_scipy().tocoo().coords)
    for chain in range(2):
        own, by_row, by_feature, by_part = found[0].of_chain(chain)
        for places, counted in ((rows, by_row), (features, by_feature[:, :5])):
            table = np.zeros(counted.shape, int)
            np.add.at(table, (places, own), 1)
            np.testing.assert_array_equal(counted, table)
        np.testing.assert_array_equal(by_part, np.bincount(own, minlength=5))
        np.testing.assert_array_equal(own, found[1].labels[chain])
    assert n_rows == 1 or np.any(found[0].labels[0] != found[0].labels[1])


def test_guide_leaves_room_for_the_counts_of_the_data() -> None:
    data = CountMatrix.build(np.array([[2**30, 3], [2**30 - 9, 2]]))
    guide, sums = labels.guide_counts(Key(0), data, AllocationModel(2, 2), "random", resolve_engine())
    assert guide.min() >= 0
    assert float(guide.max()) + data.total < 2**31
    assert sums.tolist() == guide.sum(axis=0).tolist()


def test_counts_of_cvb0_are_those_of_its_responsibilities() -> None:
    counts = np.random.default_rng(0).poisson(0.5, (20, 9)) * 10**6
    data = CountMatrix.build(counts)
    state = AllocationCollapsedVariational(AllocationModel(9, 3, 0.001, 0.001), resolve_engine()).init(Key(0), data)
    tokens = state.responsibilities.astype(np.float64) * data.values[:, None]
    by_feature = np.zeros((9, 3))
    np.add.at(by_feature, data.indices, tokens)
    by_sample = np.add.reduceat(tokens, data.indptr[:-1][np.diff(data.indptr) > 0])
    np.testing.assert_allclose(state.feature_counts, by_feature, rtol=1e-13)
    np.testing.assert_allclose(state.sample_counts[np.diff(data.indptr) > 0], by_sample, rtol=1e-13)
