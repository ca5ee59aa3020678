"""Labels of one sweep against their exact conditional probabilities, and sweeps replayed in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from binary_samples import cells_of
from scipy import stats

from partwise.binary.inference.cells import needed_bytes
from partwise.binary.kernels.cells import count_labels, draw_labels
from partwise.binary.kernels.collapsed import sweep_beta_dirichlet, sweep_dirichlet_dirichlet
from partwise.binary.kernels.partial import sweep_rows
from partwise.core.keys import Key
from partwise.kernels.alias import build_tables
from partwise.sampling.draws import label_type
from replay import Uniforms, choice

N_ROWS = 20_000
# beta and alpha of each component
PRIOR = np.array([[0.4, 0.5], [0.2, 0.9], [1.5, 0.3]])
N_FEATURES = 33
# Cells of a row, in the order of a sweep: (feature, bit, label). The share of a component rises where a
# cell of the other bit leaves it, and where one of this bit joins it; both must raise the bound of the acceptance.
LEAVING = [(0, 1, 0), (1, 0, 1), (2, 1, 2), *((f, 1, 1) for f in range(3, N_FEATURES))]
JOINING = [(0, 1, 0), (1, 1, 1), (2, 1, 2), *((f, 0, f % 3) for f in range(3, N_FEATURES))]
COLUMNS = np.tile([0.08, 0.75, 0.17], (N_FEATURES, 1))
COLUMNS[0] = [0.3, 0.5, 0.2]


def exact(cells: np.ndarray, n_drawn: int) -> np.ndarray:
    """Joint probabilities of the new labels of the first cells, by the chain rule over the order of visits."""
    bits = cells[:, 1]
    out = np.ones((3,) * n_drawn)
    for drawn in np.ndindex(*out.shape):
        labels = cells[:, 2].copy()
        for cell, new in enumerate(drawn):
            others = np.arange(len(cells)) != cell
            same = np.array([np.sum(others & (labels == k) & (bits[cell] == bits)) for k in range(3)])
            whole = np.array([np.sum(others & (labels == k)) for k in range(3)])
            weights = COLUMNS[cell] * (PRIOR[:, bits[cell]] + same) / (PRIOR.sum(axis=1) + whole)
            out[drawn] *= weights[new] / weights.sum()
            labels[cell] = new
    return out


@pytest.mark.parametrize("listed", [LEAVING, JOINING], ids=["leaving", "joining"])
@pytest.mark.parametrize("attempts", [0, 1, 20])
def test_labels_of_a_sweep_have_their_conditional_probabilities(
    listed: list[tuple[int, int, int]], attempts: int
) -> None:
    cells = np.array(listed)
    codes = np.tile(2 * cells[:, 0] + cells[:, 1], N_ROWS).astype(np.uint32)
    labels = np.tile(cells[:, 2], N_ROWS).astype(np.uint8)
    rows = np.repeat(np.arange(N_ROWS), len(cells))
    starts = np.arange(N_ROWS + 1, dtype=np.int64) * len(cells)
    row_counts, column_counts = np.zeros((N_ROWS, 3, 2), np.int32), np.zeros((N_FEATURES, 3), np.int32)
    np.add.at(row_counts, (rows, labels, codes & 1), 1)
    thresholds, aliases = np.empty_like(COLUMNS), np.empty(COLUMNS.shape, np.int32)
    build_tables(COLUMNS, 0, N_FEATURES, thresholds, aliases)
    tables = COLUMNS, thresholds, aliases
    counts = labels, row_counts, column_counts
    sweep_rows((starts, codes), PRIOR, tables, attempts, Key(attempts).words, (0, 0, N_ROWS), *counts)
    found = np.zeros((3, 3, 3))
    np.add.at(found, tuple(labels.reshape(N_ROWS, len(cells))[:, :3].T), 1)
    expected = exact(cells, 3) * N_ROWS
    assert expected.min() > 5.0
    # over the 27 cells of the joint table; a false alarm in 1 of 1,000 seeds
    assert stats.chisquare(found.ravel(), expected.ravel()).pvalue > 1e-3
    again = np.zeros_like(row_counts)
    np.add.at(again, (rows, labels, codes & 1), 1)
    np.testing.assert_array_equal(row_counts, again)
    np.testing.assert_array_equal(column_counts.sum(axis=1), N_ROWS)
    np.testing.assert_array_equal(column_counts[0], np.bincount(labels[:: len(cells)], minlength=3))


TABLE = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, np.nan]])
WHERE = np.argwhere(~np.isnan(TABLE))
N_SWEEPS = 20_000
Labels = tuple[int, ...]


def after_one_sweep(start: Labels, choices: Callable[[Labels, int], dict[int, float]]) -> dict[Labels, float]:
    """Probabilities of all labels after a sweep, by the chain rule; ``choices`` of a cell are given the others."""
    reached = {start: 1.0}
    for cell in range(len(start)):
        later: Counter[Labels] = Counter()
        for labels, probability in reached.items():
            weights = choices(labels, cell)
            for label, weight in weights.items():
                new = (*labels[:cell], label, *labels[cell + 1 :])
                later[new] += probability * weight / sum(weights.values())
        reached = dict(later)
    return reached


def assert_drawn_from(found: Counter[Labels], exact: dict[Labels, float]) -> None:
    assert set(found) <= set(exact)
    observed, expected = (np.array([part[key] for key in exact]) for part in (found, exact))
    expected = expected * found.total()
    rare = expected < 5.0
    observed, expected = (np.append(part[~rare], part[rare].sum()) for part in (observed, expected))
    statistic = np.sum((observed - expected) ** 2 / np.maximum(expected, 1.0))
    # a false alarm in 1 of 10,000 seeds
    assert statistic < stats.chi2.ppf(1 - 1e-4, expected.size - 1)


@pytest.mark.parametrize("attempts", [0, 2])
def test_a_collapsed_sweep_of_beta_dirichlet(attempts: int) -> None:
    own, concentration, cells = np.array([[0.2, 0.3], [0.7, 0.1]]), np.array([0.6, 0.25]), cells_of(TABLE)
    start = (0, 1, 0, 1, 1)
    bits = TABLE[tuple(WHERE.T)]

    def choices(labels: Labels, cell: int) -> dict[int, float]:
        others = np.arange(len(labels)) != cell
        row, column = (others & (WHERE[:, axis] == WHERE[cell, axis]) for axis in (0, 1))
        at = [np.array(labels) == k for k in range(2)]
        return {
            k: (concentration[k] + np.sum(column & at[k]))
            * (own[k, int(bits[cell])] + np.sum(row & at[k] & (bits == bits[cell])))
            / (own[k].sum() + np.sum(row & at[k]))
            for k in range(2)
        }

    by_columns = np.lexsort((WHERE[:, 0], WHERE[:, 1]))
    first = np.array(start, np.uint8)[by_columns]
    first_counts = np.zeros((2, 2, 2), np.int32), np.zeros((3, 2), np.int32)
    listed = cells.row_starts, cells.codes, cells.column_starts
    count_labels(listed, first, *first_counts)
    found: Counter[Labels] = Counter()
    for seed in range(N_SWEEPS):
        labels, rows, columns = first.copy(), first_counts[0].copy(), first_counts[1].copy()
        words = Key(seed, iteration=attempts).words
        sweep_beta_dirichlet(listed, (own, concentration), attempts, words, labels, rows, columns)
        by_rows = np.empty_like(labels)
        by_rows[by_columns] = labels
        found[tuple(map(int, by_rows))] += 1
    assert_drawn_from(found, after_one_sweep(start, choices))


@pytest.mark.parametrize("attempts", [0, 2])
def test_a_collapsed_sweep_of_dirichlet_dirichlet(attempts: int) -> None:
    concentration, row_concentration = np.array([0.6, 0.2, 1.1]), np.array([0.4, 0.9, 0.05])
    cells, n_components = cells_of(TABLE, "dir-dir"), 3
    bits = TABLE[tuple(WHERE.T)]
    # a pair (z, c) as the number 3 z + c: equal for a one, different for a zero
    start = (0, 1, 8, 2, 4)

    def choices(labels: Labels, cell: int) -> dict[int, float]:
        z, c = np.divmod(np.array(labels), n_components)
        others = np.arange(len(labels)) != cell
        row, column = (others & (WHERE[:, axis] == WHERE[cell, axis]) for axis in (0, 1))
        by_column = concentration + np.bincount(z[column], minlength=n_components)
        by_row = row_concentration + np.bincount(c[row], minlength=n_components)
        pairs = np.outer(by_column, by_row)
        allowed = np.eye(n_components, dtype=bool) == bool(bits[cell])
        return {int(pair): float(pairs.ravel()[pair]) for pair in np.flatnonzero(allowed)}

    by_columns = np.lexsort((WHERE[:, 0], WHERE[:, 1]))
    z, c = (part.astype(np.uint8) for part in np.divmod(np.array(start), n_components))
    rows, columns = np.zeros((2, n_components), np.int32), np.zeros((3, n_components), np.int32)
    np.add.at(rows, (WHERE[:, 0], c), 1)
    np.add.at(columns, (WHERE[:, 1], z), 1)
    listed = cells.row_starts, cells.codes, cells.column_starts
    found: Counter[Labels] = Counter()
    for seed in range(N_SWEEPS):
        labels, row_labels, counts = z[by_columns], c.copy(), (rows.copy(), columns.copy())
        words = Key(seed, iteration=attempts).words
        sweep_dirichlet_dirichlet(
            listed, (concentration, row_concentration), attempts, words, (labels, row_labels), *counts
        )
        by_rows = np.empty_like(labels)
        by_rows[by_columns] = labels
        found[tuple(int(pair) for pair in n_components * by_rows.astype(int) + row_labels)] += 1
    again = np.zeros_like(rows), np.zeros_like(columns)
    np.add.at(again[0], (WHERE[:, 0], row_labels), 1)
    np.add.at(again[1], (WHERE[:, 1], by_rows), 1)
    np.testing.assert_array_equal(counts[0], again[0])
    np.testing.assert_array_equal(counts[1], again[1])
    exact = after_one_sweep(start, choices)
    assert_drawn_from(found, exact)


def test_first_labels_are_drawn_from_responsibilities() -> None:
    rng = np.random.default_rng(0)
    zeros, ones, columns = rng.random((2, 4)), rng.random((2, 4)), rng.random((3, 4))
    cells, words = cells_of(TABLE), Key(5, stage=2).words
    out = np.full(len(WHERE), 9, np.uint8)
    draw_labels(cells.ordered, zeros, ones, columns, words, out)
    uniforms = [Uniforms(words, n) for n in range(2)]
    by_rows = [choice(columns[f] * (ones if TABLE[n, f] else zeros)[n], uniforms[n].next()) for n, f in WHERE]
    np.testing.assert_array_equal(out, np.array(by_rows)[np.lexsort((WHERE[:, 0], WHERE[:, 1]))])


def test_labels_take_as_few_bytes_as_they_can() -> None:
    assert [label_type(n) for n in (1, 2**8, 2**8 + 1, 2**16, 2**16 + 1)] == [
        np.uint8,
        np.uint8,
        np.uint16,
        np.uint16,
        np.uint32,
    ]


def test_memory_of_labels_is_counted() -> None:
    few, many = (needed_bytes("gibbs", (100, 50), n, 4, 3, pair=False) for n in (1000, 2000))
    assert many - few == 1000 * (4 + 3)  # the list of cells, and a label of one byte for each of three chains
    assert needed_bytes("gibbs", (100, 50), 1000, 4, 3, pair=True) - few == 3 * 1000
    assert (
        needed_bytes("cvb0", (100, 50), 2000, 4, 1, pair=False) - needed_bytes("vb", (100, 50), 2000, 4, 1, pair=False)
        == 4 * 2000 * 4
    )
