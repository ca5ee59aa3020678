"""The authors' trained models and documents: methods agree on real data, within the times that were promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from partwise.likelihood import exact, exact_cost


def _load(folder: Path, name: str) -> tuple[Any, Any, Any, Any]:
    with np.load(folder / "gap" / f"{name}.npz", allow_pickle=False) as file:
        counts = sp.csr_array((file["data"], file["indices"], file["indptr"]), shape=file["shape"])
        return counts, file["phi"].T.copy(), file["r"], (1.0 - file["p"]) / file["p"]


@pytest.fixture(scope="module")
def twitter(data_folder: Path) -> tuple[Any, Any, Any, Any]:
    return _load(data_folder, "twitter100")


def test_all_short_documents_by_all_methods(twitter: tuple[Any, Any, Any, Any]) -> None:
    counts, *model = twitter
    values = exact(counts, *model).values
    assert values.size == 10_653
    for method in ("lattice", "quadrature"):
        np.testing.assert_allclose(exact(counts, *model, method=method).values, values, rtol=1e-13)
    cheap = np.flatnonzero(exact_cost(counts, *model).costs[:, 1] < 1e6)
    assert cheap.size > 10_000
    np.testing.assert_allclose(exact(counts[cheap], *model, method="subcount").values, values[cheap], rtol=1e-13)


def test_documents_of_a_hundred_tokens(data_folder: Path) -> None:
    counts, *model = _load(data_folder, "nips100")
    rows = np.flatnonzero(counts.sum(axis=1) == 100)[:2]
    by_quadrature = exact(counts[rows], *model, method="quadrature").values
    np.testing.assert_allclose(exact(counts[rows], *model, method="lattice").values, by_quadrature, rtol=1e-12)
