"""Sweeps replayed in plain Python: the same random numbers, all weights anew from the labels of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from mutants import mutant
from partwise.allocation.inference.labels import padded_width
from partwise.allocation.kernels import partial
from partwise.allocation.kernels.collapsed import sweep_tokens
from partwise.allocation.kernels.partial import draw_weights, sweep_rows
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines.blocks import first_tokens
from partwise.kernels.lanes import LANES
from partwise.sampling.draws import label_type
from replay import Uniforms, choice

ALPHA = np.array([0.4, 1.3, 0.8, 0.2, 0.6])
KEY = Key(7, stage=3, chain=1, iteration=5)
COUNTS = np.array([[2, 0, 1, 3, 0], [0, 1, 2, 0, 4], [0, 0, 0, 0, 0], [1, 1, 0, 2, 5]])
ROWS, FEATURES = (np.repeat(index, COUNTS.ravel()) for index in np.indices(COUNTS.shape).reshape(2, -1))


def in_lanes(n_components: int) -> np.ndarray:
    """Components in the order of their lanes, in which a draw goes through them."""
    return np.array([k for lane in range(LANES) for k in range(lane, n_components, LANES)])


def replay(
    labels: np.ndarray,
    n_components: int,
    tile: int,
    first_row: int,
    row_keys: int,
    rows: tuple[int, int],
    weights: Any,
    features: tuple[int, int] = (0, 5),
) -> np.ndarray:
    """The labels after a sweep; ``weights`` are those of a token given the labels of the others, -1 being none."""
    labels = np.where(labels == n_components, -1, labels.astype(int))
    order = in_lanes(n_components)
    inside = (features[0] <= FEATURES) & (features[1] > FEATURES)
    for t in range(1, -(-COUNTS.shape[1] // tile) + 1):
        for n in range(*rows):
            uniforms = Uniforms(KEY.words, first_row + n + row_keys * t)
            for i in np.flatnonzero((n == ROWS) & inside & ((FEATURES - features[0]) // tile == t - 1)):
                labels[i] = -1
                labels[i] = order[choice(weights(labels, n, FEATURES[i])[order], uniforms.next())]
    return labels


def counted(labels: np.ndarray, places: np.ndarray, n_places: int, n_components: int) -> np.ndarray:
    out = np.zeros((n_places, n_components), np.int64)
    np.add.at(out, (places[labels >= 0], labels[labels >= 0]), 1)
    return out


CASES = [(1, 5, False), (2, 2, False), (3, 3, True), (8, 1, False), (11, 2, True)]


@pytest.mark.parametrize(("n_components", "tile", "unlabelled"), CASES)
@pytest.mark.parametrize("rows", [(0, 4), (1, 3)])
@pytest.mark.parametrize(("collapsed", "features"), [(True, (0, 5)), (True, (1, 4)), (False, (0, 5))])
def test_a_sweep_is_the_textbook_one(
    n_components: int, tile: int, unlabelled: bool, rows: tuple[int, int], collapsed: bool, features: tuple[int, int]
) -> None:
    rng = np.random.default_rng(n_components)
    beta = rng.gamma(1.0, size=n_components)
    width = padded_width(n_components)
    data = CountMatrix.build(COUNTS)
    labels = rng.integers(n_components + unlabelled, size=ROWS.size).astype(label_type(n_components + 1))
    given = np.where(labels == n_components, -1, labels.astype(int))
    dictionary = np.zeros((5, width), np.float32)
    dictionary[:, :n_components] = rng.gamma(1.0, size=(5, n_components))
    factors, others = rng.gamma(1.0, size=(2, n_components))

    def collapsed_weights(labels: np.ndarray, n: int, f: int) -> np.ndarray:
        by_feature, by_sample = (
            counted(labels, FEATURES, 5, n_components),
            counted(labels, ROWS, 4, n_components),
        )
        return factors * (ALPHA[f] + by_feature[f]) / (others + by_feature.sum(axis=0)) * (beta + by_sample[n])

    def partial_weights(labels: np.ndarray, n: int, f: int) -> np.ndarray:
        return dictionary[f, :n_components].astype(float) * (beta + counted(labels, ROWS, 4, n_components)[n])

    weights = collapsed_weights if collapsed else partial_weights
    expected = replay(labels, n_components, tile, 100, 9, rows, weights, features)
    sample_counts = counted(given, ROWS, 4, n_components).astype(np.int32)
    feature_counts = np.zeros((5, width), np.int32)
    listed = data.indptr, data.indices, data.values, first_tokens(data)
    if collapsed:
        feature_counts[:, :n_components] = counted(given, FEATURES, 5, n_components)
        components = counted(given, FEATURES, 5, n_components).sum(axis=0)
        given = (factors, others), tile, KEY.words, (100, 9), (*rows, *features)
        sweep_tokens(listed, (ALPHA, beta), *given, (labels, sample_counts, feature_counts, components))
        np.testing.assert_array_equal(components, feature_counts.sum(axis=0)[:n_components])
        swept = np.ones(ROWS.size, bool)
    else:
        keys = KEY.words, (100, 9, *rows)
        sweep_rows(listed, dictionary, beta, tile, *keys, (labels, sample_counts, feature_counts))
        swept = (rows[0] <= ROWS) & (rows[1] > ROWS)
    np.testing.assert_array_equal(np.where(labels == n_components, -1, labels.astype(int)), expected)
    np.testing.assert_array_equal(sample_counts, counted(expected, ROWS, 4, n_components))
    np.testing.assert_array_equal(
        feature_counts[:, :n_components], counted(expected[swept], FEATURES[swept], 5, n_components)
    )
    assert not feature_counts[:, n_components:].any()


def smallest_p_value_of_weights(drawing: Any) -> float:
    """Of Kolmogorov-Smirnov tests of drawn weights, for features with and without counts, above the smallest weight."""
    p_values = []
    for shape, count in ((0.01, 0), (0.3, 0), (0.9, 0), (2.5, 0), (0.3, 1)):
        counts, drawn = np.full((40, 500), count, np.int32), np.zeros((40, 504), np.float32)
        drawing(counts, np.full(40, shape), 500, KEY.words, 0, 40, drawn)
        assert not drawn[:, 500:].any()
        values, law = drawn[:, :500].astype(float).ravel(), stats.gamma(shape + count)
        above = values[values > 1.1e-30]
        below = law.cdf(1e-30)
        p_values.append(stats.binomtest(values.size - above.size, values.size, below).pvalue)
        p_values.append(stats.kstest((law.cdf(above) - below) / (1.0 - below), "uniform").pvalue)
    return float(min(p_values))


# A false alarm in 1 of 1,000 seeds.
def test_weights_are_gamma_distributed() -> None:
    assert smallest_p_value_of_weights(draw_weights) > 1e-4


@pytest.mark.parametrize(
    "changes",
    [{"if p <= lowest": "if p <= 1.2 * lowest"}, {"1.0 / shape)": "0.9 / shape)"}, {">= drawn": ">= 2.0 * drawn"}],
)
def test_a_planted_bug_in_the_weights_shows(changes: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "_small_gamma", mutant(partial._small_gamma, changes))
    assert smallest_p_value_of_weights(mutant(draw_weights, {})) < 1e-4
