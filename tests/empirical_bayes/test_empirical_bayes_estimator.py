"""``EmpiricalBayesPoissonNMF``: what it finds, what it stores, what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import partwise
from partwise import EmpiricalBayesPoissonNMF, PoissonNMF
from partwise.core.checkpoint import Checkpoint
from partwise.core.stopping import StopFit
from partwise.errors import InvalidInputError
from partwise.priors.exponential_mixture import ExponentialMixture
from partwise.priors.flat import FlatPrior
from partwise.priors.gamma_mixture import GammaMixtureFamily
from partwise.priors.mixture import GammaMixture

Floats = NDArray[np.float64]


def sparse_counts(seed: int, n_samples: int = 80, n_features: int = 50, depth: float = 1.0) -> NDArray[np.int64]:
    """Counts of three parts with few large entries."""
    rng = np.random.default_rng(seed)
    activations, dictionary = rng.gamma(0.3, 10.0, (n_samples, 3)), rng.gamma(0.3, 1.0, (3, n_features))
    return rng.poisson(depth * activations @ dictionary)


def model(n_components: int = 3, **parameters: Any) -> EmpiricalBayesPoissonNMF:
    return EmpiricalBayesPoissonNMF(n_components, **{"random_state": 0, "tol": 1e-5, **parameters})


@pytest.mark.parametrize("seed", range(3))
def test_greedy_growth_finds_the_number_of_parts(seed: int) -> None:
    fit = model(10, init="greedy").fit(sparse_counts(seed))
    assert fit.n_components_ == 3
    rises = np.diff(fit.greedy_elbo_)
    assert np.all(rises[:2] > 0)
    assert fit.greedy_elbo_.size in (3, 4)


def test_bound_is_highest_at_the_number_of_parts() -> None:
    X = sparse_counts(4)
    assert np.argmax([model(size).fit(X).elbo_ for size in (1, 2, 3, 4, 5)]) == 2


@pytest.mark.parametrize("prior", ["gamma", "exponential-mixture", "two-gamma"])
def test_too_many_parts_do_less_harm_than_with_maximum_likelihood(prior: str) -> None:
    rng = np.random.default_rng(8)
    counts = sparse_counts(8)
    kept = rng.binomial(counts, 0.8)
    held = counts - kept
    scores = []
    for fit in (model(12, activation_prior=prior, dictionary_prior=prior), PoissonNMF(12, random_state=0)):
        activations = fit.fit_transform(kept)
        rates = 0.25 * (0.99 * activations @ fit.components_ + 0.01 * kept.mean())
        scores.append(float(np.sum(held * np.log(rates) - rates)) / held.sum())
    assert scores[0] > scores[1] + 0.02


def test_components_and_activations_are_on_one_scale(small_counts: np.ndarray) -> None:
    for parameters in ({}, {"size_factors": True, "background": True}, {"activation_prior": "gamma"}):
        fit = model(**parameters).fit(small_counts)
        np.testing.assert_allclose(fit.components_.sum(axis=1), 1.0, rtol=1e-12)
        activations = fit.transform(small_counts)
        # Posterior means keep the total, nearly.
        assert activations.sum() == pytest.approx(small_counts.sum(), rel=0.03)
        np.testing.assert_allclose(activations.mean(axis=0), fit.mean_activations_, rtol=0.1)
        np.testing.assert_allclose(fit.dictionary_posterior().mean, fit.components_.T)
        assert np.all(fit.geometric_components_ <= fit.components_ * (1 + 1e-12))


def test_priors_that_are_given_stay_and_set_the_scale(small_counts: np.ndarray) -> None:
    prior = GammaMixture.gamma(0.5, 0.25)
    fit = model(activation_prior=prior, dictionary_prior="flat").fit(small_counts)
    assert all(found is prior for found in fit.activation_priors_)
    assert all(isinstance(found, FlatPrior) for found in fit.dictionary_priors_)
    with pytest.raises(InvalidInputError, match="FlatPrior gives posterior means only"):
        fit.dictionary_posterior().interval()
    assert fit.activation_posterior(small_counts).variance.shape == (40, 3)


def test_stored_dictionary_posterior_is_that_of_its_parts(small_counts: np.ndarray) -> None:
    fit = model(background=True).fit(small_counts)
    posterior = fit.dictionary_posterior()
    for k, prior in enumerate(fit.dictionary_priors_):
        again = prior.posterior(fit.dictionary_counts_[:, k], fit.dictionary_exposure_[:, k])
        np.testing.assert_allclose(again.mean * fit.background_, posterior.mean[:, k], rtol=1e-10)
        np.testing.assert_allclose(np.exp(again.mean_log) * fit.background_, fit.geometric_components_[k], rtol=1e-9)


def test_posterior_spread_quantiles_and_draws_agree(small_counts: np.ndarray) -> None:
    fit = model(size_factors=True).fit(small_counts)
    for posterior in (fit.dictionary_posterior(), fit.activation_posterior(small_counts)):
        ends = posterior.interval(0.8)
        np.testing.assert_array_equal(ends[..., 0], posterior.quantile(0.5 - 0.4))
        draws = posterior.sample(2000, random_state=1)
        # 5 standard errors for each of some hundred entries; a false alarm in thousands of seeds.
        errors = 5 * np.sqrt(posterior.variance / 2000) + 1e-9 * posterior.mean
        assert np.mean(np.abs(draws.mean(axis=0) - posterior.mean) <= errors) > 0.99
        inside = np.mean((draws >= ends[..., 0]) & (draws <= ends[..., 1]))
        assert 0.78 < inside < 0.9


def test_credible_intervals_of_activations_cover_where_parts_are_known() -> None:
    # Deep counts, many samples: what is left is the uncertainty of the activations. Mean field is too sure of itself.
    rng = np.random.default_rng(2)
    dictionary = np.kron(np.eye(3), np.ones(20)) + 0.02
    dictionary /= dictionary.sum(axis=1, keepdims=True)
    truth = rng.gamma(0.8, 20.0, (400, 3))
    counts = rng.poisson(truth @ dictionary)
    fit = model().fit(counts)
    order = fit.components_[:, [0, 20, 40]].argmax(axis=0)
    ends = fit.activation_posterior(counts).interval(0.9)[:, order]
    covered = np.mean((truth >= ends[..., 0]) & (truth <= ends[..., 1]))
    assert 0.82 < covered < 0.95


def test_missing_cells_are_not_zeros() -> None:
    counts = sparse_counts(5, 120, 40, 3.0).astype(np.float64)
    hidden = np.random.default_rng(0).random(counts.shape) < 0.3
    masked = np.where(hidden, np.nan, counts)
    fit = model().fit(masked)
    rates = fit.inverse_transform(fit.transform(masked))
    error = np.abs(rates - counts)[hidden].mean()
    assert error < 0.5 * np.abs(counts[hidden] - counts[hidden].mean()).mean()
    zeros = model().fit(np.where(hidden, 0.0, counts))
    worse = zeros.inverse_transform(zeros.transform(np.where(hidden, 0.0, counts)))
    assert error < 0.8 * np.abs(worse - counts)[hidden].mean()


def test_size_factors_help_where_depths_differ() -> None:
    rng = np.random.default_rng(3)
    dictionary = rng.dirichlet(np.full(60, 0.1), 3)
    depths = rng.choice([20.0, 2000.0], 150)
    counts = rng.poisson(depths[:, None] * rng.dirichlet(np.full(3, 0.5), 150) @ dictionary)
    plain, sized = model().fit(counts), model(size_factors=True).fit(counts)
    assert sized.elbo_ > plain.elbo_ + 50.0
    np.testing.assert_allclose(sized.transform(counts).sum(axis=1), counts.sum(axis=1), rtol=0.05, atol=2.0)


def test_rows_are_transformed_on_their_own(small_counts: np.ndarray) -> None:
    for parameters in ({}, {"size_factors": True, "background": True}):
        fit = model(**parameters).fit(small_counts)
        whole = fit.transform(small_counts)
        np.testing.assert_array_equal(whole[7:11], fit.transform(small_counts[7:11]))
        np.testing.assert_array_equal(whole[::-1], fit.transform(sp.csr_array(small_counts[::-1])))


def test_transform_of_training_rows_is_the_fit(small_counts: np.ndarray) -> None:
    # With mixtures, a row's bound may have several maxima, of which the fit and transform may find different ones.
    priors = {"activation_prior": "gamma", "dictionary_prior": "gamma"}
    fit = model(tol=1e-9, max_iter=2000, **priors).fit(small_counts)
    np.testing.assert_allclose(fit.transform(small_counts).mean(axis=0), fit.mean_activations_, rtol=1e-3)


@pytest.mark.parametrize("prior", ["gamma", "two-gamma", "nonparametric", "gamma-mixture"])
def test_empty_rows_and_columns_and_huge_scales(prior: str, small_counts: np.ndarray) -> None:
    counts = small_counts.astype(np.float64)
    counts[4], counts[:, 3] = 0.0, 0.0
    for scale in (1e-3, 1.0, 1e9):
        fit = model(2, activation_prior=prior, dictionary_prior=prior, max_iter=20, tol=0.0).fit(scale * counts)
        activations = fit.transform(scale * counts)
        assert np.isfinite(fit.components_).all()
        assert np.isfinite(activations).all()
        # Counts of thousandths vary less than Poisson counts, so there all rates are taken to be the same.
        if scale >= 1.0:
            assert activations[4].sum() < activations.mean()
            assert np.all(fit.components_[:, 3] <= fit.components_.mean())


def test_one_part_and_one_cell() -> None:
    assert model(1).fit([[3]]).transform([[3]]).shape == (1, 1)
    fit = model(4).fit([[0, 2], [1, 0]])
    assert np.isfinite(fit.transform([[5, 0], [0, 0]])).all()
    assert np.isfinite(fit.score([[5, 1], [0, 0]]))


def test_resume_gives_the_same_bits(tmp_path: Path, small_counts: np.ndarray) -> None:
    path = tmp_path / "fit.checkpoint"

    def stop(iteration: int, state: Any, trace: Any) -> None:
        if iteration == 4:
            raise StopFit("enough")

    settings = {"max_iter": 12, "tol": 0.0, "checkpoint": Checkpoint(path, iterations=2)}
    stopped = model(4, callbacks=[stop], **settings).fit(small_counts)
    assert stopped.n_iter_ == 4
    resumed = model(4, resume=True, **settings).fit(small_counts)
    whole = model(4, max_iter=12, tol=0.0).fit(small_counts)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    np.testing.assert_array_equal(resumed.trace_["objective"], whole.trace_["objective"])


@pytest.mark.parametrize(
    "prior",
    [
        "gamma",
        "exponential-mixture",
        GammaMixture.gamma(0.5, 0.25),
        "flat",
        ExponentialMixture(ratio=1.5),
        GammaMixtureFamily(shapes=(0.5, 5.0)),
    ],
    ids=str,
)
def test_model_files(prior: Any, tmp_path: Path, small_counts: np.ndarray) -> None:
    path = tmp_path / "parts.partwise"
    fit = model(3, activation_prior=prior, size_factors=True).fit(small_counts)
    fit.save(path)
    again = partwise.load(path)
    assert isinstance(again, EmpiricalBayesPoissonNMF)
    np.testing.assert_array_equal(again.transform(small_counts), fit.transform(small_counts))
    np.testing.assert_array_equal(again.dictionary_posterior().quantile(0.3), fit.dictionary_posterior().quantile(0.3))
    assert again.elbo_ == fit.elbo_
    again.background_ = -again.background_
    again.save(path)
    with pytest.raises(partwise.errors.FileFormatError, match="background_"):
        partwise.load(path)


def test_a_family_of_ones_own_is_refused_by_model_files(tmp_path: Path, small_counts: np.ndarray) -> None:
    class Wide(ExponentialMixture):
        """Another family."""

    fit = model(2, activation_prior=Wide(ratio=4.0)).fit(small_counts)
    with pytest.raises(InvalidInputError, match="cannot hold Wide, a family of your own"):
        fit.save(tmp_path / "parts.partwise")
    fit = model(2, activation_prior=FlatPrior()).fit(small_counts)
    with pytest.raises(InvalidInputError, match="activation_prior is a FlatPrior, which a model file cannot hold"):
        fit.save(tmp_path / "parts.partwise")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [("gama",), ("gamma", ("shapes", (1.0,))), ("gamma", 3), ()])
def test_options_of_families_are_checked(wrong: tuple[Any, ...], small_counts: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match=r"activation_prior is .* not a family with options"):
        model(activation_prior=wrong).fit(small_counts)


def test_converged_means_that_sweeps_move_nothing(small_counts: np.ndarray) -> None:
    fit = model(tol=1e-8, max_iter=5000).fit(small_counts)
    assert fit.status_.converged
    more = model(tol=0.0, max_iter=fit.n_iter_ + 30).fit(small_counts)
    assert more.elbo_ - fit.elbo_ < 30 * 1e-8 * small_counts.sum() * 2
    np.testing.assert_allclose(more.components_, fit.components_, atol=2e-3)


@pytest.mark.parametrize(
    ("X", "parameters", "message"),
    [
        ([[1.0, -1.0]], {}, "negative"),
        ([[1e80, 1e90]], {}, "give X in units of counts"),
        ([[1e-80, 1e-70]], {}, "give X in units of counts"),
        ([[1.0, 2.0]], {"activation_prior": "gama"}, "activation_prior"),
        ([[1.0, 2.0]], {"max_iter": 0}, "max_iter"),
        ([[1.0, 2.0]], {"init": (np.ones((1, 2)), np.ones((3, 2)))}, "init: activations must have shape"),
    ],
)
def test_bad_input_gets_one_sentence(X: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(**parameters).fit(X)
