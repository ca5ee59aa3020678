"""AllocationNMF: every algorithm finds planted parts, gives the same bits on any number of threads, and is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from allocation_enumeration import posterior
from scipy.optimize import linear_sum_assignment
from scipy.special import digamma, gammaln, xlogy
from sklearn.decomposition import LatentDirichletAllocation

import partwise
from partwise import AllocationNMF, CountMatrix
from partwise.allocation import AllocationModel
from partwise.allocation.inference.annealed import AnnealedGibbs
from partwise.allocation.inference.decomposition import BestDecomposition, evaluate, gradients
from partwise.allocation.inference.variational import AllocationVariationalBayes
from partwise.allocation.kernels import decomposition
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.errors import InvalidInputError

ALGORITHMS = ["gibbs", "gibbs-partial", "gibbs-distributed", "cvb0", "vb", "bld", "map"]


def estimator(inference: str, n_components: int = 3, **changes: Any) -> AllocationNMF:
    settings = {"n_draws": 20, "burn_in": 30, "max_iter": 100, "tol": 0.0, "random_state": 1, **changes}
    return AllocationNMF(n_components, inference=inference, **settings)


@pytest.fixture(scope="module")
def planted() -> Any:
    return AllocationModel(20, 3, 0.1, 0.2, 50.0, 0.5).simulate(Key(3), 40)


@pytest.mark.parametrize("inference", ALGORITHMS)
def test_planted_parts_are_found(planted: Any, inference: str) -> None:
    model = estimator(inference).fit(planted.counts)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1.0)
    found = model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)
    truth = planted.dictionary.T / np.linalg.norm(planted.dictionary.T, axis=1, keepdims=True)
    cosines = found @ truth.T
    matched = cosines[linear_sum_assignment(cosines, maximize=True)]
    # The mode of p(S) is a poor estimate of the parts (see the docs), the others are close to posterior means.
    assert matched.min() > (0.9 if inference == "map" else 0.95)
    expected = model.inverse_transform(model.activations_)
    assert np.corrcoef(expected.ravel(), planted.counts.toarray().ravel())[0, 1] > 0.95
    again = model.transform(planted.counts)
    # Both are E[L_n | x]; cvb0 has its responsibilities in single precision.
    rtol = 1e-6 if inference == "cvb0" else 1e-9
    np.testing.assert_allclose(again.sum(axis=1), model.activations_.sum(axis=1), rtol=rtol)


@pytest.mark.parametrize("inference", ALGORITHMS)
def test_same_bits_for_any_number_of_threads(planted: Any, inference: str) -> None:
    models = [estimator(inference, burn_in=3, n_draws=3, max_iter=5, n_jobs=n).fit(planted.counts) for n in (1, 3)]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    np.testing.assert_array_equal(models[0].activations_, models[1].activations_)
    first = planted.counts.toarray()[:4]
    np.testing.assert_array_equal(models[0].transform(first[1:]), models[1].transform(first)[1:])


@pytest.mark.parametrize("inference", ALGORITHMS)
def test_saved_and_loaded(planted: Any, inference: str, tmp_path: Path) -> None:
    model = estimator(inference, burn_in=3, n_draws=3, max_iter=3).fit(planted.counts)
    model.save(tmp_path / "model.partwise")
    loaded = partwise.load(tmp_path / "model.partwise")
    rows = planted.counts.toarray()[:3]
    np.testing.assert_array_equal(loaded.transform(rows), model.transform(rows))
    np.testing.assert_array_equal(loaded.score_samples(rows), model.score_samples(rows))


@pytest.mark.parametrize("inference", ALGORITHMS)
@pytest.mark.parametrize("X", [[[0, 0, 0], [3, 0, 1]], [[5, 0], [2, 0], [1, 0]], [[7]]])
def test_empty_rows_and_columns(X: list[list[int]], inference: str) -> None:
    model = estimator(inference, 2, burn_in=2, n_draws=2, max_iter=5).fit(X)
    assert np.all(np.isfinite(model.components_))
    assert np.all(np.isfinite(model.transform(X)))
    assert np.isfinite(model.score(X))


def test_score_is_the_likelihood_given_the_dictionary() -> None:
    # One sample, one token of known parts: P(x) = P(length 1) * sum_k E[h_k] w_fk.
    model = AllocationNMF(2, activation_concentration=[1.0, 3.0], length_shape=2.0, length_rate=0.5, inference="vb")
    model.fit([[5, 0, 1], [0, 4, 4]])
    mixture = np.array([0.25, 0.75]) @ model.components_
    length = 2.0 * (0.5 / 1.5) ** 2 / 1.5
    np.testing.assert_allclose(model.score_samples(np.eye(3, dtype=int)), np.log(length * mixture), rtol=1e-9)


def test_transform_is_the_posterior_mean() -> None:
    model = estimator("vb", 2, activation_concentration=[0.5, 1.5], length_shape=2.0, length_rate=0.5)
    model.fit([[5, 0, 1], [0, 4, 4], [2, 2, 2]])
    x = np.array([[2, 0, 2]])
    w = model.components_
    labels = np.array(list(np.ndindex(2, 2, 2, 2)))
    counts = np.stack([4 - labels.sum(axis=1), labels.sum(axis=1)], axis=1)
    beta = np.array([0.5, 1.5])
    logs = np.log(w[labels, [0, 0, 2, 2]]).sum(axis=1) + gammaln(beta + counts).sum(axis=1)
    weights = np.exp(logs - logs.max())
    exact = (weights / weights.sum()) @ (beta + counts) / 6.0 * (2.0 + 4) / 1.5
    # 200 draws of a chain with little memory: five standard errors of about 0.02.
    np.testing.assert_allclose(model.transform(x)[0], exact, atol=0.1)


def test_best_decomposition_never_falls_and_beats_its_start() -> None:
    engine = resolve_engine()
    for seed in range(5):
        model = AllocationModel(8, 2, 1.0, 1.0, 40.0, 1.0)
        data = CountMatrix.build(model.simulate(Key(seed), 10).counts)
        algorithm = BestDecomposition(model, start="random", start_iterations=100, engine=engine)
        state = algorithm.init(Key(seed), data)
        reached = []
        for iteration in range(1, 150):
            state, _ = algorithm.step(Key(seed).at(iteration), data, state)
            share = state.activations[:, None, :] * state.dictionary[None]
            s = data.to_scipy().toarray()[..., None] * share / share.sum(axis=2, keepdims=True)
            reached.append(model.log_allocation(s))
            assert state.objective == pytest.approx(reached[-1], abs=1e-7)
        # Tables are exact to 1e-10 for each of 160 entries.
        assert np.diff(reached).min() > -1e-7
        assert reached[-1] > reached[0] + 1.0


def test_gamma_functions_are_as_exact_as_stated() -> None:
    s = np.concatenate([np.linspace(0.0, 1.0, 5001), np.geomspace(1.0, 1e5, 2000)])
    near = s[s <= 1.0]
    found = [
        [decomposition._near_zero(table, x) for x in near]
        for table in (decomposition._LOG_GAMMA, decomposition._DIGAMMA)
    ]
    np.testing.assert_allclose(found[0], gammaln(1.0 + near), atol=1e-12)
    np.testing.assert_allclose(found[1], digamma(1.0 + near), atol=1e-12)
    logs = [decomposition.log_factorial(x, decomposition.LOG_GAMMA_TABLE) for x in s]
    slopes = [decomposition.digamma_from_one(x, decomposition.DIGAMMA_TABLE) for x in s]
    np.testing.assert_allclose(logs, gammaln(1.0 + s), rtol=1e-14, atol=7e-11)
    np.testing.assert_allclose(slopes, digamma(1.0 + s), atol=3e-10)


def test_gradients_are_those_of_the_objective() -> None:
    model = AllocationModel(5, 3, 0.4, [0.3, 1.0, 4.0], 5.0, 1.0)
    data = CountMatrix.build(model.simulate(Key(1), 4).counts)
    rng, engine = np.random.default_rng(0), resolve_engine()
    activations, dictionary = rng.gamma(1.0, size=(4, 3)) + 0.1, rng.gamma(1.0, size=(5, 3)) + 0.1
    state = evaluate(model, data, activations, dictionary, engine)
    samples, features = gradients(model, data, state, engine)
    assert samples.min() >= 0
    assert features.min() >= 0
    step = 1e-5
    for factor, found in ((activations, samples), (dictionary, features)):
        for index in np.ndindex(*factor.shape):
            row, k = index
            moved = []
            for sign in (1, -1):
                kept = factor[index]
                factor[index] = kept * np.exp(sign * step)
                moved.append(evaluate(model, data, activations, dictionary, engine).objective)
                factor[index] = kept
            numeric = (moved[0] - moved[1]) / (2 * step)
            assert found[row, 0, k] - found[row, 1, k] == pytest.approx(numeric, abs=2e-4)


def test_unequal_concentrations_are_matched_to_components() -> None:
    model = AllocationModel(6, 3, 0.5, [1.0, 1.0, 20.0], 50.0, 1.0)
    data = CountMatrix.build(model.simulate(Key(0), 15).counts)
    engine = resolve_engine()
    state = BestDecomposition(model, start="random", start_iterations=50, engine=engine).init(Key(0), data)
    for order in ([1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [2, 0, 1]):
        factors = [np.ascontiguousarray(factor[:, order]) for factor in (state.activations, state.dictionary)]
        assert evaluate(model, data, factors[0], factors[1], engine).objective <= state.objective + 1e-9


def test_annealing_finds_the_mode() -> None:
    model = AllocationModel(3, 2, [0.4, 1.3, 0.8], [0.5, 1.6], 3.0, 1.0)
    counts = np.array([[2, 0, 1], [0, 1, 2]])
    every, probabilities = posterior(counts, model)
    data = CountMatrix.build(counts)
    algorithm = AnnealedGibbs(model, n_sweeps=60, n_chains=8, engine=resolve_engine())
    state = algorithm.init(Key(0), data)
    for iteration in range(1, 61):
        state, _ = algorithm.step(Key(0).at(iteration), data, state)
    best = model.log_allocation(every[int(np.argmax(probabilities))])
    assert state.log_allocation.max() == pytest.approx(best, abs=1e-9)


def test_bound_is_that_of_latent_dirichlet_allocation() -> None:
    # Given lengths the model is LDA: the same variational bound as scikit-learn's for the same parameters.
    counts = np.random.default_rng(0).poisson(2.0, size=(6, 5))
    model = AllocationModel(5, 2, 0.7, 0.4, 2.0, 0.5)
    data = CountMatrix.build(counts)
    algorithm = AllocationVariationalBayes(model, resolve_engine())
    state = algorithm.init(Key(0), data)
    for iteration in range(1, 1500):
        state, info = algorithm.step(Key(0).at(iteration), data, state)
    peer = LatentDirichletAllocation(2, doc_topic_prior=0.4, topic_word_prior=0.7, random_state=0)
    peer.partial_fit(counts)
    peer.components_ = model.dictionary_posterior(state.feature_counts).T.copy()
    from partwise.allocation.inference.marginal import log_length

    bound = peer._approx_bound(counts, model.activation_posterior(state.sample_counts), sub_sampling=False)
    totals = counts.sum(axis=1)
    lengths = log_length(totals, 2.0, 0.5).sum() + gammaln(totals + 1).sum() - gammaln(counts + 1.0).sum()
    assert info["objective"] == pytest.approx(bound + lengths, abs=1e-6)


def test_bound_grows_and_is_below_the_truth() -> None:
    model = AllocationModel(2, 2, 0.7, 0.4, 2.0, 0.5)
    counts = [[2, 1], [0, 3]]
    data = CountMatrix.build(counts)
    algorithm = AllocationVariationalBayes(model, resolve_engine())
    state = algorithm.init(Key(0), data)
    bounds = []
    for iteration in range(1, 100):
        state, info = algorithm.step(Key(0).at(iteration), data, state)
        bounds.append(info["objective"])
    assert np.diff(bounds).min() > -1e-10
    exact = partwise.allocation.exact_log_marginal(counts, model)
    assert exact - 3 < bounds[-1] < exact


def test_batches_find_the_parts() -> None:
    drawn = AllocationModel(20, 3, 0.1, 0.2, 50.0, 0.5).simulate(Key(3), 400)
    model = estimator("vb")
    for start in range(0, 400, 50):
        model.partial_fit(drawn.counts[start : start + 50])
    assert (model.n_samples_seen_, model.n_iter_) == (400, 8)
    cosines = model.components_ @ drawn.dictionary
    cosines /= np.outer(np.linalg.norm(model.components_, axis=1), np.linalg.norm(drawn.dictionary, axis=0))
    assert cosines[linear_sum_assignment(cosines, maximize=True)].min() > 0.9
    assert model.length_shape / model.length_rate_ == pytest.approx(drawn.counts.sum() / 400)


def test_rows_of_any_length_have_activations(planted: Any) -> None:
    X = planted.counts.toarray()
    model = estimator("vb", max_iter=2).fit(X)
    X[5, 0] = 10**15
    found = model.transform(X)
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found[5].sum(), (model.length_shape + X[5].sum()) / (model.length_rate_ + 1.0))


def test_batches_do_not_go_on_with_other_parts(planted: Any) -> None:
    model = estimator("vb").partial_fit(planted.counts).set_params(n_components=5)
    with pytest.raises(InvalidInputError, match="n_components is 5, but there are 3 parts already"):
        model.partial_fit(planted.counts)


def test_missing_cells_are_refused_unless_they_can_be_imputed(planted: Any) -> None:
    X = planted.counts.toarray().astype(float)
    hidden = np.random.default_rng(0).random(X.shape) < 0.2
    X[hidden] = np.nan
    sentence = (
        r"is NaN or missing, which AllocationNMF\.fit does not support: pass missing='impute' with inference='gibbs'"
        r" or 'gibbs-partial', or fill it in\.$"
    )
    for inference in ("gibbs", "vb"):
        with pytest.raises(InvalidInputError, match=sentence):
            estimator(inference).fit(X)
    with pytest.raises(InvalidInputError, match=r"AllocationNMF\.partial_fit does not support: fill it in, or leave"):
        estimator("vb").partial_fit(X)
    with pytest.raises(InvalidInputError, match="missing='impute' is for inference='gibbs' and 'gibbs-partial'"):
        estimator("vb", missing="impute").fit(X)
    with pytest.raises(InvalidInputError, match="not for 'gibbs-distributed': use one of these"):
        estimator("gibbs-distributed", missing="impute").fit(X)
    model = estimator("gibbs", missing="impute")
    np.testing.assert_array_equal(model.fit_transform(X), model.activations_)


@pytest.mark.parametrize("inference", ["gibbs", "gibbs-partial"])
def test_imputed_cells_have_their_exact_expectation(inference: str) -> None:
    # Enumeration gives p(count, observed) for each count.
    priors: dict[str, Any] = {"dictionary_concentration": [0.4, 1.3], "activation_concentration": [0.5, 1.6]}
    lengths: dict[str, Any] = {"length_shape": 2.0, "length_rate": 0.8}
    counts = np.array([[3, 0], [0, 2], [1, 4]])
    possible = np.arange(40)
    logs = []
    for value in possible:
        counts[2, 1] = value
        logs.append(partwise.allocation.exact_log_marginal(counts, AllocationModel(2, 2, **priors, **lengths)))
    probabilities = np.exp(np.array(logs) - max(logs))
    exact = float(possible @ probabilities / probabilities.sum())
    X = counts.astype(float)
    X[2, 1] = np.nan
    settings = {"burn_in": 100, "n_draws": 1000, "thin": 3, "n_chains": 1}
    chosen = {"inference": inference, "missing": "impute", **settings, **priors, **lengths}
    models = [AllocationNMF(2, random_state=seed, **chosen).fit(X) for seed in range(10)]
    # The expected length is (a + x_n+) / (b + 1), whichever part the cell is of.
    found = np.array([1.8 * model.activations_[2].sum() - 2.0 - X[2, 0] for model in models])
    error = found.std(ddof=1) / np.sqrt(found.size)
    assert error < 0.05 * exact
    assert abs(found.mean() - exact) < 5 * error  # a false alarm in 1 of 1,000, by Student's t


@pytest.mark.parametrize("inference", ["gibbs", "gibbs-partial"])
def test_imputing_beats_taking_missing_cells_for_zeros(planted: Any, inference: str) -> None:
    counts = planted.counts.toarray()
    hidden = np.random.default_rng(0).random(counts.shape) < 0.2
    imputing = estimator(inference, missing="impute", burn_in=300, n_draws=200).fit(np.where(hidden, np.nan, counts))
    zeros = estimator(inference, burn_in=300, n_draws=200).fit(np.where(hidden, 0, counts))

    def deviance(model: AllocationNMF) -> float:
        rates = model.inverse_transform(model.activations_)[hidden]
        return float(2.0 * (xlogy(counts[hidden], counts[hidden] / rates) - counts[hidden] + rates).mean())

    assert deviance(imputing) < 0.4 * deviance(zeros)


def test_chains(planted: Any) -> None:
    model = estimator("gibbs", burn_in=300, n_draws=150, thin=2, n_chains=3).fit(planted.counts)
    found = model.diagnostics()
    assert set(found) == {"log_joint", "n_active", "evenness"}
    assert found["log_joint"].r_hat < 1.2
    with pytest.raises(InvalidInputError, match="was not fitted by sampling, so it has no chains"):
        estimator("vb").fit(planted.counts).diagnostics()


def test_allocation_to_arviz(planted: Any) -> None:
    pytest.importorskip("arviz", exc_type=ImportError)
    model = estimator("gibbs", burn_in=2, n_draws=10, thin=2, n_chains=3).fit(planted.counts)
    assert model.to_arviz().posterior["log_joint"].shape == (3, 10)


def test_cvb0_memory_is_estimated_first() -> None:
    with pytest.raises(InvalidInputError, match="keeps 4 x 3 responsibilities"):
        estimator("cvb0", max_memory=10.0).fit([[1, 2], [3, 4]])


def test_needs_counts() -> None:
    with pytest.raises(InvalidInputError, match="is not a whole number"):
        AllocationNMF(2).fit([[0.5, 1.0], [2.0, 3.0]])
