"""The published matrices, against the sizes and totals that come with them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from partwise.io import read

FOLDER = Path(os.environ.get("PARTWISE_DATA", "")) if os.environ.get("PARTWISE_DATA") else None
pytestmark = pytest.mark.skipif(
    FOLDER is None or not FOLDER.is_dir(), reason="needs the real data: set PARTWISE_DATA to their folder"
)


@pytest.mark.parametrize(
    ("name", "shape", "stored", "total", "labelled"),
    [
        ("ap", (2246, 10473), 302031, 435838, True),
        ("reuters395", (395, 4258), 60114, 84010, True),
        ("nips_uci7605", (1500, 7605), 709477, 1870706, True),
        ("newsgroups20", (18774, 55911), 2429942, 4547389, True),
        ("mcf7_rnaseq", (41, 16773), 622822, 414478204, True),
        ("kos", (3430, 6906), 353160, 467714, False),
    ],
)
def test_counts(name: str, shape: tuple[int, int], stored: int, total: int, labelled: bool) -> None:
    assert FOLDER is not None
    table = read(FOLDER / "counts" / f"{name}.npz")
    assert table.shape == shape
    assert table.matrix.nnz == stored
    assert table.matrix.sum(dtype=np.int64) == total
    assert (table.column_labels is not None) is labelled


@pytest.mark.parametrize(
    ("name", "shape", "ones", "missing"),
    [
        ("animals", (85, 50), 1562, 0),
        ("paleo", (253, 902), 7543, 0),
        ("parliament", (130, 130), 4426, 0),
        ("unvotes", (200, 5429), 588800, 347036),
        ("unvotes_coldwar_absna", (100, 3638), 242724, 88355),
    ],
)
def test_bits_with_missing_cells(name: str, shape: tuple[int, int], ones: int, missing: int) -> None:
    assert FOLDER is not None
    table = read(FOLDER / "nbmf" / f"{name}.csv.gz")
    assert table.shape == shape
    assert np.nansum(table.matrix) == ones
    assert np.isnan(table.matrix).sum() == missing
    assert read(FOLDER / "nbmf" / f"{name}.csv.gz", transpose=True).shape == shape[::-1]


def test_list_of_pairs() -> None:
    assert FOLDER is not None
    table = read(FOLDER / "nbmf" / "extra_nips_ones.csv.gz", format="long", long_columns=("row", "col"))
    assert table.shape == (5069, 5069)
    assert table.matrix.max() == 1
