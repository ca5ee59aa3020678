"""Merges and removals: which are tried, what they keep, and what they gain."""

from __future__ import annotations

import numpy as np
import pytest

from partwise import CountMatrix, GammaPoissonNMF
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.gamma_poisson import GammaPoissonModel
from partwise.gamma_poisson.inference.posterior import posterior_draws
from partwise.gamma_poisson.inference.pruning import Merging, Removing, _in_all_data, _taken_over
from partwise.likelihood import exact
from partwise.passes.side import cell_rates

ENGINE = resolve_engine()
# Components 0 and 2 share one part, 1 and 4 another one, and 3 is empty.
PARTS = np.array([[6.0, 2.0], [2.0, 1.0], [0.0, 12.0], [0.5, 6.0]])
TWICE = np.column_stack((0.7 * PARTS[:, 0], 0.4 * PARTS[:, 1], 0.3 * PARTS[:, 0], np.zeros(4), 0.6 * PARTS[:, 1]))
SPLIT = GammaPoissonModel(TWICE, shape=[1.0, 0.8, 1.0, 1.0, 0.8], rate=[1.0, 2.0, 1.0, 1.0, 2.0])
DATA = CountMatrix.build(GammaPoissonModel(PARTS, shape=[1.0, 0.8], rate=[1.0, 2.0]).simulate(Key(1), 120))


def activations(n_draws: int = 2) -> list[np.ndarray]:
    model = SPLIT.dictionary, SPLIT.shape, SPLIT.rate
    draws = [posterior_draws(Key(5).for_chain(c), DATA, model, ENGINE, n_draws=1, burn_in=20) for c in range(n_draws)]
    return [draw[0] for draw in draws]


def test_components_are_paired_with_those_most_like_them() -> None:
    assert sorted(Merging(DATA, SPLIT, False).candidates()) == [(0, 2), (4, 1)], "the larger of both is kept"
    assert Merging(DATA, GammaPoissonModel(TWICE * [1, 0, 0, 0, 0]), False).candidates() == []


@pytest.mark.parametrize("estimate_shape", [False, True])
def test_merges_are_disjoint_gain_and_keep_the_means(estimate_shape: bool) -> None:
    merges = Merging(DATA, SPLIT, estimate_shape).find(Key(3), activations())
    assert sorted((merge.kept, merge.absorbed) for merge in merges) == [(0, 2), (4, 1)]
    assert merges[0].gain >= merges[1].gain > 0.0, "the best comes first"
    dictionary, shape = SPLIT.dictionary.copy(), SPLIT.shape.copy()
    for merge in merges:
        dictionary[:, merge.absorbed] = 0.0
        dictionary[:, merge.kept], shape[merge.kept] = merge.column, merge.shape
    merged = GammaPoissonModel(dictionary, shape, SPLIT.rate)
    np.testing.assert_allclose(merged.mean(), SPLIT.mean(), rtol=1e-10)
    gain = exact(DATA, dictionary, shape, SPLIT.rate).total - exact(DATA, TWICE, SPLIT.shape, SPLIT.rate).total
    # Jensen's inequality: what is promised is at most what is gained, up to its own error.
    errors = float(np.sqrt(sum(merge.error**2 for merge in merges)))
    assert 0.5 * gain < sum(merge.gain for merge in merges) < gain + 4.0 * errors


def test_only_one_of_two_overlapping_merges_is_made() -> None:
    three = np.column_stack((0.4 * PARTS[:, 0], 0.35 * PARTS[:, 0], 0.25 * PARTS[:, 0], PARTS[:, 1]))
    model = GammaPoissonModel(three, shape=[1.0, 1.0, 1.0, 0.8], rate=[1.0, 1.0, 1.0, 2.0])
    drawn = [
        posterior_draws(Key(c), DATA, (three, model.shape, model.rate), ENGINE, n_draws=1, burn_in=20)[0]
        for c in range(2)
    ]
    merges = Merging(DATA, model, False).find(Key(3), drawn)
    used = [k for merge in merges for k in (merge.kept, merge.absorbed)]
    assert len(merges) == 1
    assert len(used) == len(set(used))


def test_what_two_components_hold_is_their_share() -> None:
    merging, (drawn,) = Merging(DATA, SPLIT, False), activations(1)
    rates = drawn @ TWICE.T
    rows = np.repeat(np.arange(120), np.diff(DATA.indptr))
    cells = cell_rates(drawn, SPLIT.dictionary, rows, DATA.indices)
    np.testing.assert_allclose(cells, rates[rows, DATA.indices], rtol=1e-12)
    n_draws, pair = 300, [0, 4]
    held = sum(merging._held(Key(2).at(number), pair, drawn, cells).to_scipy().toarray() for number in range(n_draws))
    share = (drawn[:, pair] @ TWICE[:, pair].T) / rates
    X = DATA.to_scipy().toarray()
    variance = X * share * (1.0 - share) * n_draws
    certain = variance < 1e-9
    np.testing.assert_allclose(held[certain], (n_draws * X * share)[certain], atol=1e-6)
    # 400 cells or so: six standard errors, a false alarm in 1e-6 of seeds.
    assert np.abs((held - n_draws * X * share)[~certain] / np.sqrt(variance[~certain])).max() < 6.0


def test_what_a_component_held_is_taken_over(rng: np.random.Generator) -> None:
    counts = rng.gamma(1.0, size=(5, 4))
    counts[2] = [0.0, 0.0, 3.0, 0.0]  # of which the others hold nothing
    counts[4] = 0.0
    others = _taken_over(counts, 2)
    np.testing.assert_allclose(others.sum(axis=1), counts.sum(axis=1), rtol=1e-12)
    assert not others[:, 2].any()
    kept = [0, 1, 3]
    np.testing.assert_allclose(others[0, kept] / others[0, 0], counts[0, kept] / counts[0, 0], rtol=1e-4)
    assert np.all(others[2, kept] > 0)


def test_gains_of_some_samples_stand_for_all(rng: np.random.Generator) -> None:
    gains = rng.normal(size=50)
    assert _in_all_data(gains, 4.0, 1.0) == (pytest.approx(gains.sum()), pytest.approx(2.0))
    # Of 50 out of 200 samples, without replacement: the textbook error of an estimated total, and the noise besides.
    gain, error = _in_all_data(gains, 4.0, 4.0)
    assert gain == pytest.approx(200 * gains.mean())
    sampling = 200**2 * (1 - 50 / 200) * np.var(gains, ddof=1) / 50
    assert error == pytest.approx(np.sqrt(sampling + 4.0**2 * 4.0))


def test_a_superfluous_component_is_removed_and_a_needed_one_stays(rng: np.random.Generator) -> None:
    # A component of a few counts that overlaps with both parts.
    extra = np.column_stack((PARTS, 0.02 * (PARTS[:, 0] + PARTS[:, 1])))
    model = GammaPoissonModel(extra, shape=[1.0, 0.8, 1.0], rate=[1.0, 2.0, 1.0])
    means = model.shape / model.rate * extra.sum(axis=0)
    counts = DATA.row_sums[:, None] * means / means.sum()
    found = Removing(DATA, ENGINE, 1).find(Key(0), model, counts)
    assert found is not None
    smaller, gain, error = found
    np.testing.assert_array_equal(smaller.model.dictionary.sum(axis=0) > 0, [True, True, False])
    np.testing.assert_allclose(smaller.sample_counts.sum(axis=1), DATA.row_sums, rtol=1e-6)
    before = exact(DATA, extra, model.shape, model.rate)
    after = exact(DATA, smaller.model.dictionary[:, :2], model.shape[:2], model.rate[:2])
    assert gain == pytest.approx(after.total - before.total, abs=4.0 * error + 0.5)
    two = GammaPoissonModel(PARTS, shape=[1.0, 0.8], rate=[1.0, 2.0])
    assert Removing(DATA, ENGINE, 1).find(Key(0), two, counts[:, :2]) is None


@pytest.mark.parametrize("seed", [2, 4])
def test_estimated_shapes_reach_what_exact_em_reaches(seed: int) -> None:
    """Gains of dictionaries and of shapes fall at rates of their own; mixed up, a fit ended 0.15 to 1.9 nats early."""
    rng = np.random.default_rng(seed)
    parts, shapes = rng.dirichlet(np.full(6, 0.5), size=2) * 12, np.array([0.3, 2.0])
    X = rng.poisson(rng.gamma(shapes, 1 / shapes, size=(40, 2)) @ parts)
    thorough, exact_em = (
        GammaPoissonNMF(2, shape="estimate", inference=inference, random_state=0, **settings).fit(X)
        for inference, settings in (("thorough", {}), ("exact-em", {"max_iter": 3000, "tol": 1e-6}))
    )
    reached, wanted = (exact(X, model.components_.T, model.shape_, model.rate_).total for model in (thorough, exact_em))
    assert reached >= wanted - 0.05
