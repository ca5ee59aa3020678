"""Cutting rows into blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partwise.engines import row_blocks
from partwise.engines.blocks import MOST_ROWS, TARGET_NONZEROS


def pointers(nonzeros: list[int]) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(nonzeros))).astype(np.int64)


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 40), st.integers(1, 20))
def test_blocks_cover_all_rows_within_their_limits(nonzeros: list[int], target: int, most_rows: int) -> None:
    blocks = row_blocks(pointers(nonzeros), target, most_rows)
    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(len(nonzeros)))
    largest = max([count for count in nonzeros if count <= target], default=0)
    for start, stop in blocks:
        assert 0 < stop - start <= most_rows
        held = sum(nonzeros[start:stop])
        if stop - start > 1:
            assert max(nonzeros[start:stop]) <= target, "a huge row is a block of its own"
            # A cut falls at the row nearest below its share, so a block may be over it by less than one row.
            assert held <= target + largest


def test_blocks_are_of_about_equal_size() -> None:
    rng = np.random.default_rng(1)
    indptr = pointers(rng.poisson(130, size=11_463).tolist())
    blocks = row_blocks(indptr)
    held = np.array([indptr[stop] - indptr[start] for start, stop in blocks])
    assert len(blocks) == -(-int(indptr[-1]) // TARGET_NONZEROS)
    assert held.max() - held.min() < 1000


def test_huge_rows_are_blocks_of_their_own() -> None:
    assert row_blocks(pointers([1, 1, 50, 60, 1, 1]), target_nonzeros=10) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert row_blocks(pointers([99]), target_nonzeros=10) == [(0, 1)]


def test_empty_rows_do_not_make_one_giant_block() -> None:
    blocks = row_blocks(np.zeros(100_001, dtype=np.int64))
    assert len(blocks) == -(-100_000 // MOST_ROWS)
    sizes = [stop - start for start, stop in blocks]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_edges(dtype: type) -> None:
    assert row_blocks(np.zeros(1, dtype=dtype)) == []
    assert row_blocks(np.zeros(2, dtype=dtype)) == [(0, 1)]
    assert row_blocks(np.array([0, 3], dtype=dtype)) == [(0, 1)]
    assert all(type(bound) is int for block in row_blocks(np.array([0, 3, 5], dtype=dtype)) for bound in block)


def test_a_part_of_a_matrix_may_begin_anywhere() -> None:
    indptr = pointers([3, 4, 5, 6, 7])
    assert row_blocks(indptr[2:], target_nonzeros=7) == row_blocks(pointers([5, 6, 7]), target_nonzeros=7)


def test_bad_limits() -> None:
    for arguments in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="at least one row and one nonzero"):
            row_blocks(np.array([0, 1]), *arguments)
