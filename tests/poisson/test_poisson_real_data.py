"""On real counts, and on a large simulated matrix, the fast algorithm reaches at least what EM reaches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from partwise import PoissonNMF


def load(folder: Path, name: str) -> sp.csr_array:
    with np.load(folder / "counts" / f"{name}.npz") as file:
        return sp.csr_array((file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"]))


def simulated() -> sp.csr_array:
    """About 2000 x 3000 with 5% nonzeros."""
    rng = np.random.default_rng(0)
    dictionary = rng.dirichlet(np.full(3000, 0.1), size=10)
    return sp.csr_array(rng.poisson(rng.gamma(0.5, 33.0, size=(2000, 10)) @ dictionary))


def values(X: sp.csr_array, n_components: int, **arguments: object) -> np.ndarray:
    model = PoissonNMF(n_components, tol=0.0, random_state=0, n_jobs=2, **arguments).fit(X)
    assert np.all(np.isfinite(model.components_))
    return model.trace_.evaluated()[1]


def check(X: sp.csr_array, n_components: int) -> None:
    em = values(X, n_components, inference="multiplicative", max_iter=200)
    fast = values(X, n_components, max_iter=80)
    for found in (em, fast):
        assert np.all(np.diff(found) >= -1e-12 * np.abs(found[1:]))
    assert fast[-1] >= em[-1]


@pytest.mark.slow
@pytest.mark.parametrize("n_components", [10, 50])
@pytest.mark.parametrize("name", ["ap", "kos", "nips_uci7605", "reuters395"])
def test_word_counts(name: str, n_components: int, data_folder: Path) -> None:
    check(load(data_folder, name), n_components)


@pytest.mark.slow
def test_sequencing_counts(data_folder: Path) -> None:
    check(load(data_folder, "mcf7_rnaseq"), 5)


@pytest.mark.slow
def test_simulated_counts() -> None:
    check(simulated(), 10)
