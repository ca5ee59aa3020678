"""The swimmer: disjoint parts, all combinations, as the data set is described."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.datasets import SWIMMER_SHAPE, swimmer
from partwise.errors import InvalidInputError


def test_pictures_are_all_combinations_of_disjoint_parts() -> None:
    counts, parts, present = swimmer(level=3)
    assert counts.shape == (256, 32 * 32)
    assert parts.shape == (17, SWIMMER_SHAPE[0] * SWIMMER_SHAPE[1])
    assert parts.sum(axis=0).max() == 1
    np.testing.assert_array_equal(parts.sum(axis=1), [6] * 16 + [16])
    assert len({tuple(row) for row in present}) == 256
    np.testing.assert_array_equal(present[:, :16].reshape(256, 4, 4).sum(axis=2), 1)
    np.testing.assert_array_equal(counts, 3 * present @ parts)


def test_level_is_checked() -> None:
    with pytest.raises(InvalidInputError, match="level must be a count of at least 1, got 0"):
        swimmer(level=0)
