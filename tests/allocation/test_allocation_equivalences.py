"""Given the lengths the model is LDA, and with its factors as parameters PLSA; given the dictionary it is GaP."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp, xlogy

from partwise import AllocationNMF, PoissonNMF
from partwise.allocation import AllocationModel, exact_log_marginal
from partwise.allocation.inference.marginal import log_length
from partwise.core.keys import Key
from partwise.likelihood import exact

COUNTS = np.array([[2, 0, 1], [0, 2, 1]])
ALPHA, BETA = np.array([0.4, 1.3, 0.8]), np.array([0.5, 1.6])


def log_orders(counts: np.ndarray) -> float:
    """Log of the number of documents, tokens in order, that have these counts."""
    return float(gammaln(counts.sum(axis=1) + 1.0).sum() - gammaln(counts + 1.0).sum())


def log_lda(counts: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> float:
    """Log probability of the documents under LDA, as Pólya urns: each topic and word from its urn, then put back."""
    tokens = [(n, f) for n, f in np.ndindex(*counts.shape) for _ in range(counts[n, f])]
    logs = []
    for topics in itertools.product(range(beta.size), repeat=len(tokens)):
        of_document = np.tile(beta, (counts.shape[0], 1))
        of_topic = np.tile(alpha, (beta.size, 1))
        log = 0.0
        for (n, f), k in zip(tokens, topics, strict=True):
            log += np.log(of_document[n, k] / of_document[n].sum()) + np.log(of_topic[k, f] / of_topic[k].sum())
            of_document[n, k] += 1
            of_topic[k, f] += 1
        logs.append(log)
    return float(logsumexp(logs))


def test_given_the_lengths_it_is_lda() -> None:
    model = AllocationModel(3, 2, ALPHA, BETA, 3.0, 0.6)
    lengths = log_length(COUNTS.sum(axis=1).astype(float), 3.0, 0.6).sum()
    # b is a rate: scipy's p is b / (1 + b).
    assert lengths == pytest.approx(stats.nbinom.logpmf(COUNTS.sum(axis=1), 3.0, 0.6 / 1.6).sum())
    found = exact_log_marginal(COUNTS, model) - lengths
    assert found == pytest.approx(log_lda(COUNTS, ALPHA, BETA) + log_orders(COUNTS), abs=1e-10)
    # Power: the two concentrations exchanged are not the same model.
    assert abs(found - log_lda(COUNTS, ALPHA, BETA[::-1] * 2) - log_orders(COUNTS)) > 0.01


def test_given_the_dictionary_it_is_lda_and_gap() -> None:
    model = AllocationNMF(2, activation_concentration=BETA, length_shape=3.0, length_rate=0.6, inference="vb")
    model.fit([[5, 0, 1], [0, 4, 4], [2, 2, 2]])
    w = model.components_
    found = model.log_likelihood(COUNTS)
    for counts, value in zip(COUNTS, found.values, strict=True):
        features = np.repeat(np.arange(3), counts)
        logs = []
        for topics in itertools.product(range(2), repeat=features.size):
            taken = np.bincount(topics, minlength=2)
            urns = (gammaln(BETA + taken) - gammaln(BETA)).sum() + gammaln(BETA.sum())
            logs.append(urns - gammaln(BETA.sum() + features.size) + np.log(w[list(topics), features]).sum())
        lda = logsumexp(logs) + log_orders(counts[None])
        assert value == pytest.approx(lda + stats.nbinom.logpmf(features.size, 3.0, 0.6 / 1.6), abs=1e-9)
    totals = COUNTS.sum(axis=1).astype(float)
    gap = exact(COUNTS, w.T, BETA, 0.6).values
    lengths = log_length(totals, 3.0, 0.6) - log_length(totals, BETA.sum(), 0.6)
    np.testing.assert_allclose(found.values, gap + lengths, atol=1e-10)
    assert found.total_std_error == 0.0


def plsa_step(counts: np.ndarray, topics: np.ndarray, parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """EM of Hofmann (1999): P(k | n, f), then P(k | n) and P(f | k)."""
    joint = topics[:, None, :] * parts.T[None]
    total = joint.sum(axis=2, keepdims=True)
    expected = counts[..., None] * np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)
    by_topic, by_part = expected.sum(axis=1), expected.sum(axis=0).T
    return by_topic / by_topic.sum(axis=1, keepdims=True), by_part / by_part.sum(axis=1, keepdims=True)


def test_with_its_factors_as_parameters_it_is_plsa() -> None:
    counts = AllocationModel(9, 2, 0.5, 0.5, 60.0, 1.0).simulate(Key(4), 12).counts.toarray()
    model = PoissonNMF(2, max_iter=5000, tol=0.0, random_state=0, progress=False)
    activations = model.fit_transform(counts)
    sums = model.components_.sum(axis=1)
    parts, scaled = model.components_ / sums[:, None], activations * sums
    topics = scaled / scaled.sum(axis=1, keepdims=True)
    # A maximum of the Poisson likelihood keeps the lengths, and is where PLSA's EM stands still.
    np.testing.assert_allclose(scaled.sum(axis=1), counts.sum(axis=1), rtol=1e-6)
    after = plsa_step(counts, topics, parts)
    np.testing.assert_allclose(after[0], topics, atol=1e-5)
    np.testing.assert_allclose(after[1], parts, atol=1e-5)
    # The likelihoods differ by the lengths' alone: p(x | w, h, L) = Poisson(x_n+ | L_n) p(tokens | w, h) orders.
    for at in (topics, np.full_like(topics, 0.5)):
        rates = (counts.sum(axis=1)[:, None] * at) @ parts
        poisson = stats.poisson.logpmf(counts, rates).sum()
        lengths = stats.poisson.logpmf(counts.sum(axis=1), counts.sum(axis=1)).sum()
        plsa = xlogy(counts, at @ parts).sum()
        assert poisson == pytest.approx(lengths + plsa + log_orders(counts), rel=1e-10)
