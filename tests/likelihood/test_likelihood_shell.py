"""What estimators share, beside plain NumPy: constants of rows, means of draws with their errors, held-out tokens."""

from __future__ import annotations

import numpy as np
import pytest
from likelihood_cases import DICTIONARY, LONG, MODEL, RATE, SHAPE, SHORT
from scipy import stats
from scipy.special import gammaln, logsumexp

from partwise import CountMatrix
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.errors import InvalidInputError
from partwise.kernels.continuous import gamma
from partwise.kernels.streams import new_stream, seek
from partwise.kernels.sums import longest_row
from partwise.likelihood import direct_sampling, harmonic_mean
from partwise.likelihood.completion import SMOOTHING, Completion, Predictor, complete, predict_tokens, split_tokens
from partwise.likelihood.importance import importance_seconds
from partwise.likelihood.kernels.importance import N_PILOT
from partwise.likelihood.kernels.sampling import activation_draws, allocate, log_product
from partwise.likelihood.left_to_right import _seconds
from partwise.likelihood.problem import LikelihoodProblem, average_draws, log_factorials, log_mean, require_at_least

ROWS = np.array([SHORT, LONG, np.zeros(6, int), SHORT + LONG])
HIDDEN = np.zeros(ROWS.shape, bool)
HIDDEN[[0, 1, 1, 3, 3, 3, 3, 3], [0, 2, 5, 0, 1, 2, 3, 4]] = True


def test_predicted_seconds() -> None:
    problem = LikelihoodProblem.build(ROWS, *MODEL)
    nonzeros, n_components = (ROWS > 0).sum(axis=1), DICTIONARY.shape[1]
    features = nonzeros**2 * n_components
    by_chains = _seconds(problem, 7, 5, "sampled")
    np.testing.assert_allclose(by_chains, 7e-9 * (features + 5 * nonzeros * n_components))
    exactly = _seconds(problem, 7, 5, "exact")
    np.testing.assert_allclose(exactly, 7e-9 * (features + (ROWS**2).sum(axis=1)))
    draws = nonzeros * (3.0 + 0.33 * n_components) + 300.0 + n_components**2
    wanted = (7 + N_PILOT) * draws + 300.0 * nonzeros * n_components
    np.testing.assert_allclose(importance_seconds(problem, 7), 1e-9 * wanted)


def test_harmonic_mean_may_keep_every_sweep() -> None:
    assert np.isfinite(harmonic_mean([SHORT], *MODEL, rng=0, n_draws=10, burn_in=0).values).all()
    with pytest.raises(InvalidInputError, match="burn_in"):
        harmonic_mean([SHORT], *MODEL, rng=0, n_draws=10, burn_in=-1)


def test_means_of_exponentials(rng: np.random.Generator) -> None:
    logs = rng.normal(-500.0, [[0.1], [2.0], [9.0]], size=(3, 200))
    values, errors, ess = log_mean(logs)
    terms = np.exp(logs - logs.max(axis=1, keepdims=True))
    np.testing.assert_allclose(values, logsumexp(logs, axis=1) - np.log(200), rtol=1e-12)
    relative = terms.std(axis=1, ddof=1) / np.sqrt(200) / terms.mean(axis=1)
    # Two errors cover what two standard deviations of a normal distribution do: Student's t with 199 degrees.
    student = stats.t.ppf(stats.norm.cdf(2.0), 199) / 2.0
    np.testing.assert_allclose(errors, relative * student, rtol=1e-10)
    np.testing.assert_allclose(ess, terms.sum(axis=1) ** 2 / np.square(terms).sum(axis=1), rtol=1e-10)
    none = log_mean(np.full((1, 4), -np.inf))
    assert (none[0][0], none[1][0], none[2][0]) == (-np.inf, np.inf, 0.0)
    one, error, alone = log_mean(np.array([[0.0, -np.inf, -np.inf, -np.inf]]))
    assert (one[0], alone[0]) == (pytest.approx(-np.log(4)), pytest.approx(1.0))
    assert error[0] == pytest.approx(stats.t.ppf(stats.norm.cdf(2.0), 3) / 2.0)


@pytest.mark.parametrize("missing", [False, True])
def test_constants_of_rows(missing: bool) -> None:
    observed = ~(HIDDEN & missing)
    problem = LikelihoodProblem.build(np.where(observed, ROWS, np.nan), *MODEL, rng=0)
    rates = RATE + observed @ DICTIONARY
    assert problem.n_rows == 4
    inverse = np.broadcast_to(problem.inverse_rates, rates.shape)
    np.testing.assert_allclose(inverse, 1.0 / rates, rtol=1e-12)
    log_zero = (SHAPE * np.log(RATE / rates)).sum(axis=1)
    np.testing.assert_allclose(problem.log_zero, log_zero, rtol=1e-12)
    factorials = gammaln(np.where(observed, ROWS, 0) + 1.0).sum(axis=1)
    np.testing.assert_allclose(log_factorials(problem.data), factorials, rtol=1e-12)
    np.testing.assert_allclose(problem.constants, log_zero - factorials, rtol=1e-12)
    assert not problem.impossible.any()
    # p(no counts) is the probability of zeros under a negative binomial, component by component
    zeros = LikelihoodProblem.build(np.zeros((1, 6)), *MODEL).result(np.zeros(1), np.zeros(1), np.zeros(1))
    assert zeros.total == pytest.approx(stats.nbinom.logpmf(0, SHAPE, RATE / (RATE + DICTIONARY.sum(axis=0))).sum())


def test_rows_with_an_impossible_count(rng: np.random.Generator) -> None:
    dictionary = np.vstack((DICTIONARY, np.zeros(3)))
    X = np.column_stack((ROWS, [0, 2, 0, 0]))
    problem = LikelihoodProblem.build(X, dictionary, SHAPE, RATE)
    np.testing.assert_array_equal(problem.impossible, [False, True, False, False])
    np.testing.assert_array_equal(problem.data.row_sums, X.sum(axis=1) * [1, 0, 1, 1])
    assert problem.cause == "Row 1 of X has a count of feature 6, which no part holds"
    found = problem.result(np.arange(4.0), np.full(4, 0.5), np.full(4, 7.0))
    np.testing.assert_allclose(found.values[[0, 2, 3]], problem.constants[[0, 2, 3]] + [0.0, 2.0, 3.0])
    assert (found.values[1], found.std_errors[1]) == (-np.inf, 0.0)
    possible = LikelihoodProblem.build(ROWS, *MODEL).result(*rng.random((3, 4)))
    assert possible.total_std_error == pytest.approx(np.sqrt(np.sum(possible.std_errors**2)))


@pytest.mark.parametrize("n_rows", [1, 1024, 1025])
def test_exposures_of_rows_of_which_little_is_observed(n_rows: int) -> None:
    # One such row, as many as are summed at once, and one more; and a weight beside which the others have no digits.
    dictionary = np.vstack((np.full(3, 1e9), DICTIONARY[1:]))
    hidden = np.zeros((n_rows, 6), bool)
    hidden[:, 0] = True
    hidden[::2, 3] = True
    problem = LikelihoodProblem.build(np.where(hidden, np.nan, 1.0), dictionary, SHAPE, RATE)
    np.testing.assert_allclose(problem.inverse_rates, 1.0 / (RATE + ~hidden @ dictionary), rtol=1e-12)


def test_least_settings() -> None:
    require_at_least(2, n_draws=2)
    with pytest.raises(ValueError, match="n_draws must be at least 2, got 1"):
        require_at_least(2, n_draws=1)


# Draws of activations.


@pytest.mark.parametrize("missing", [False, True])
def test_draws_from_the_prior_are_those_of_the_stream(missing: bool) -> None:
    observed = ~(HIDDEN & missing)
    X, n_draws = np.where(observed, ROWS, np.nan), 50
    problem = LikelihoodProblem.build(X, *MODEL, rng=3)
    words = problem.key.for_stage("direct sampling").words
    logs, stream = np.empty((4, n_draws)), new_stream()
    for n in range(4):
        seek(stream, *words, n)
        for s in range(n_draws):
            h = np.array([gamma(stream, a) for a in SHAPE]) / RATE
            rates = DICTIONARY @ h
            logs[n, s] = stats.poisson.logpmf(ROWS[n], rates)[observed[n]].sum()
    found = direct_sampling(X, *MODEL, rng=3, n_draws=n_draws)
    values, errors, ess = log_mean(logs)
    np.testing.assert_allclose(found.values, values, rtol=1e-9)
    np.testing.assert_allclose(found.std_errors, errors, rtol=1e-7)
    np.testing.assert_allclose(found.ess, ess, rtol=1e-7)


def test_posterior_draws_know_the_counts() -> None:
    X, n_draws, burn_in = ROWS[:2], 4000, 50
    problem = LikelihoodProblem.build(X, *MODEL, rng=1)
    words, found = problem.key.for_stage("harmonic mean").words, np.empty((2, n_draws))
    activation_draws(problem.model, True, burn_in, words, 0, 2, found)
    result = harmonic_mean(X, *MODEL, rng=1, n_draws=n_draws, burn_in=burn_in)
    inverse, errors, ess = log_mean(found)
    np.testing.assert_allclose(result.values, -inverse + problem.constants - problem.log_zero, rtol=1e-10)
    np.testing.assert_allclose(result.std_errors, errors)
    np.testing.assert_allclose(result.ess, ess)
    # One sweep less of burn-in gives the same chain, one draw later.
    earlier = np.empty((2, n_draws + 1))
    activation_draws(problem.model, True, burn_in - 1, words, 0, 2, earlier)
    np.testing.assert_array_equal(earlier[:, 1:], found)
    # E[p(x | h)^-1 given x] = 1 / p(x), and E[log p(x | h)] is above log p(x): by Jensen both sides.
    assert np.all(-found.mean(axis=1) > -inverse - 1e-9)


def test_allocations_are_of_all_tokens(rng: np.random.Generator) -> None:
    counts, weights, point = np.array([1, 4, 30]), rng.random((5, 3)), rng.random(3)
    stream, totals = new_stream(), np.empty(3)
    seek(stream, *Key(2).words, 0)
    drawn, n_draws = np.zeros(3), 2000
    for _ in range(n_draws):
        allocate(stream, counts, weights, point, np.empty(3), np.empty(3, np.int64), totals)
        assert totals.sum() == counts.sum()
        drawn += totals
    # Room that begins with the arrays and goes on: nothing there is read or written.
    beyond, drawn_beyond = np.full((2, 4), np.nan), np.full(4, 7)
    allocate(stream, counts, weights, point, beyond[0, :3], drawn_beyond[:3], beyond[1, :3])
    assert np.isnan(beyond[:, 3]).all()
    assert drawn_beyond[3] == 7
    assert beyond[1, :3].sum() == counts.sum()
    shares = weights[:3] * point
    shares /= shares.sum(axis=1, keepdims=True)
    spread = np.sqrt((counts[:, None] * shares * (1 - shares)).sum(axis=0) / n_draws)
    # five standard errors: a false alarm in 1e-6 of seeds
    assert np.abs((drawn / n_draws - counts @ shares) / spread).max() < 5.0
    assert log_product(counts, weights, point) == pytest.approx(counts @ np.log(weights[:3] @ point))
    assert longest_row(np.array([0, 4, 5, 12, 12]), 1, 4) == 7
    assert longest_row(np.array([0, 4, 5, 12, 12]), 0, 2) == 4


def test_draws_are_averaged_by_blocks_of_rows() -> None:
    problem = LikelihoodProblem.build(ROWS, *MODEL, rng=0)
    seen = []

    def kernel(model: object, setting: str, words: object, start: int, stop: int, logs: np.ndarray) -> None:
        assert setting == "setting"
        seen.append((start, stop))
        logs[...] = np.arange(start, stop)[:, None] + np.log([1.0, 3.0])

    values, errors, ess = average_draws(problem, "stage", 2, kernel, "setting")
    assert sorted(seen)[0][0] == 0
    assert sorted(seen)[-1][1] == 4
    np.testing.assert_allclose(values, np.arange(4) + np.log(2.0))
    np.testing.assert_allclose(errors, 0.5 * stats.t.ppf(stats.norm.cdf(2.0), 1) / 2.0)
    np.testing.assert_allclose(ess, 1.6)


# Held-out tokens.


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_split_tokens_add_up(rng: np.random.Generator, share: float) -> None:
    X = rng.poisson(40.0, size=(60, 8)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    data = CountMatrix.build(X)
    given, rest = split_tokens(data, Key(1), share)
    dense = [part.to_scipy().toarray() for part in (given, rest)]
    np.testing.assert_array_equal(dense[0] + dense[1], np.nan_to_num(X))
    assert given.n_missing == rest.n_missing == data.n_missing
    n_tokens = np.nansum(X)
    # five standard errors of a binomial share
    assert abs(dense[0].sum() / n_tokens - share) < 5.0 * np.sqrt(share * (1 - share) / n_tokens)


def test_predictions_are_shares_of_rates(rng: np.random.Generator) -> None:
    X = rng.poisson(3.0, size=(5, 6)).astype(float)
    X[0, [1, 4]] = np.nan
    X[1, :5] = np.nan
    X[3] = 0.0
    activations, dictionary = rng.gamma(1.0, size=(5, 3)), rng.gamma(1.0, size=(6, 3))
    activations[4] = 0.0  # nothing was given
    found = predict_tokens(CountMatrix.build(X), activations, dictionary)
    seen, means = ~np.isnan(X), np.zeros(5)
    for n in range(5):
        rates = (dictionary @ activations[n])[seen[n]]
        even = 1.0 / seen[n].sum()
        shares = (1 - SMOOTHING) * rates / rates.sum() + SMOOTHING * even if rates.any() else np.full(rates.size, even)
        counts = X[n, seen[n]]
        means[n] = counts @ np.log(shares) / counts.sum() if counts.sum() else 0.0
    np.testing.assert_allclose(found.means, means, rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(found.tokens, np.nansum(X, axis=1))
    np.testing.assert_allclose(found.values, means * np.nansum(X, axis=1), atol=1e-12)
    assert found.per_token == pytest.approx(found.values.sum() / found.tokens.sum())
    huge = Completion(np.array([-1.0, -3.0]), np.array([1e308, 1.5e308]))
    assert huge.per_token == pytest.approx(-2.2)


def test_predictions_where_nearly_all_is_hidden() -> None:
    dictionary = np.array([[1e12], [1.0], [3.0]])
    X = CountMatrix.build([[np.nan, 2.0, 1.0]])
    found = predict_tokens(X, np.ones((1, 1)), dictionary)
    shares = (1 - SMOOTHING) * np.array([0.25, 0.75]) + SMOOTHING / 2
    assert found.means[0] == pytest.approx((2 * np.log(shares[0]) + np.log(shares[1])) / 3, rel=1e-12)


def test_completion_is_a_split_and_a_prediction(rng: np.random.Generator) -> None:
    data = CountMatrix.build(rng.poisson(5.0, size=(30, 6)))
    dictionary = rng.gamma(1.0, size=(6, 3))

    def solve(given: CountMatrix) -> np.ndarray:
        return given.to_scipy() @ dictionary

    found = complete(data, Key(4), [Predictor(dictionary, solve)], resolve_engine(), 0.3)
    given, rest = split_tokens(data, Key(4), 0.3)
    expected = predict_tokens(rest, solve(given), dictionary)
    np.testing.assert_allclose(found.means, expected.means)
    np.testing.assert_array_equal(found.tokens, expected.tokens)
