"""Labels of one sweep against their exact conditional probabilities, and sweeps replayed in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from partwise.binary.kernels.partial import build_tables, sweep_rows
from partwise.core.keys import Key

N_ROWS = 20_000
ALPHA, BETA = 0.5, 0.4
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
            weights = COLUMNS[cell] * ((ALPHA if bits[cell] else BETA) + same) / (ALPHA + BETA + whole)
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
    sweep_rows(starts, codes, ALPHA, BETA, *tables, attempts, *Key(attempts).words, 0, 0, N_ROWS, *counts)
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
