"""GammaPoissonNMF: behaves as every estimator does, with every algorithm, on awkward data too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import partwise
from partwise import GammaPoissonNMF
from partwise.core.keys import Key
from partwise.errors import AllComponentsPrunedError, ImpossibleRowsWarning, InterruptedFitWarning, InvalidInputError
from partwise.gamma_poisson import GammaPoissonModel
from partwise.likelihood import exact
from partwise.likelihood.moments import posterior_moments

QUICK: dict[str, dict[str, Any]] = {
    "thorough": {"max_iter": 30, "n_starts": 2, "tol": 0.0},
    "mcem-c": {"max_iter": 8, "draws_per_iter": 3, "burn_in_per_iter": 2},
    "mcem-h": {"max_iter": 8, "draws_per_iter": 3, "burn_in_per_iter": 2},
    "mcem-ch": {"max_iter": 8, "draws_per_iter": 3, "burn_in_per_iter": 2, "e_step": "rao-blackwell"},
    "saem": {"max_iter": 10},
    "online": {"max_iter": 8, "batch_size": 50},
    "vem": {"max_iter": 20, "tol": 0.0},
    "joint": {"max_iter": 20, "tol": 0.0},
    "exact-em": {"max_iter": 5, "tol": 0.0},
}
ALL = pytest.mark.parametrize("inference", list(QUICK))


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    """100 samples, 6 features, 3 overlapping parts, about 12 counts a sample."""
    dictionary = 12 * np.random.default_rng(1).dirichlet(np.full(6, 0.4), size=3).T / 3
    return GammaPoissonModel(dictionary).simulate(Key(7), 100).toarray()


def quick(inference: str, n_components: int = 3, **parameters: Any) -> GammaPoissonNMF:
    return GammaPoissonNMF(n_components, inference=inference, **{"random_state": 0, **QUICK[inference], **parameters})


@ALL
def test_expected_counts_are_the_means(counts: np.ndarray, inference: str) -> None:
    model = quick(inference).fit(counts)
    assert model.components_.shape == (3, 6)
    assert len(model.trace_) == model.n_iter_ == len(model.column_norms_)
    np.testing.assert_allclose(model.column_norms_[-1], model.components_.sum(axis=1), rtol=1e-6)
    # Exact for MCEM-C and its kin (Eq. 49); roughly so for the others after a few iterations.
    expected = (model.shape_ / model.rate_) @ model.components_
    np.testing.assert_allclose(expected.sum(), counts.sum(axis=1).mean(), rtol=0.5)


@ALL
def test_same_bits_for_any_number_of_threads(counts: np.ndarray, inference: str) -> None:
    one, two = (quick(inference, n_jobs=n_jobs).fit(counts) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.transform(counts[:9]), two.transform(counts)[:9])


@ALL
def test_resumed_is_uninterrupted(counts: np.ndarray, inference: str, tmp_path: Path) -> None:
    whole = quick(inference).fit(counts)
    path = tmp_path / "fit.checkpoint"

    def interrupt(iteration: int, state: Any, trace: Any) -> None:
        if iteration == 4:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedFitWarning):
        quick(inference, checkpoint=path, callbacks=[interrupt]).fit(counts)
    resumed = quick(inference, checkpoint=path, resume=True).fit(counts)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    np.testing.assert_array_equal(resumed.column_norms_, whole.column_norms_)


@ALL
@pytest.mark.parametrize(
    "X", [[[0, 0, 0], [3, 0, 1]], [[5, 0], [2, 0], [1, 0]], [[7]], [[0, 2], [0, 0], [1, 9], [2, 2]]]
)
def test_empty_rows_and_columns(X: list[list[int]], inference: str) -> None:
    for n_components in (1, 2):
        model = quick(inference, n_components).fit(X)
        assert np.all(np.isfinite(model.components_))
        assert np.all(np.isfinite(model.transform(X)))
        assert np.isfinite(model.score(X))


@ALL
def test_one_component(counts: np.ndarray, inference: str) -> None:
    """With one component the answer is known: (b / a) times the means."""
    if inference in ("mcem-h", "mcem-ch"):
        return  # which only creep towards it
    model = quick(inference, 1, shape=2.0, rate=0.5, max_iter=40).fit(counts)
    tolerance = 0.2 if inference in ("online", "joint") else 1e-9
    np.testing.assert_allclose(model.components_[0], counts.mean(axis=0) * 0.25, rtol=tolerance)


@ALL
def test_missing_cells_are_not_zeros(counts: np.ndarray, inference: str) -> None:
    hidden = np.random.default_rng(0).random(counts.shape) < 0.4
    X = np.where(hidden, np.nan, counts)
    settings = {"max_iter": 60} if inference != "thorough" else {"max_iter": 100}
    model = quick(inference, 2, **settings).fit(X)
    mean, truth = ((model.shape_ / model.rate_) @ model.components_).sum(), np.nanmean(X, axis=0).sum()
    # Taken for zeros, the mean would be 0.6 of this. Joint maximum likelihood is biased: by one count a component here
    # (h = c / (b + 1) with b = 1 / mean h), by 1 / 0.6 where 0.6 of the cells are observed.
    expected = truth - 2 / 0.6 if inference == "joint" else truth
    assert mean == pytest.approx(expected, rel=0.2)
    assert np.all(np.isfinite(model.transform(X)))


def test_missing_cells_as_in_plain_numpy(counts: np.ndarray) -> None:
    """Exact EM with missing cells increases the likelihood of the observed ones; another implementation of its step."""
    X = np.where(np.random.default_rng(0).random(counts.shape) < 0.3, np.nan, counts)
    start = np.random.default_rng(2).gamma(1.0, 2.0, size=(2, 6))
    model = GammaPoissonNMF(2, inference="exact-em", init=start, max_iter=1, tol=0.0).fit(X)
    moments = posterior_moments(X, start.T, 1.0, 1.0)
    allocations = np.zeros((*X.shape, 2))
    allocations[X > 0] = moments.allocations
    imputed = np.isnan(X)[:, :, None] * moments.activations[:, None, :] * start.T
    np.testing.assert_allclose(model.components_.T, (allocations + imputed).mean(axis=0), rtol=1e-10)


def test_transform_is_the_posterior_mean(counts: np.ndarray) -> None:
    components = np.random.default_rng(0).gamma(1.0, 2.0, size=(3, 6))
    model = GammaPoissonNMF.from_components(components, shape=[0.5, 1.0, 2.0], rate=[1.0, 0.5, 2.0])
    X = np.where(np.random.default_rng(0).random(counts.shape) < 0.1, np.nan, counts)
    found = model.transform(X)
    np.testing.assert_array_equal(found, model.transform(X))
    moments = posterior_moments(X, components.T, model.shape_, model.rate_)
    np.testing.assert_allclose(found, moments.activations, rtol=1e-12)  # rows as short as these have exact ones
    draws = model.sample_posterior(X, n_draws=400, random_state=1)
    assert draws.shape == (400, 100, 3)
    np.testing.assert_allclose(draws.mean(axis=(0, 1)), moments.activations.mean(axis=0), rtol=0.03)


@pytest.mark.parametrize("shape", [pytest.param(0.3, marks=pytest.mark.slow), 1.0])
def test_means_of_long_rows_are_right_to_a_per_cent(shape: float) -> None:
    """Rows of about 120 tokens, most of them drawn: 19 means in 20 within 1.5%, where 200 sweeps gave 20%."""
    rng = np.random.default_rng(0)
    components = rng.dirichlet(np.full(10, 0.5), size=3) * 40 / shape
    X = rng.poisson(rng.gamma(shape, size=(60, 3)) @ components)
    found = GammaPoissonNMF.from_components(components, shape=shape, inference="thorough").transform(X)
    truth = posterior_moments(X, components.T, np.full(3, shape), np.ones(3), max_cost=1e10).activations
    assert np.quantile(np.abs(found / truth - 1.0), 0.95) < 0.015
    assert np.any(found != truth)


def test_likelihood_is_exact_within_its_errors(counts: np.ndarray) -> None:
    model = quick("saem").fit(counts)
    found = model.log_likelihood(counts)
    known = exact(counts, model.components_.T, model.shape_, model.rate_).values
    # 100 rows within 5.5 standard errors (t of few degrees of freedom), and their sum within 5.
    assert np.all(np.abs(found.values - known) < 5.5 * found.std_errors + 1e-9)
    assert model.score_samples(counts).mean() == pytest.approx(known.mean(), abs=5 * found.total_std_error / 100 + 1e-9)


def test_features_that_no_part_holds_are_warned_about() -> None:
    model = GammaPoissonNMF.from_components([[0.6, 0.4, 0.0]])
    X = [[2, 3, 0], [1, 0, 1]]
    for values in (lambda: model.log_likelihood(X).values, lambda: model.score_samples(X)):
        with pytest.warns(ImpossibleRowsWarning, match="Row 1 of X has a count of feature 2, which no part") as caught:
            np.testing.assert_array_equal(values() == -np.inf, [False, True])
        assert len(caught) == 1
    # What the warning advises; scores mix a thousandth of every feature in.
    assert np.isfinite(model.log_likelihood(X, background=np.full(3, 1 / 3)).values).all()
    assert np.isfinite(model.score(X))
    assert model.perplexity(X) == pytest.approx(np.exp(-model.score(X)))


def test_partial_fit_learns(counts: np.ndarray) -> None:
    model = GammaPoissonNMF(3, random_state=0)
    for start in range(0, 100, 20):
        model.partial_fit(counts[start : start + 20])
    assert model.n_samples_seen_ == 100
    first = exact(counts, model.components_.T, 1.0, 1.0).total
    for _ in range(10):
        for start in range(0, 100, 20):
            model.partial_fit(counts[start : start + 20])
    assert exact(counts, model.components_.T, 1.0, 1.0).total > first
    fitted = quick("vem").fit(counts).partial_fit(counts[:10])
    assert fitted.n_samples_seen_ == 110
    with pytest.raises(InvalidInputError, match="start with a new estimator"):
        fitted.set_params(n_components=2).partial_fit(counts)


def test_all_pruned_is_named() -> None:
    X = np.zeros((400, 5), dtype=int)
    X[0, 0] = 1
    with pytest.raises(AllComponentsPrunedError, match="use inference='vem', fewer parts"):
        GammaPoissonNMF(3, inference="joint", random_state=0, shape=1.0, max_iter=5000, tol=0.0).fit(X)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_thorough_prunes(seed: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(1.0, 10.0, size=(100, 2)) @ np.array([[2, 1, 0, 0], [0, 0, 1, 3]]))
    model = GammaPoissonNMF(5, inference="thorough", random_state=seed).fit(X)
    assert model.n_active_components_ == 2
    assert model.status_.code == "converged"
    assert model.log_likelihood(X).total > exact(X, [[20, 0], [10, 0], [0, 10], [0, 30]], 1.0, 1.0).total - 0.5


def test_thorough_does_not_remove_a_component_on_its_way() -> None:
    """Here EM takes hundreds of steps, and two components have a likelihood of -947.28."""
    dictionary = np.array([[6.38, 0.75], [0.09, 5.68], [0.44, 1.26], [3.09, 2.31]])
    X = GammaPoissonModel(dictionary).simulate(Key(0).for_stage("data"), 100)
    model = GammaPoissonNMF(3, inference="thorough", random_state=0).fit(X)
    # -945.138 after 3,000 steps of exact EM from another start.
    assert exact(X, model.components_.T, 1.0, 1.0).total > -945.15


def test_bad_settings(counts: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match="needs a fixed shape of at least 1"):
        GammaPoissonNMF(2, inference="joint", shape=0.5).fit(counts)
    with pytest.raises(InvalidInputError, match=r"init must have shape \(2, 6\)"):
        GammaPoissonNMF(2, init=np.ones((6, 2))).fit(counts)
    with pytest.raises(InvalidInputError, match="holds feature 1"):
        GammaPoissonNMF(1, init=[[1, 0, 1, 1, 1, 1]]).fit(counts)
    with pytest.raises(InvalidInputError, match="is not a whole number"):
        GammaPoissonNMF(2, inference="saem").fit(counts + 0.5)


def test_saved_and_loaded(counts: np.ndarray, tmp_path: Path) -> None:
    model = quick("saem").fit(counts)
    model.save(tmp_path / "model.partwise")
    loaded = partwise.load(tmp_path / "model.partwise")
    np.testing.assert_array_equal(loaded.transform(counts[:5]), model.transform(counts[:5]))
    np.testing.assert_array_equal(loaded.column_norms_, model.column_norms_)


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["thorough", "mcem-c", "online"])
def test_large_counts(inference: str) -> None:
    folder = os.environ.get("PARTWISE_DATA")
    if not folder:
        pytest.skip("PARTWISE_DATA is not set")
    with np.load(Path(folder) / "counts" / "mcf7_rnaseq.npz") as arrays:
        X = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=arrays["shape"])
    assert X.max() == 133_538
    model = quick(inference, 2, max_iter=20).fit(X)
    assert np.all(np.isfinite(model.components_))
    assert np.all(np.isfinite(model.transform(X)))


@pytest.mark.slow
def test_shapes_are_recovered() -> None:
    """0.3, 1 and 3 together within 15%: 3 parts, 50 features, about 100 counts a sample, 2,000 samples."""
    shapes = np.array([0.3, 1.0, 3.0])
    parts = np.random.default_rng(0).dirichlet(np.full(50, 0.3), size=3).T
    X = GammaPoissonModel(parts * (100 / 3) / shapes, shapes, 1.0).simulate(Key(1), 2000)
    # Variational EM finds them too large (0.31, 1.15, 3.57 here), as its posteriors are too narrow.
    model = GammaPoissonNMF(3, shape="estimate", inference="thorough", random_state=0).fit(X)
    columns = model.components_ / model.components_.sum(axis=1, keepdims=True)
    order = np.argmin(np.abs(columns[:, None] - parts.T).sum(axis=2), axis=0)
    np.testing.assert_allclose(model.shape_[order], shapes, rtol=0.15)


@pytest.mark.parametrize("inference", ["vem", "joint"])
def test_reals_beyond_all_counts(inference: str) -> None:
    X = np.ones((4, 3))
    X[2, 1] = 1e160
    with pytest.raises(InvalidInputError, match="far from any count: give X in units of counts"):
        GammaPoissonNMF(2, inference=inference, shape=1.5).fit(X)


@pytest.mark.parametrize("n_draws", [0, -1])
def test_numbers_of_draws(n_draws: int) -> None:
    model = GammaPoissonNMF.from_components([[9.0, 0.0], [0.0, 9.0]])
    with pytest.raises(InvalidInputError, match=f"n_draws must be at least 1, got {n_draws}"):
        model.sample_posterior([[3, 4]], n_draws)
