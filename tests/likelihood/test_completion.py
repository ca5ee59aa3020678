"""Token splits are binomial, keyed and exact; completion scores unseen tokens, finitely, and prefers the truth."""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.stats import binom, chi2, chisquare

from partwise import CountMatrix, PoissonNMF, Table
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.likelihood.completion import SMOOTHING, Completion, predict_tokens, split_tokens
from partwise.likelihood.kernels.completion import predict_rows

Floats = NDArray[np.float64]


def halves(data: CountMatrix, key: Key | None = None, share: float = 0.5) -> tuple[Floats, Floats]:
    given_half, held_out = split_tokens(data, key or Key(0), share)
    return given_half.to_scipy().toarray(), held_out.to_scipy().toarray()


class TestSplit:
    @pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 1.0])
    def test_sums_back(self, share: float, small_counts: np.ndarray, small_missing: np.ndarray) -> None:
        data = CountMatrix.build(Table(small_counts, missing=small_missing))
        parts = split_tokens(data, Key(3), share)
        assert np.array_equal(sum(part.to_scipy().toarray() for part in parts), data.to_scipy().toarray())
        for part in parts:
            assert part.values.dtype == data.values.dtype
            assert np.all(part.values > 0)  # zeros are not stored
            np.testing.assert_array_equal(part.missing_indices, data.missing_indices)
        assert [part.nnz == 0 for part in parts] == [share == 0, share == 1]

    @settings(max_examples=200)
    @given(
        hnp.arrays(
            np.float64,
            (3, 4),
            elements=st.one_of(
                st.just(0.0),
                st.floats(0, 20, allow_subnormal=False),
                st.floats(0, 1e307, allow_subnormal=False),
                st.integers(0, 2**62).map(float),
                st.sampled_from([2.3e-308, 1e-300, 2.0**53 - 1, 2.0**53, 2.0**53 + 2, 1e300]),
            ),
        ),
        st.sampled_from([0.01, 0.5, 0.8]),
    )
    def test_sums_back_exactly_at_any_size(self, X: Floats, share: float) -> None:
        data = CountMatrix.build(X, integers=False)
        first, second = halves(data, share=share)
        assert np.all((first >= 0) & (second >= 0))
        for one, other, whole in zip(first.ravel(), second.ravel(), X.ravel(), strict=True):
            assert Fraction(one) + Fraction(other) == Fraction(whole)  # not only after rounding

    def test_is_keyed(self, small_counts: np.ndarray) -> None:
        data = CountMatrix.build(small_counts)
        first = halves(data, Key(1))[0]
        assert np.array_equal(halves(data, Key(1))[0], first)
        for other in (Key(2), Key(1, chain=1), Key(1, iteration=1)):
            assert not np.array_equal(halves(data, other)[0], first)

    def test_other_rows_do_not_matter(self, small_counts: np.ndarray) -> None:
        data = CountMatrix.build(small_counts)
        first = halves(data)[0]
        changed = small_counts.copy()
        changed[:10] = 99
        changed[20:] = 0
        np.testing.assert_array_equal(halves(CountMatrix.build(changed))[0][10:20], first[10:20])
        some, _ = split_tokens(data.rows(10, 20), Key(0), first_row=10)
        np.testing.assert_array_equal(some.to_scipy().toarray(), first[10:20])

    # Each of the 12 tests raises a false alarm with a chance of 1e-5.
    @pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
    @pytest.mark.parametrize("count", [1, 6, 40, 5000])
    def test_is_binomial(self, count: int, share: float) -> None:
        data = CountMatrix.build(np.full((400, 100), count))
        drawn = halves(data, Key(count), share)[0].ravel()
        assert binomial_p_value(drawn, count, share) > 1e-5
        assert binomial_p_value(drawn, count, share - 0.02) < 1e-5  # a share that is off by 0.02 is found out
        assert binomial_p_value(np.full(40_000, round(count * share)), count, share) < 1e-5

    # The variance of 40,000 draws over its expectation is chi-square / 40,000; false alarms: 4 x 2e-6.
    @pytest.mark.parametrize("count", [1e6, 2.0**52, 2.0**60, 1e30])
    def test_moments_of_huge_counts(self, count: float) -> None:
        data = CountMatrix.build(np.full((400, 100), count), integers=False)
        data = data.with_values(data.values.astype(np.float64))
        drawn = halves(data, Key(1), 0.3)[0].ravel()
        deviation = (drawn - 0.3 * count) / np.sqrt(0.21 * count)
        assert abs(deviation.mean()) < 4.9 / np.sqrt(deviation.size)
        low, high = chi2.ppf([1e-6, 1 - 1e-6], deviation.size) / deviation.size
        assert low < (deviation**2).mean() < high

    # Neighbouring cells, neighbouring rows: correlations of 20,000 pairs are within 4.9 / sqrt(20,000), each with
    # a chance of a false alarm of 1e-6.
    def test_cells_are_independent(self) -> None:
        drawn = halves(CountMatrix.build(np.full((201, 101), 9)), Key(5))[0] - 4.5
        for left, right in ((drawn[:, :-1], drawn[:, 1:]), (drawn[:-1], drawn[1:])):
            assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < 4.9 / np.sqrt(left.size)

    def test_the_rest_of_a_real_goes_to_one_side(self) -> None:
        data = CountMatrix.build(np.full((2000, 1), 2.75), integers=False)
        first = halves(data, Key(0))[0].ravel()
        assert set(np.unique(first)) == {0.0, 0.75, 1.0, 1.75, 2.0, 2.75}
        with_rest = (first % 1 > 0).mean()
        assert abs(with_rest - 0.5) < 4.9 * 0.5 / np.sqrt(2000)  # false alarm: 1e-6


def binomial_p_value(drawn: Floats, count: int, share: float) -> float:
    """Of a chi-square test on bins that are expected to hold at least ten draws."""
    edges = np.unique(np.minimum(binom.ppf(np.linspace(0, 1, 41)[1:-1], count, share), count - 1))
    cumulative = np.concatenate([[0], binom.cdf(edges, count, share), [1]])
    observed = np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1)
    expected = np.diff(cumulative) * drawn.size
    kept = expected >= 10
    if not kept.all():
        observed = np.append(observed[kept], observed[~kept].sum())
        expected = np.append(expected[kept], expected[~kept].sum())
    return float(chisquare(observed, expected, sum_check=False).pvalue)


def completion_in_numpy(X: Floats, hidden: Any, activations: Floats, dictionary: Floats) -> Floats:
    """The line of the kernel's docstring, row by row."""
    means = []
    for x, missing, row in zip(X, hidden, activations, strict=True):
        rates = np.where(missing, 0.0, dictionary @ row)
        n_observed = (~missing).sum()
        share = rates / rates.sum() if rates.sum() > 0 else np.full(len(x), 1 / n_observed)
        logs = np.log((1 - SMOOTHING) * share + SMOOTHING / n_observed)
        means.append((x * logs).sum() / x.sum() if x.sum() > 0 else 0.0)
    return np.array(means)


class TestPrediction:
    @pytest.mark.parametrize("missing", [0.0, 0.3, 0.9])
    @pytest.mark.parametrize("cuts", [(0, 40), (0, 7, 8, 40)])
    def test_kernel(
        self, missing: float, cuts: tuple[int, ...], small_counts: np.ndarray, rng: np.random.Generator
    ) -> None:
        hidden = rng.random(small_counts.shape) < missing
        hidden[0, :] = True
        X = np.where(hidden, 0, small_counts).astype(float)
        data = CountMatrix.build(Table(X, missing=hidden))
        activations, dictionary = rng.gamma(1.0, size=(40, 3)), rng.gamma(0.1, size=(25, 3))
        activations[3] = 0
        means = np.full(40, np.nan)
        cells, absent = (data.indptr, data.indices, data.values), (data.missing_indptr, data.missing_indices)
        factors = activations, dictionary, dictionary.sum(axis=0)
        for block in pairwise(cuts):
            predict_rows(cells, absent, factors, SMOOTHING, *block, means)
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = completion_in_numpy(X, hidden, activations, dictionary)
        np.testing.assert_allclose(means, expected, rtol=1e-12, atol=1e-13)

    def test_hidden_cells_take_no_probability(self) -> None:
        """With all but two equal cells hidden, each has half of the probability, however large the hidden rates are."""
        dictionary = np.array([[1e12], [1e-3], [1e-3], [1e12]])
        data = CountMatrix.build(np.array([[np.nan, 3, 4, np.nan]]))
        completion = predict_tokens(data, np.ones((1, 1)), dictionary)
        assert completion.per_token == pytest.approx(np.log(0.5), rel=1e-12)
        assert completion.tokens.tolist() == [7]

    def test_probabilities_sum_to_one(self, rng: np.random.Generator) -> None:
        activations, dictionary = rng.gamma(1.0, size=(1, 3)), rng.gamma(0.3, size=(20, 3))
        one_token = CountMatrix.build(np.eye(20))
        completion = predict_tokens(one_token, np.repeat(activations, 20, axis=0), dictionary)
        assert np.exp(completion.values).sum() == pytest.approx(1.0, rel=1e-12)

    def test_summary(self) -> None:
        completion = Completion(np.array([-1.0, -3.0, 0.0]), np.array([30.0, 10.0, 0.0]))
        assert completion.per_token == pytest.approx(-1.5)
        assert completion.values.tolist() == [-30, -30, 0]
        with pytest.raises(InvalidInputError, match="too few tokens"):
            _ = Completion(np.zeros(2), np.zeros(2)).per_token
        assert Completion(np.full(2, -2.0), np.full(2, 1.7e308)).per_token == -2.0


class TestScore:
    @pytest.fixture
    def truth(self, rng: np.random.Generator) -> tuple[Floats, np.ndarray]:
        components = rng.dirichlet(np.full(40, 0.2), size=4)
        return components, rng.poisson(rng.gamma(0.5, 60.0, size=(200, 4)) @ components)

    def test_truth_beats_wrong_models(self, truth: Any, rng: np.random.Generator) -> None:
        components, X = truth
        score = PoissonNMF.from_components(components).score(X)
        shuffled = components[:, rng.permutation(40)]
        blurred = 0.5 * components + 0.5 / 40
        for wrong in (shuffled, blurred, components[:3], np.full((1, 40), 1 / 40), X.mean(axis=0, keepdims=True)):
            assert PoissonNMF.from_components(wrong).score(X) < score - 0.01
        fitted = PoissonNMF(4, random_state=0).fit(X[:150]).score(X[150:])
        assert fitted == pytest.approx(PoissonNMF.from_components(components).score(X[150:]), abs=0.1)

    def test_overfitting_does_not_pay(self, truth: Any) -> None:
        """The likelihood of the very tokens of the fit grows with the number of parts; the score does not."""
        _, X = truth
        score = {k: PoissonNMF(k, random_state=0).fit(X[:150]).score(X[150:]) for k in (1, 4, 25)}
        assert score[4] > score[1]
        assert score[4] > score[25]

    def test_given_and_predicted_tokens_are_different_ones(self, truth: Any) -> None:
        components, X = truth
        data = CountMatrix.build(X)
        first, second = split_tokens(data, Key(0))
        model = PoissonNMF.from_components(components)
        activations = model.transform(first)
        by_hand = completion_in_numpy(
            second.to_scipy().toarray(), np.zeros(X.shape, dtype=bool), activations, components.T
        )
        np.testing.assert_allclose(model.completion(X).means, by_hand, rtol=1e-9)
        assert model.completion(X).per_token == model.score(X)
        other = model.completion(X, random_state=1)
        assert other.per_token != model.score(X)
        assert other.per_token == pytest.approx(model.score(X), abs=0.05)

    def test_missing_cells(self, truth: Any, rng: np.random.Generator) -> None:
        components, X = truth
        hidden = rng.random(X.shape) < 0.3
        model = PoissonNMF.from_components(components)
        table = Table(X, missing=hidden)
        assert model.score(table) > PoissonNMF.from_components(np.full((1, 40), 1 / 40)).score(table) + 0.1
        other = Table(np.where(hidden, 10**6, X), missing=hidden)
        assert model.score(other) == model.score(table)

    def test_features_that_no_part_holds(self) -> None:
        components = np.array([[0.5, 0.5, 0, 0]])
        model = PoissonNMF.from_components(components)
        score = model.score(np.array([[5, 5, 100, 0]] * 10))
        assert np.isfinite(score)
        assert np.log(SMOOTHING / 4) <= score < np.log(0.5)

    @pytest.mark.parametrize("X", [[[1e300, 1e300]], [[1e-300, 2e-300]], [[0.5, 0.0]], [[2.0**62, 1]]])
    def test_finite_at_any_scale(self, X: Any) -> None:
        model = PoissonNMF.from_components([[0.5, 0.5]])
        assert np.isfinite(model.score(X))
        assert model.score(X) <= 0

    def test_nothing_to_hold_out(self) -> None:
        with pytest.raises(InvalidInputError, match="too few tokens"):
            PoissonNMF.from_components([[0.5, 0.5]]).score([[1, 0]])


def test_a_million_rows_take_seconds() -> None:
    """Compile first; then 10**6 rows with 3 counts each. (0.6 s measured on one core; minutes in a loop over rows.)"""
    n_rows = 1_000_000
    indices = np.tile(np.array([1, 4, 7], dtype=np.int32), n_rows)
    X = sp.csr_array((np.full(3 * n_rows, 2), indices, 3 * np.arange(n_rows + 1)), shape=(n_rows, 10))
    model = PoissonNMF.from_components(np.eye(2, 10) + 0.1)
    model.score(X[:10])
    data = CountMatrix.build(X)
    activations = np.ones((n_rows, 2))
    began = time.perf_counter()
    _, held_out = split_tokens(data, Key(0))
    predict_tokens(held_out, activations, model.components_.T)
    assert time.perf_counter() - began < 20
