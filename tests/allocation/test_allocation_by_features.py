"""Sweeps feature by feature: replayed in plain Python, against enumeration, and with planted bugs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_allocation_samplers import distance_from_enumeration, smallest_p_value

from mutants import mutant
from partwise import AllocationNMF, on_disk
from partwise.allocation.inference import labels as labels_module
from partwise.allocation.inference import partial as partial_module
from partwise.allocation.inference.gibbs import AllocationCollapsedGibbs
from partwise.allocation.inference.labels import MANY_COMPONENTS, TokenLabels, padded_width
from partwise.allocation.inference.partial import AllocationPartialGibbs
from partwise.allocation.kernels import by_features
from partwise.allocation.kernels.by_features import room_for, sweep_by_features, sweep_rows_by_features
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines.blocks import first_tokens
from partwise.sampling.draws import label_type
from replay import Uniforms, choice

KEY = Key(7, stage=3, chain=1, iteration=5)
COUNTS = np.random.default_rng(2).poisson(1.2, size=(6, 30)) * (np.arange(6) != 2)[:, None]
COUNTS[:, 4] = 0
ROWS, FEATURES = (np.repeat(index, COUNTS.ravel()) for index in np.indices(COUNTS.shape).reshape(2, -1))
ALPHA = np.random.default_rng(3).gamma(1.0, size=30)


ALL = (0, 6, 0, 30)


def in_order(labels: np.ndarray, by_sample: np.ndarray) -> list[list[int]]:
    """Components of each row: those of its labels as they come, then those of tokens without labels."""
    own = [[k for k in dict.fromkeys(labels[n == ROWS].tolist()) if k < row.size] for n, row in enumerate(by_sample)]
    return [[*first, *(k for k in np.flatnonzero(by_sample[n]) if k not in first)] for n, first in enumerate(own)]


def replayed(
    sweep: Any, n_components: int, unlabelled: bool, prior: float, block: Any = ALL, hidden: bool = True
) -> tuple[np.ndarray, ...]:
    """Labels as they should be and as they are, and the counts after the sweep.

    Where ``hidden``, cells without labels, as missing ones, count for some rows besides.
    """
    rng = np.random.default_rng(n_components)
    beta = prior * rng.gamma(1.0, size=n_components)
    labels = rng.integers(n_components + unlabelled, size=ROWS.size).astype(label_type(n_components + 1))
    known = labels < n_components
    by_sample, by_feature = np.zeros((6, n_components), np.int32), np.zeros((30, padded_width(n_components)), np.int32)
    np.add.at(by_sample, (ROWS[known], labels[known]), 1)
    np.add.at(by_feature, (FEATURES[known], labels[known]), 1)
    besides = hidden * rng.poisson(0.2, size=by_sample.shape)
    by_sample += besides.astype(np.int32)
    factors, rest = rng.gamma(1.0, size=(2, n_components))

    expected = labels.astype(int)
    present = in_order(labels, by_sample)
    for f in range(block[2], block[3]):
        uniforms = Uniforms(KEY.words, f)
        for i in np.flatnonzero((f == FEATURES) & (block[0] <= ROWS) & (block[1] > ROWS)):
            others, n = (np.arange(ROWS.size) != i) & (expected < n_components), ROWS[i]
            of_feature = np.bincount(expected[others & (f == FEATURES)], minlength=n_components)
            of_all = np.bincount(expected[others], minlength=n_components)
            of_row = besides[n] + np.bincount(expected[others & (n == ROWS)], minlength=n_components)
            own = present[n]
            if expected[i] < n_components and of_row[expected[i]] == 0:
                place = own.index(expected[i])
                own[place] = own[-1]
                own.pop()
            ratios = factors * (ALPHA[f] + of_feature) / (rest + of_all)
            order = np.array([*own, *range(n_components)])
            numbers = np.concatenate([of_row[own], beta])
            expected[i] = order[choice(ratios[order] * numbers, uniforms.next())]
            if expected[i] not in own:
                own.append(int(expected[i]))

    data, components = CountMatrix.build(COUNTS), by_feature.sum(axis=0, dtype=np.int64)[:n_components].copy()
    columns = data.transposed
    cells = columns.indptr, columns.indices, columns.values, first_tokens(data)
    state = labels, by_sample, by_feature, components
    room = room_for(block[:2], n_components, labels, cells[-1], hidden)
    sweep(cells, (ALPHA, beta), (factors, rest), KEY.words, block, hidden, room, state)
    np.testing.assert_array_equal(components, by_feature.sum(axis=0)[:n_components])
    return expected, labels, by_sample - besides, by_feature


def counted(labels: np.ndarray, places: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    out = np.zeros(shape, int)
    np.add.at(out, (places, labels), 1)
    return out


# Fewer components than a group of a row, as many as one group of all, and several of both.
@pytest.mark.parametrize("n_components", [1, 3, 8, 16, 17, 50])
@pytest.mark.parametrize(("unlabelled", "prior"), [(False, 1.0), (True, 1.0), (True, 0.01)])
def test_a_sweep_is_the_textbook_one(n_components: int, unlabelled: bool, prior: float) -> None:
    expected, labels, by_sample, by_feature = replayed(sweep_by_features, n_components, unlabelled, prior)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(by_sample, counted(expected, ROWS, (6, n_components)))
    np.testing.assert_array_equal(by_feature, counted(expected, FEATURES, by_feature.shape))


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("block", [(1, 6, 0, 30), (0, 4, 7, 21), (3, 6, 20, 30), (2, 3, 0, 30), (0, 6, 4, 5)])
def test_a_sweep_of_a_block_is_the_textbook_one(block: Any, hidden: bool) -> None:
    n_components = 17
    expected, labels, by_sample, by_feature = replayed(sweep_by_features, n_components, False, 1.0, block, hidden)
    np.testing.assert_array_equal(labels, expected)
    np.testing.assert_array_equal(by_sample, counted(expected, ROWS, (6, n_components)))
    np.testing.assert_array_equal(by_feature, counted(expected, FEATURES, by_feature.shape))


BUGS: dict[str, dict[str, str]] = {
    "the token counts itself in its feature": {"parts, old, -1,": "parts, old, 0,"},
    "the token counts itself in its row": {
        "(row_numbers[j] - 1) *": "row_numbers[j] *",
        "size = _taken_out(row, row_numbers, ratios, running, j, size)": "size = size + 0",
    },
    "sums of groups stay as they were": {"running[j // _ENTRIES] += difference": "running[j // _ENTRIES] += 0.0"},
    "the sum of a row stays as it was": {"own_sum += difference": "own_sum += 0.0"},
    "the prior is left out": {"(beta, sums, prior_sum)": "(beta, sums, 0.0)"},
    "concentrations of another feature": {"dictionary_concentration[f]": "dictionary_concentration[-1 - f]"},
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_replay_finds_a_planted_bug(bug: str) -> None:
    planted = mutant(sweep_by_features, BUGS[bug])
    with pytest.raises(AssertionError):  # noqa: PT012  # any of the comparisons may find it
        expected, labels, *_ = replayed(planted, 17, False, 1.0)
        np.testing.assert_array_equal(labels, expected)


def replayed_rows(sweep: Any, n_components: int, rows: tuple[int, int], prior: float) -> None:
    """Compare the sweep of some rows given a dictionary with that in plain Python; some labels are not there yet."""
    rng = np.random.default_rng(n_components)
    beta = prior * rng.gamma(1.0, size=n_components)
    dictionary = np.zeros((30, padded_width(n_components)), np.float32)
    dictionary[:, :n_components] = rng.gamma(0.3, size=(30, n_components))
    labels = rng.integers(n_components + 1, size=ROWS.size).astype(label_type(n_components + 1))
    by_sample, by_feature = np.zeros((6, n_components), np.int32), np.zeros(dictionary.shape, np.int32)
    known = labels < n_components
    np.add.at(by_sample, (ROWS[known], labels[known]), 1)
    besides = rng.poisson(0.2, size=by_sample.shape).astype(np.int32)
    by_sample += besides

    expected, present = labels.astype(int), in_order(labels, by_sample)
    inside = (rows[0] <= ROWS) & (rows[1] > ROWS)
    for f in range(30):
        uniforms = Uniforms(KEY.words, 40 + rows[0] + 100 * f)
        for i in np.flatnonzero(inside & (f == FEATURES)):
            n, own = ROWS[i], present[ROWS[i]]
            others = (np.arange(ROWS.size) != i) & (expected < n_components) & (n == ROWS)
            of_row = besides[n] + np.bincount(expected[others], minlength=n_components)
            if expected[i] < n_components and of_row[expected[i]] == 0:
                own[own.index(expected[i])] = own[-1]
                own.pop()
            order = np.array([*own, *range(n_components)])
            numbers = np.concatenate([of_row[own], beta])
            expected[i] = order[choice(dictionary[f, order].astype(float) * numbers, uniforms.next())]
            if expected[i] not in own:
                own.append(int(expected[i]))

    data = CountMatrix.build(COUNTS)
    tokens = data.indptr, data.indices, data.values, first_tokens(data)
    room = room_for(rows, n_components, labels, tokens[-1], True)
    sweep(tokens, dictionary, beta, KEY.words, (40, 100, *rows), True, room, (labels, by_sample, by_feature))
    np.testing.assert_array_equal(labels, expected)
    counts = counted(expected[inside], FEATURES[inside], by_feature.shape)
    np.testing.assert_array_equal(by_feature, counts)
    by_row = counted(expected[inside], ROWS[inside], by_sample.shape)[slice(*rows)]
    np.testing.assert_array_equal(by_sample[slice(*rows)], by_row + besides[slice(*rows)])


@pytest.mark.parametrize("n_components", [1, 8, 17, 50])
@pytest.mark.parametrize(("rows", "prior"), [((0, 6), 1.0), ((1, 4), 0.01)])
def test_a_sweep_of_rows_is_the_textbook_one(n_components: int, rows: tuple[int, int], prior: float) -> None:
    replayed_rows(sweep_rows_by_features, n_components, rows, prior)


ROW_BUGS: dict[str, dict[str, str]] = {
    "the token counts itself": {
        "-= weights[old]": "-= 0.0",
        "size = _taken_out(row, row_numbers, weights, running, j, size)": "size = size + 0",
    },
    "the sum of a row stays as it was": {"own_sum += weights[new]": "own_sum += 0.0"},
    "the prior is left out": {"(beta, sums, prior_sum)": "(beta, sums, 0.0)"},
    "the dictionary of another feature": {"= dictionary[f, ": "= dictionary[-1 - f, "},
}


@pytest.mark.parametrize("bug", ROW_BUGS)
def test_the_replay_of_rows_finds_a_planted_bug(bug: str) -> None:
    with pytest.raises(AssertionError):
        replayed_rows(mutant(sweep_rows_by_features, ROW_BUGS[bug]), 17, (0, 6), 1.0)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels_module, "MANY_COMPONENTS", 1)
    monkeypatch.setattr(partial_module, "MANY_COMPONENTS", 1)


SAMPLERS = [AllocationCollapsedGibbs, AllocationPartialGibbs]


@pytest.mark.slow  # every draw is replayed above
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_agrees_with_enumeration(sampler: Any) -> None:
    # As for the other samplers: twice the 1e-4 quantile, as draws four sweeps apart are a little dependent.
    assert distance_from_enumeration(sampler, 40_000) < 2.0


# A false alarm in 1 of 1,000 seeds.
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("missing", [False, pytest.param(True, marks=pytest.mark.slow)])  # drawn as by other sweeps
def test_the_joint_distribution_is_kept(sampler: Any, missing: bool) -> None:
    assert smallest_p_value(sampler, missing=missing) > 1e-3


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "bug",
    ["the token counts itself in its row", pytest.param("concentrations of another feature", marks=pytest.mark.slow)],
)
def test_the_joint_distribution_shows_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels_module, "sweep_by_features", mutant(by_features.sweep_by_features, BUGS[bug]))
    assert smallest_p_value(AllocationCollapsedGibbs, n_chains=600) < 1e-3


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    "bug", ["the token counts itself", pytest.param("the dictionary of another feature", marks=pytest.mark.slow)]
)
def test_the_joint_distribution_shows_a_planted_bug_in_rows(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_module, "sweep_rows_by_features", mutant(sweep_rows_by_features, ROW_BUGS[bug]))
    assert smallest_p_value(AllocationPartialGibbs, n_chains=600) < 1e-3


@pytest.mark.parametrize("inference", ["gibbs", "gibbs-partial"])
def test_threads_change_nothing(inference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_module, "TARGET_NONZEROS", 1)  # several blocks of rows
    settings: dict[str, Any] = {"inference": inference, "n_draws": 2, "burn_in": 1, "n_chains": 2, "random_state": 0}
    one, two = (AllocationNMF(MANY_COMPONENTS, **settings, n_jobs=n).fit(np.tile(COUNTS, (20, 1))) for n in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.activations_, two.activations_)


def test_a_sweep_is_the_same_from_disk(tmp_path: Path) -> None:
    model = AllocationModel(30, MANY_COMPONENTS, ALPHA, 0.1)
    swept = []
    for data in (CountMatrix.build(COUNTS), on_disk(COUNTS, tmp_path / "rows")):
        state = TokenLabels.none_yet(data, MANY_COMPONENTS, 1)
        for iteration in range(3):
            state.sweep(KEY.at(iteration), data, model, 0)
        swept.append(state.labels[0])
    np.testing.assert_array_equal(*swept)
    assert (swept[0] < MANY_COMPONENTS).all()


def test_parts_are_padded_to_whole_lanes() -> None:
    assert [padded_width(n_components) for n_components in (1, 7, 8, 9, 17)] == [8, 8, 8, 16, 24]
