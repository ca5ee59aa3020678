"""The allocation model against quadrature over its factors, simulation, enumeration, and the models it contains."""

from __future__ import annotations

import numpy as np
import pytest
from allocation_enumeration import allocations, log_marginal
from scipy import stats
from scipy.special import gammaln, logsumexp

from partwise.allocation import AllocationModel, exact_log_marginal
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.likelihood import exact

ALPHA, BETA = np.array([0.7, 1.5, 0.4]), np.array([0.9, 2.0])
MODEL = AllocationModel(3, 2, ALPHA, BETA, 3.0, 0.8)


def given_factors(s: np.ndarray, dictionary: np.ndarray, activations: np.ndarray) -> float:
    return float(stats.poisson.logpmf(s, activations[:, None, :] * dictionary[None]).sum())


def test_factorisation_of_the_joint() -> None:
    # Eq. 6: p(S, w, h, L) / (p(w | S) p(h | S) p(L | S)) is p(S) wherever the factors are.
    rng = np.random.default_rng(0)
    s = rng.poisson(2.0, size=(2, 3, 2))
    by_sample, by_feature, lengths = s.sum(axis=1), s.sum(axis=0), s.sum(axis=(1, 2))
    shape, rate = MODEL.length_posterior(lengths)
    for _ in range(3):
        w = rng.dirichlet(ALPHA, size=2).T
        h = rng.dirichlet(BETA, size=2)
        length = rng.gamma(3.0, size=2)
        log_joint = given_factors(s, w, h * length[:, None]) + stats.gamma.logpdf(length, 3.0, scale=1 / 0.8).sum()
        log_joint += sum(stats.dirichlet.logpdf(w[:, k], ALPHA) for k in range(2))
        log_joint += sum(stats.dirichlet.logpdf(h[n], BETA) for n in range(2))
        log_conditional = stats.gamma.logpdf(length, shape, scale=1 / rate).sum()
        log_conditional += sum(
            stats.dirichlet.logpdf(w[:, k], MODEL.dictionary_posterior(by_feature)[:, k]) for k in range(2)
        )
        log_conditional += sum(stats.dirichlet.logpdf(h[n], MODEL.activation_posterior(by_sample)[n]) for n in range(2))
        assert MODEL.log_allocation(s) == pytest.approx(log_joint - log_conditional, rel=1e-12)


def test_probabilities_of_one_sample_sum_to_one() -> None:
    model = AllocationModel(2, 2, 0.6, [1.0, 0.3], 2.0, 3.0)
    logs = [model.log_allocation(s) for total in np.ndindex(14, 14) for s in allocations(np.array([total]), 2)]
    # What lies beyond 13 tokens a feature: P(L > 13) is below 1e-6 for NB(2, 1/4).
    assert np.exp(logsumexp(logs)) == pytest.approx(1.0, abs=1e-5)


def test_simulated_moments() -> None:
    model = AllocationModel(3, 2, ALPHA, BETA, 3.0, 0.8)
    drawn = [model.simulate(Key(seed), 4) for seed in range(3000)]
    totals = np.array([d.counts.sum(axis=1) for d in drawn]).ravel()
    # Length ~ negative binomial with mean a / b and variance a / b (1 + 1 / b): 5 standard errors.
    assert totals.mean() == pytest.approx(3.75, abs=5 * np.sqrt(3.75 * 2.25 / totals.size))
    w = np.mean([d.dictionary for d in drawn], axis=0)
    np.testing.assert_allclose(w, np.repeat((ALPHA / ALPHA.sum())[:, None], 2, axis=1), atol=0.03)
    expected = np.mean([d.activations @ d.dictionary.T - d.counts.toarray() for d in drawn], axis=0)
    assert np.abs(expected).max() < 0.2


def test_conditional_means() -> None:
    s = np.random.default_rng(1).poisson(3.0, size=(2, 3, 2))
    by_sample, by_feature = s.sum(axis=1), s.sum(axis=0)
    activations, dictionary = MODEL.expected_factors(by_sample, by_feature)
    np.testing.assert_allclose(dictionary, (ALPHA[:, None] + by_feature) / (ALPHA.sum() + by_feature.sum(axis=0)))
    lengths = (3.0 + by_sample.sum(axis=1)) / 1.8
    np.testing.assert_allclose(activations.sum(axis=1), lengths)
    np.testing.assert_allclose(activations[0] / lengths[0], (BETA + by_sample[0]) / (BETA.sum() + by_sample[0].sum()))


@pytest.mark.parametrize("counts", [[[1, 0, 2], [0, 2, 1]], [[0, 0, 0], [3, 0, 0]], [[2, 1, 1]]])
def test_exact_marginal_is_the_sum_over_allocations(counts: list[list[int]]) -> None:
    assert exact_log_marginal(counts, MODEL) == pytest.approx(log_marginal(np.array(counts), MODEL), rel=1e-12)


def test_exact_marginal_with_three_components() -> None:
    model = AllocationModel(2, 3, [0.4, 0.9], [0.2, 0.5, 1.4], 5.0, 2.0)
    counts = np.array([[2, 1], [0, 2], [1, 0]])
    assert exact_log_marginal(counts, model) == pytest.approx(log_marginal(counts, model), rel=1e-12)


def test_one_component_has_no_latent_split() -> None:
    counts = np.random.default_rng(2).poisson(4.0, size=(5, 3))
    model = AllocationModel(3, 1, ALPHA, 0.7, 3.0, 0.8)
    assert exact_log_marginal(counts, model) == pytest.approx(model.log_allocation(counts[:, :, None]), rel=1e-12)


def test_given_the_dictionary_it_is_a_gamma_poisson_model_with_other_lengths() -> None:
    # MATH 3: log p_GaP(x) - log NB(L; beta_+, b) + log NB(L; a, b), by Monte Carlo over the dictionary: p(X) for N = 1.
    x = np.array([[2, 0, 1]])
    rng = np.random.default_rng(3)
    success = 0.8 / 1.8
    lengths = stats.nbinom.logpmf(3, 3.0, success) - stats.nbinom.logpmf(3, BETA.sum(), success)
    logs = [exact(x, rng.dirichlet(ALPHA, size=2).T, BETA, 0.8).values[0] + lengths for _ in range(2000)]
    estimate, error = np.mean(np.exp(logs)), np.std(np.exp(logs)) / np.sqrt(2000)
    assert abs(estimate - np.exp(exact_log_marginal(x, MODEL))) < 4 * error  # false alarm 6e-5


def test_labels_share_what_an_allocation_has() -> None:
    s = np.random.default_rng(4).poisson(1.5, size=(2, 3, 2))
    ways = gammaln(s.sum(axis=2) + 1).sum() - gammaln(s + 1).sum()
    log_factorials = float(gammaln(s.sum(axis=2) + 1).sum())
    log_samples = MODEL.sample_prior.log_lengths(s.sum(axis=(1, 2))) + gammaln(BETA + s.sum(axis=1)).sum()
    of_labels = MODEL.log_labels(log_samples, s.sum(axis=0), log_factorials)
    assert of_labels + ways == pytest.approx(MODEL.log_allocation(s), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 2, [1.0, 2.0]), r"dictionary_concentration must be a number or one for each of 3 features"),
        ((3, 2, "many"), r"dictionary_concentration must be a number or one for each of 3 features, got 'many'"),
        ((3, 2, 1.0, [1.0, 0.0]), r"activation_concentration\[1\] = 0.0 must be a positive finite number"),
        ((3, 2, 1.0, 1.0, -1.0), r"length_shape must be positive and finite, got -1.0"),
        ((3, 2, 1.0, 1.0, 1.0, np.inf), r"length_rate must be positive"),
    ],
)
def test_bad_priors_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        AllocationModel(*arguments)  # type: ignore[arg-type]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="samples x 3 features x 2 parts, got shape"):
        MODEL.log_allocation(np.zeros((2, 2, 2)))
    with pytest.raises(InvalidInputError, match="X has 2 features, and the model 3"):
        exact_log_marginal([[1, 2]], MODEL)
    with pytest.raises(InvalidInputError, match="needs more than 100 states"):
        exact_log_marginal(np.full((4, 3), 5), MODEL, max_states=100)
