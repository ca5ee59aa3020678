"""On-line EM: batches approach the optimum of all the data, with missing cells too, and go on where a fit ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import poisson

import partwise
from partwise import PoissonNMF
from partwise.errors import InvalidInputError
from partwise.poisson.inference import online

Floats = NDArray[np.float64]
N_COMPONENTS = 5


def simulated(missing: float, n_samples: int = 2000, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    dictionary = rng.dirichlet(np.full(60, 0.3), size=N_COMPONENTS)
    X = rng.poisson(rng.gamma(0.5, 100.0, size=(n_samples, N_COMPONENTS)) @ dictionary).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def batches(X: Floats, size: int) -> Iterator[Floats]:
    return (X[start : start + size] for start in range(0, len(X), size))


def value(model: PoissonNMF, X: Floats) -> float:
    """Log-likelihood in nats per count, at the best activations."""
    rates = model.transform(X) @ (model.components_ + 1e-12)
    return float(np.nansum(poisson.logpmf(X, rates)) / np.nansum(X))


# Measured gaps after one pass: 0.0005 to 0.0013 nats per count; that of the true dictionary is 0.0006 to 0.0008. One
# step of EM a batch, instead of 30, leaves 0.02 to 0.11.
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("size", [50, 250, 1000])
def test_batches_approach_the_optimum_of_all_the_data(
    size: int, missing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = simulated(missing)
    best = value(PoissonNMF(N_COMPONENTS, random_state=1, tol=1e-9).fit(X), X)
    model = PoissonNMF(N_COMPONENTS, random_state=1)
    for batch in batches(X, size):
        model.partial_fit(batch)
    assert best - value(model, X) < 2e-3
    assert model.n_samples_seen_ == 2000
    assert model.n_iter_ == 2000 // size
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)
    np.testing.assert_allclose(model.mean_activations_.sum(), np.nansum(X) / 2000, rtol=0.1)
    monkeypatch.setattr(online, "_PASSES", 1)
    single = PoissonNMF(N_COMPONENTS, random_state=1)
    for batch in batches(X, size):
        single.partial_fit(batch)
    assert best - value(single, X) > 3e-3


def test_missing_cells_are_not_zeros() -> None:
    """Half of one feature's cells missing: its rate is that of the observed half."""
    rng = np.random.default_rng(0)
    X = rng.poisson(5.0, size=(4000, 4)).astype(float)
    X[::2, 0] = np.nan
    model = PoissonNMF(1, random_state=0)
    for batch in batches(X, 200):
        model.partial_fit(batch)
    np.testing.assert_allclose(model.components_, 0.25, atol=0.01)
    zeros = PoissonNMF(1, random_state=0)
    for batch in batches(np.nan_to_num(X), 200):
        zeros.partial_fit(batch)
    assert zeros.components_[0, 0] < 0.16


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_same_bits_for_any_number_of_threads(n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = simulated(0.1, 400)
    monkeypatch.setattr("partwise.passes.side.row_blocks", small_blocks)
    one, many = PoissonNMF(N_COMPONENTS, random_state=0), PoissonNMF(N_COMPONENTS, random_state=0, n_jobs=n_jobs)
    for batch in batches(X, 100):
        one.partial_fit(batch)
        many.partial_fit(batch)
    for name in ("components_", "online_allocations_", "online_exposure_", "mean_activations_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))


def small_blocks(indptr: Any, size: int) -> Any:
    from partwise.engines.blocks import row_blocks

    return row_blocks(indptr, 100)


def test_goes_on_where_a_fit_ended() -> None:
    """A small batch moves a fit of many samples a little; features that it lacks keep their weight."""
    X = simulated(0.0)
    model = PoissonNMF(N_COMPONENTS, random_state=0).fit(X)
    before = model.components_.copy()
    assert np.isfinite(model.kkt_residual_)
    batch = X[:20].copy()
    batch[:, :30] = 0
    model.partial_fit(batch)
    assert model.n_samples_seen_ == 2020
    assert model.n_iter_ == 1
    assert not hasattr(model, "kkt_residual_")  # it is not one of this dictionary
    assert 0 < np.abs(model.components_ - before).max() < 0.05
    afresh = PoissonNMF(N_COMPONENTS, random_state=0).partial_fit(batch)
    assert np.abs(afresh.components_ - before).max() > 0.1
    # A new fit forgets the batches.
    model.fit(X)
    np.testing.assert_array_equal(model.components_, before)
    assert not hasattr(model, "online_exposure_")
    assert model.n_samples_seen_ == 2000


def test_starts_from_given_components() -> None:
    rng = np.random.default_rng(0)
    components = np.kron(np.eye(3), np.full(4, 0.25))
    X = rng.poisson(rng.gamma(0.5, 50.0, size=(300, 3)) @ components)
    model = PoissonNMF.from_components(components)
    model.partial_fit(X)
    np.testing.assert_allclose(model.components_, components, atol=0.03)  # in their order
    assert model.n_samples_seen_ == 300


def test_features_seen_first_in_a_late_batch() -> None:
    X = simulated(0.0, 400)
    X[:200, 40:] = 0
    model = PoissonNMF(N_COMPONENTS, random_state=0).partial_fit(X[:200])
    assert np.all(model.components_ > 0)  # nothing is ruled out
    assert model.components_[:, 40:].sum() < 1e-6
    model.partial_fit(X[200:])
    assert model.components_[:, 40:].sum() > 0.1


def test_empty_batches_and_rows() -> None:
    X = simulated(0.0, 200)
    X[::3] = 0
    model = PoissonNMF(N_COMPONENTS, random_state=0).partial_fit(X)
    model.partial_fit(np.zeros((5, 60))).partial_fit(np.full((5, 60), np.nan)).partial_fit(X[:1])
    assert np.all(np.isfinite(model.components_))
    assert model.n_samples_seen_ == 211
    with pytest.raises(InvalidInputError, match="All cells of X are zero"):
        PoissonNMF(2).partial_fit(np.zeros((5, 60)))


def test_refusals() -> None:
    X = simulated(0.0, 50)
    model = PoissonNMF(3, random_state=0).partial_fit(X)
    with pytest.raises(ValueError, match="X has 59 features, but PoissonNMF is expecting 60 features"):
        model.partial_fit(X[:, :59])
    model.set_params(n_components=4)
    with pytest.raises(InvalidInputError, match="n_components is 4, but there are 3 parts already"):
        model.partial_fit(X)


def test_used_like_a_fit(tmp_path: Path) -> None:
    X = simulated(0.1, 300)
    model = PoissonNMF(N_COMPONENTS, random_state=0)
    for batch in batches(X[:200], 50):
        model.partial_fit(batch)
    assert model.transform(X[200:]).shape == (100, N_COMPONENTS)
    assert -5 < model.score(X[200:]) < 0
    assert model.status_.code == "stopped"
    loaded = partwise.load(model.save(tmp_path / "m.partwise") and tmp_path / "m.partwise")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    # And it goes on from the file, to the same bits.
    np.testing.assert_array_equal(loaded.partial_fit(X[200:]).components_, model.partial_fit(X[200:]).components_)
