"""Scores of unseen data against their definitions, by enumeration on tiny cases, for every count model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from likelihood_cases import DICTIONARY, MODEL, RATE, SHAPE
from reference import log_probability
from scipy.special import gammaln

from partwise import BetaGammaPFA, EmpiricalBayesPoissonNMF, GammaPoissonNMF, PoissonNMF
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.errors import ImpossibleRowsWarning, InvalidInputError
from partwise.likelihood import exact, marginal_perplexity, word_prediction
from partwise.likelihood.completion import SMOOTHING, split_tokens

X = np.array([[2, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0], [0, 1, 3, 0, 0, 0]])


def _by_enumeration(counts: Any, hidden: Any) -> float:
    """Log p of the cells of a row that are not hidden."""
    kept = ~np.asarray(hidden)
    return log_probability(counts[kept], DICTIONARY[kept], SHAPE, RATE)


class TestPerplexity:
    def test_equals_enumeration(self) -> None:
        logs = np.array([log_probability(row, *MODEL) for row in X])
        orders = gammaln(X.sum(axis=1) + 1.0) - gammaln(X + 1.0).sum(axis=1)
        result = marginal_perplexity(X, *MODEL)
        assert result.value == pytest.approx(np.exp(-(logs - orders).sum() / X.sum()), rel=1e-10)
        assert result.std_error == 0.0
        np.testing.assert_allclose(result.log_likelihood.values, logs, rtol=1e-10)
        np.testing.assert_allclose(result.log_orders, orders)
        np.testing.assert_array_equal(result.tokens, X.sum(axis=1))

    def test_is_about_tokens_in_their_order(self) -> None:
        # Two features of equal weight and a known length: each order of two tokens has a quarter of its probability.
        even = np.full((2, 1), 0.5)
        rows = [[2, 0], [1, 1], [0, 2]]
        scores = [marginal_perplexity([row], even, 1.0, 1.0).value for row in rows]
        np.testing.assert_allclose(scores, scores[0])
        length_two = exact(rows, even, 1.0, 1.0).values
        np.testing.assert_allclose(scores[0] ** -2.0, np.exp(length_two).sum() / 4)

    def test_missing_cells_are_left_out(self) -> None:
        table = X.astype(float)
        table[0, 2] = table[2, 1] = np.nan
        logs = [_by_enumeration(X[n], np.isnan(table[n])) for n in range(3)]
        result = marginal_perplexity(table, *MODEL)
        np.testing.assert_allclose(result.log_likelihood.values, logs, rtol=1e-10)
        np.testing.assert_array_equal(result.tokens, np.nansum(table, axis=1))

    def test_standard_error(self) -> None:
        # The spread of 100 perplexities is known to 7%.
        right = marginal_perplexity(X, *MODEL).value
        results = [marginal_perplexity(X, *MODEL, rng=seed, max_cost=0.0) for seed in range(100)]
        values = np.array([result.value for result in results])
        spread = values.std(ddof=1)
        assert 0.7 < spread / np.mean([result.std_error for result in results]) < 1.3
        assert abs(values.mean() - right) < 4 * spread / 10

    def test_impossible(self) -> None:
        dictionary = DICTIONARY.copy()
        dictionary[1] = 0.0
        with pytest.warns(ImpossibleRowsWarning, match=r"Row 0 of X \(one of 2 such rows\) has a count of feature 1,"):
            result = marginal_perplexity(X, dictionary, SHAPE, RATE)
        assert result.value == np.inf
        assert result.std_error == 0.0

    def test_nothing_to_score(self) -> None:
        with pytest.raises(InvalidInputError, match="no tokens"):
            marginal_perplexity(np.zeros((2, 6), int), *MODEL)


class TestWordPrediction:
    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
    def test_equals_enumeration(self, kind: Any) -> None:
        hidden = np.zeros(X.shape, bool)
        hidden[0, [0, 2]] = hidden[1, 3] = True
        nothing = np.zeros(6, bool)
        wanted = [_by_enumeration(X[n], nothing) - _by_enumeration(X[n], hidden[n]) for n in range(3)]
        result = word_prediction(X, kind(hidden), *MODEL)
        np.testing.assert_allclose(result.values, wanted, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(result.std_errors, 0.0)
        assert result.values[2] == 0.0

    def test_probabilities_of_a_cell_sum_to_one(self) -> None:
        table = np.tile(X[0], (80, 1))
        table[:, 2] = np.arange(80)
        hidden = np.zeros(table.shape, bool)
        hidden[:, 2] = True
        assert np.exp(word_prediction(table, hidden, *MODEL).values).sum() == pytest.approx(1.0, abs=1e-9)

    def test_missing_cells_are_in_neither(self) -> None:
        table = X.astype(float)
        table[:, 4] = np.nan
        hidden = np.zeros(X.shape, bool)
        hidden[:, [1, 4]] = True
        missing = np.arange(6) == 4
        wanted = [_by_enumeration(row, missing) - _by_enumeration(row, hidden[0]) for row in X]
        np.testing.assert_allclose(word_prediction(table, hidden, *MODEL).values, wanted, rtol=1e-9)

    def test_estimated(self) -> None:
        hidden = np.zeros(X.shape, bool)
        hidden[:, 2] = True
        wanted = word_prediction(X, hidden, *MODEL).values
        result = word_prediction(X, hidden, *MODEL, rng=0, max_cost=0.0)
        assert (np.abs(result.values - wanted) <= 5 * result.std_errors + 1e-12).all()
        assert result.std_errors[0] > 0.0

    def test_impossible(self) -> None:
        dictionary = DICTIONARY.copy()
        dictionary[1] = 0.0
        # Impossible cells are predicted at -inf; given ones are no better, where 0 would be a perfect score.
        for column in (1, 0):
            hidden = np.zeros(X.shape, bool)
            hidden[0, column] = True
            with pytest.warns(ImpossibleRowsWarning, match="feature 1, which no part holds"):
                result = word_prediction(X, hidden, dictionary, SHAPE, RATE)
            assert not np.isnan(result.values).any()
            assert result.values[0] == -np.inf

    @pytest.mark.parametrize("hidden", [np.zeros((3, 5), bool), np.zeros((3, 6), int)], ids=["shape", "type"])
    def test_mistakes_get_one_sentence(self, hidden: Any) -> None:
        with pytest.raises(InvalidInputError, match="held_out must be booleans of the shape"):
            word_prediction(X, hidden, *MODEL)


MODELS: dict[str, Any] = {
    "PoissonNMF": lambda: PoissonNMF(2, random_state=0),
    "BetaGammaPFA": lambda: BetaGammaPFA(2, random_state=0, burn_in=20, n_draws=20),
    "GammaPoissonNMF": lambda: GammaPoissonNMF(2, random_state=0, inference="vem", tol=1e-2),
    "EmpiricalBayesPoissonNMF": lambda: EmpiricalBayesPoissonNMF(2, random_state=0, tol=1.0),
}


@pytest.fixture(scope="module")
def tables() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(6, 0.3), size=2)
    train, test = (rng.poisson(rng.gamma(1.0, 10.0, size=(n, 2)) @ parts) for n in (60, 15))
    return train, test


@pytest.fixture(scope="module", params=MODELS)
def fitted(request: pytest.FixtureRequest, tables: tuple[Any, Any]) -> Any:
    return MODELS[request.param]().fit(tables[0])


def test_document_completion_of_every_count_model(fitted: Any, tables: tuple[Any, Any]) -> None:
    given, rest = split_tokens(CountMatrix.build(tables[1], integers=True, caller="test"), Key(3), 0.5)
    rates = fitted.transform(given) @ fitted.components_
    sums = rates.sum(axis=1, keepdims=True)
    shares = np.where(sums > 0, (1 - SMOOTHING) * rates / np.where(sums > 0, sums, 1.0) + SMOOTHING / 6, 1 / 6)
    held_out = rest.to_scipy().toarray()
    wanted = (held_out * np.log(shares)).sum(axis=1)
    result = fitted.completion(tables[1], random_state=3)
    np.testing.assert_allclose(result.values, wanted, rtol=1e-6, atol=1e-9)
    assert result.per_token == pytest.approx(wanted.sum() / held_out.sum(), rel=1e-6)
    # Better than knowing nothing.
    assert result.per_token > -np.log(6.0)


@pytest.mark.parametrize("fitted", ["BetaGammaPFA", "GammaPoissonNMF"], indirect=True)
def test_every_model_with_a_prior_of_activations(fitted: Any, tables: tuple[Any, Any]) -> None:
    model = fitted.components_.T, fitted.shape_, fitted.rate_
    wanted = exact(tables[1], *model).values
    result = fitted.log_likelihood(tables[1])
    assert (np.abs(result.values - wanted) <= 5 * result.std_errors + 1e-9).all()
    np.testing.assert_array_equal(fitted.score_samples(tables[1]), result.values)
    assert fitted.score(tables[1]) == fitted.completion(tables[1]).per_token
    # The tiny rows again, each by enumeration.
    tiny = np.array([row for row in tables[1] if row.sum() <= 8][:3])
    np.testing.assert_allclose(
        marginal_perplexity(tiny, *model).log_likelihood.values,
        [log_probability(row, *model) for row in tiny],
        rtol=1e-9,
    )
    hidden = np.zeros(tiny.shape, bool)
    hidden[:, :2] = True
    predicted = word_prediction(tiny, hidden, *model).values
    kept = model[0][2:]
    wanted = [log_probability(row, *model) - log_probability(row[2:], kept, *model[1:]) for row in tiny]
    np.testing.assert_allclose(predicted, wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("share", [0.0, 1.0, float("nan")])
def test_a_share_of_tokens(share: float, tables: tuple[Any, Any]) -> None:
    model = MODELS["PoissonNMF"]().fit(tables[0])
    with pytest.raises(InvalidInputError, match="share"):
        model.completion(tables[1], share=share)
