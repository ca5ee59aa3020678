"""Parallel collapsed sweeps: against enumeration and a joint distribution test, with planted bugs, on any threads."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln
from test_allocation_samplers import distance_from_enumeration, smallest_p_value

from partwise import AllocationNMF, on_disk
from partwise.allocation.inference import gibbs as gibbs_module
from partwise.allocation.inference import labels as labels_module
from partwise.allocation.inference.gibbs import AllocationCollapsedGibbs
from partwise.allocation.inference.labels import goes_by_features
from partwise.allocation.inference.squares import _cuts, number_of_squares, sweep_squares
from partwise.allocation.kernels.collapsed import count_blocks, keep_rows
from partwise.allocation.model import MANY_COMPONENTS, AllocationModel, SamplePrior
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines.blocks import first_tokens
from partwise.sampling.draws import exceeding

COUNTS = np.random.default_rng(2).poisson(1.2, size=(9, 7))


@pytest.fixture(params=[2, pytest.param(3, marks=pytest.mark.slow)])
def always(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gibbs_module, "number_of_squares", lambda data, _: min(request.param, *data.shape))


@pytest.fixture
def by_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels_module, "MANY_COMPONENTS", 1)


@pytest.mark.usefixtures("always")
def test_agrees_with_enumeration() -> None:
    # As for the other samplers: twice the 1e-4 quantile, as draws four sweeps apart are a little dependent.
    assert distance_from_enumeration(AllocationCollapsedGibbs, 40_000) < 2.0


# A false alarm in 1 of 1,000 seeds for each case.
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("missing", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_joint_distribution_is_kept(missing: bool) -> None:
    assert smallest_p_value(AllocationCollapsedGibbs, missing=missing) > 1e-3


@pytest.mark.usefixtures("always", "by_features")
def test_the_joint_distribution_is_kept_by_features() -> None:
    assert smallest_p_value(AllocationCollapsedGibbs) > 1e-3


BUGS = {
    "squares are taken for independent": (
        "totals[chain] = drawn / drawn.sum(axis=0), others",
        "totals[chain] = np.ones_like(drawn), others",
    ),
    "others count fully in each square": ("[chain]) / number", "[chain])"),
    "own tokens are not taken out": ("[chain] -= own.sum(axis=0)", "[chain] -= 0"),
}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=[pytest.mark.slow] if bug.startswith("o") else []) for bug in BUGS]
)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, (before, after) = inspect.getsource(sweep_squares), BUGS[bug]
    assert source.count(before) == 1
    namespace = dict(vars(sys.modules[sweep_squares.__module__]))
    exec(source.replace(before, after), namespace)
    monkeypatch.setattr(gibbs_module, "sweep_squares", namespace["sweep_squares"])
    assert distance_from_enumeration(AllocationCollapsedGibbs, 40_000) > 2.0


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("n_components", [3, MANY_COMPONENTS])
def test_threads_change_nothing(n_components: int) -> None:
    settings: dict[str, Any] = {"n_draws": 3, "burn_in": 2, "n_chains": 2, "random_state": 0}
    one, two = (AllocationNMF(n_components, **settings, n_jobs=n).fit(np.tile(COUNTS, (20, 1))) for n in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.activations_, two.activations_)
    np.testing.assert_allclose(one.activations_.sum(), 20 * COUNTS.sum(), rtol=0.1)


def test_squares_are_for_large_data() -> None:
    large = CountMatrix.build(np.full((40, 50), 500))
    assert number_of_squares(CountMatrix.build(COUNTS), 10) == 1
    assert number_of_squares(large, 10) == 4
    assert number_of_squares(large, MANY_COMPONENTS) == 2
    assert number_of_squares(CountMatrix.build(np.full((2, 50), 10_000)), 10) == 2
    assert number_of_squares(CountMatrix.build(np.full((50, 1), 20_000)), 10) == 1


def test_sweeps_go_by_features_with_many_parts_or_long_rows(tmp_path: Path) -> None:
    short, long = np.full((40, 50), 1), np.full((40, 50), 2)
    for counts, n_components, expected in (
        (short, 255, False),
        (short, 256, True),
        (long, 64, True),
        (long, 63, False),
    ):
        assert goes_by_features(CountMatrix.build(counts), n_components) == expected
    assert not goes_by_features(on_disk(long, tmp_path / "rows"), 64)


def test_one_row_may_hold_most_tokens() -> None:
    counts = np.vstack([np.full((1, 40), 9000), np.ones((5, 40), int)])
    found = AllocationNMF(3, n_draws=1, burn_in=1, n_chains=1, random_state=0).fit(counts)
    np.testing.assert_allclose(found.activations_.sum(axis=1), counts.sum(axis=1), rtol=0.3)


def test_blocks_are_counted() -> None:
    data, cuts = CountMatrix.build(COUNTS), np.array([0, 2, 2, 7])
    features = np.repeat(np.indices(COUNTS.shape)[1].ravel(), COUNTS.ravel())
    rows = np.repeat(np.indices(COUNTS.shape)[0].ravel(), COUNTS.ravel())
    labels = np.random.default_rng(0).integers(4, size=rows.size).astype(np.uint8)
    counts = np.zeros((3, 4), np.int64)
    count_blocks((data.indptr, data.indices, data.values, first_tokens(data)), cuts, 2, 6, labels, counts)
    inside = (rows >= 2) & (rows < 6)
    for b, (first, last) in enumerate([(0, 2), (2, 2), (2, 7)]):
        chosen = inside & (first <= features) & (last > features)
        np.testing.assert_array_equal(counts[b], np.bincount(labels[chosen], minlength=4))


def test_kept_rows_are_conditional_means() -> None:
    counts, prior = COUNTS.astype(np.int32), SamplePrior(np.array([0.1, 2.0, 0.5, 1.0, 3.0, 0.01, 7.0]), 6.0, 0.7)
    kept, sums = np.ones(counts.shape), np.empty(9)
    total = keep_rows(counts, prior.concentration, (6.0, 0.7), gammaln(prior.concentration), kept, sums)
    np.testing.assert_allclose(kept, 1.0 + prior.expected_activations(counts), rtol=1e-12)
    np.testing.assert_allclose(total, (gammaln(prior.concentration + counts) - gammaln(prior.concentration)).sum())
    np.testing.assert_array_equal(sums, counts.sum(axis=1))


@pytest.mark.parametrize(("size", "parts"), [(None, None), (9, None), (None, (2, 5)), (11, (6, 7))])
def test_counts_above_each_number(size: int | None, parts: tuple[int, int] | None) -> None:
    chosen = COUNTS[:, slice(*(parts or (0, 7)))]
    expected = (chosen[:, :, None] > np.arange(chosen.max() if size is None else size)).sum(axis=0)
    np.testing.assert_array_equal(exceeding(COUNTS, size, parts), expected)


def test_cuts_share_out_the_tokens() -> None:
    """Otherwise one square has most of the work, and threads wait for it."""
    sizes = np.random.default_rng(0).integers(1, 50, size=400)
    cuts = _cuts(sizes, 4)
    assert (cuts[0], cuts[-1]) == (0, 400)
    np.testing.assert_allclose(np.add.reduceat(sizes, cuts[:-1]), sizes.sum() / 4, atol=50)


def test_sweeps_in_pieces_agree_with_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """With at most two tokens in a call, rows and their features are cut. Bound as above."""
    monkeypatch.setattr(labels_module, "_TOKENS_AT_ONCE", 2)
    assert distance_from_enumeration(AllocationCollapsedGibbs, 40_000) < 2.0


def test_pieces_of_a_row_have_their_own_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With equal shares of all parts, labels are the uniform numbers: those of two pieces must differ."""
    monkeypatch.setattr(labels_module, "_TOKENS_AT_ONCE", 100)
    counts = CountMatrix.build(np.full((1, 2), 100))
    state = labels_module.TokenLabels.none_yet(counts, 4, 1)
    model = AllocationModel(2, 4, 1e9, 1e9, 1.0, 1.0)
    state.sweep(Key(0), counts, model, 0)
    first, second = state.labels[0][:100], state.labels[0][100:]
    assert 5 < np.count_nonzero(first == second) < 50  # 25 are expected, with a standard deviation of 4.3


def test_pieces_hold_few_tokens_or_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels_module, "_TOKENS_AT_ONCE", 10)
    sizes = np.array([9.0, 3, 4, 0, 25, 1, 2, 7, 1])
    assert labels_module._pieces(sizes, (0, 9)) == [(0, 1), (1, 4), (4, 5), (5, 8), (8, 9)]
    assert labels_module._pieces(sizes, (1, 3)) == [(1, 3)]
    assert labels_module._pieces(sizes, (4, 4)) == []
