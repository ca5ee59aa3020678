"""NegativeBinomialNMF: its updates are those of the formulas, never lower the likelihood, and find sizes and parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import nbinom

import partwise
from partwise import CountMatrix, NegativeBinomialNMF, PoissonNMF
from partwise.contract import ThinnedCounts
from partwise.errors import InvalidInputError
from partwise.negative_binomial import kernels
from partwise.negative_binomial.inference.majorisation import Majorisation, NegativeBinomialState
from partwise.negative_binomial.model import draw, log_probabilities

RNG = np.random.default_rng(3)
RATES = RNG.gamma(0.6, 30.0, size=(40, 3)) @ RNG.dirichlet(np.full(12, 0.4), size=3)
X = RNG.poisson(RATES * RNG.gamma(2.0, 0.5, size=RATES.shape)).astype(float)
WITH_MISSING = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
DISPERSIONS: list[Any] = ["common", "feature", "sample", 2.0]


def small_case() -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Kernel arguments and dense arrays: cells, seen, activations, parts, sizes of rows and of features."""
    data = CountMatrix.build(WITH_MISSING[:9])
    cells = (data.indptr, data.indices, data.values), (data.missing_indptr, data.missing_indices)
    rng = np.random.default_rng(0)
    seen = ~np.isnan(WITH_MISSING[:9])
    return cells, seen, rng.gamma(2.0, size=(9, 3)), rng.gamma(1.0, size=(3, 12)), rng.gamma(3.0, size=9), np.ones(12)


def test_an_update_of_activations_is_that_of_the_formula() -> None:
    cells, seen, activations, parts, row_sizes, feature_sizes = small_case()
    counts, rates, sizes = np.where(seen, X[:9], 0.0), activations @ parts, row_sizes[:, None] * feature_sizes
    weights = np.where(seen, (counts + sizes) / (rates + sizes), 0.0)
    expected = activations * ((counts / rates) @ parts.T) / (weights @ parts.T)
    kernels.improve_activations(*cells, parts, (row_sizes, feature_sizes), (1, 0.0), activations)
    np.testing.assert_allclose(activations, expected, rtol=1e-12)


def test_the_expected_noise_is_that_of_the_formula() -> None:
    cells, seen, activations, parts, row_sizes, feature_sizes = small_case()
    counts, rates, sizes = np.where(seen, X[:9], 0.0), activations @ parts, row_sizes[:, None] * feature_sizes
    expected = np.where(seen, (counts + sizes) / (rates + sizes), 0.0)
    kernels.weigh(*cells, (row_sizes, feature_sizes), rates)
    np.testing.assert_allclose(rates, expected, rtol=1e-12)


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("scale", [0.3, 1.0, 300.0])
def test_size_terms_are_the_log_likelihood_and_its_derivatives(by_rows: bool, scale: float) -> None:
    cells, seen, activations, parts, row_sizes, _ = small_case()
    rates = 20 * activations @ parts  # counts below and above _FEW beside rates of both
    own = scale * row_sizes if by_rows else scale * np.random.default_rng(1).gamma(3.0, size=12)

    def value(step: float) -> np.ndarray:
        sizes = np.exp(step) * (own[:, None] if by_rows else own)
        logs = np.where(seen, nbinom.logpmf(np.where(seen, X[:9], 0), sizes, sizes / (sizes + rates)), 0.0)
        return logs.sum(axis=1 if by_rows else 0)

    found = np.zeros((9 if by_rows else 12, 3))
    rates_by_groups = np.ascontiguousarray(rates.T) if by_rows else rates
    kernels.add_zero_terms(rates_by_groups, own, found)
    kernels.correct_zero_terms(*cells, rates_by_groups, own, by_rows, found)
    step = 1e-3
    np.testing.assert_allclose(found[:, 0], value(0.0), rtol=1e-10)
    np.testing.assert_allclose(found[:, 1], (value(step) - value(-step)) / (2 * step), rtol=1e-4, atol=1e-4)
    second = (value(step) - 2 * value(0.0) + value(-step)) / step**2
    np.testing.assert_allclose(found[:, 2], second, rtol=1e-3, atol=1e-3)


def test_terms_of_zeros_are_exact_where_sizes_are_huge_or_tiny() -> None:
    # 20 zeros of rate 1. With u = 1 / size: log(1 + u) - u / (1 + u) = u² / 2 - 2 u³ / 3 + ..., or of order log(u).
    found = np.zeros((3, 3))
    kernels.add_zero_terms(np.ones((20, 3)), np.array([1e9, 1e4, 1e-30]), found)
    np.testing.assert_allclose(found[:2, 0], [-20.0 * (1 - 5e-10), -20e4 * np.log1p(1e-4)], rtol=1e-14)
    np.testing.assert_allclose(found[:2, 1], [-1e-8, -20e4 * (1e-8 / 2 - 2e-12 / 3 + 3e-16 / 4)], rtol=1e-8)
    np.testing.assert_allclose(found[:2, 2], [1e-8, 20e4 * (1e-8 / 2 - 4e-12 / 3)], rtol=1e-6)
    assert np.all(np.abs(found[2]) < 1e-20)


@pytest.mark.parametrize("dispersion", DISPERSIONS)
@pytest.mark.parametrize("data", [X, WITH_MISSING], ids=["whole", "missing"])
def test_the_likelihood_never_falls_and_is_that_of_scipy(dispersion: Any, data: np.ndarray) -> None:
    model = NegativeBinomialNMF(3, dispersion=dispersion, max_iter=40, tol=0.0, random_state=0).fit(data)
    objective = model.trace_["objective"]
    assert np.all(np.diff(objective) >= -1e-9 * abs(objective[-1]))
    sizes = model.size_[:, None] if dispersion == "sample" else model.size_
    rates = model.activations_ @ model.components_
    reached = np.nansum(nbinom.logpmf(data, sizes, sizes / (sizes + rates)))
    assert reached == pytest.approx(objective[-1], rel=1e-6)
    assert model.size_.shape == {"feature": (12,), "sample": (40,)}.get(str(dispersion), (1,))


@pytest.mark.parametrize("dispersion", DISPERSIONS)
def test_rows_that_are_taken_a_few_at_a_time_give_the_same(dispersion: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fitted() -> NegativeBinomialNMF:
        return NegativeBinomialNMF(3, dispersion=dispersion, max_iter=3, tol=0.0, random_state=0).fit(WITH_MISSING)

    whole, place = fitted(), "partwise.negative_binomial.inference.majorisation"
    monkeypatch.setattr(f"{place}._CELLS_IN_CACHE", 7 * 12)  # of 40 rows: 5 times 7, then 5
    monkeypatch.setattr(f"{place}._FEWEST_ROWS", 1)
    pieces = fitted()
    np.testing.assert_allclose(pieces.trace_["objective"], whole.trace_["objective"], rtol=1e-6)
    np.testing.assert_allclose(pieces.size_, whole.size_, rtol=1e-3)
    np.testing.assert_allclose(pieces.components_, whole.components_, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("size", [1e9, 1e60])  # the second is infinite in single precision
def test_with_a_huge_size_it_is_poisson(size: float) -> None:
    model = NegativeBinomialNMF(3, dispersion=size, random_state=0, tol=1e-8, max_iter=2000).fit(X)
    poisson = PoissonNMF(3, random_state=0, tol=1e-9).fit(X)
    poisson_rates = np.maximum(poisson.transform(X) @ poisson.components_, 1e-300)
    theirs = np.sum(X * np.log(poisson_rates) - poisson_rates)
    ours_rates = np.maximum(model.activations_ @ model.components_, 1e-300)
    assert np.sum(X * np.log(ours_rates) - ours_rates) == pytest.approx(theirs, abs=0.5)


@pytest.mark.parametrize("dispersion", ["common", "feature", "sample"])
def test_it_finds_the_size_where_there_are_many_cells(dispersion: str) -> None:
    # 60,000 cells of 6 counts on average: the standard error of one size is below 2%, that of medians below 3%.
    rng = np.random.default_rng(4)
    rates = rng.gamma(1.0, 600.0, size=(300, 2)) @ rng.dirichlet(np.ones(200), size=2)
    counts = draw(rates, 3.0, np.random.default_rng(1))
    model = NegativeBinomialNMF(2, dispersion=dispersion, random_state=0).fit(counts)
    assert np.median(model.size_) == pytest.approx(3.0, rel=0.15)


def test_steps_without_a_number_are_done_again_in_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    moved, tried = Majorisation._moved, []

    def overflows(self: Majorisation, data: Any, state: NegativeBinomialState, stride: float) -> NegativeBinomialState:
        tried.append((stride > 0, state.single))
        found = moved(self, data, state, stride)
        return replace(found, objective=np.nan) if state.single else found

    monkeypatch.setattr(Majorisation, "_moved", overflows)
    model = NegativeBinomialNMF(2, random_state=0, max_iter=3, tol=0.0).fit(X)
    assert tried[:4] == [(True, True), (False, True), (False, False), (True, False)]
    assert np.isfinite(model.trace_["objective"]).all()


def test_transform_finds_the_best_activations() -> None:
    model = NegativeBinomialNMF(3, random_state=0).fit(X)
    rates = model.transform(X) @ model.components_
    found = log_probabilities(X, rates, model.size_).sum(axis=1)
    assert np.all(found >= log_probabilities(X, model.activations_ @ model.components_, model.size_).sum(axis=1) - 1e-3)
    np.testing.assert_array_equal(model.transform(X[5:7]), model.transform(X)[5:7])


def thinned(noise: float) -> ThinnedCounts:
    held = np.random.default_rng(0).binomial(X.astype(int), 0.2)
    return ThinnedCounts(CountMatrix.build(X - held), sp.csr_array(held), 0.25, noise)


def test_held_out_counts_are_scored_as_fresh_ones() -> None:
    fold = thinned(np.inf)
    model = NegativeBinomialNMF(3, random_state=0).fit(fold.train)
    size, rates = model.size_[0], 0.25 * model_rates(model, fold)
    expected = nbinom.logpmf(fold.held_out.toarray(), size, size / (size + rates)).sum(axis=1)
    np.testing.assert_allclose(model.held_out_log_likelihood(fold), expected, rtol=1e-8)


def test_halves_split_for_the_noise_are_scored_on_their_own() -> None:
    fold = thinned(2.0)
    model = NegativeBinomialNMF(3, random_state=0).fit(fold.train)
    size, rates = 0.25 * model.size_[0], 0.25 * model_rates(model, fold)
    expected = nbinom.logpmf(fold.held_out.toarray(), size, size / (size + rates)).sum(axis=1)
    np.testing.assert_allclose(model.held_out_log_likelihood(fold), expected, rtol=1e-8)


def model_rates(model: Any, fold: ThinnedCounts) -> np.ndarray:
    train = fold.train.to_scipy().toarray()
    shares = (train.sum(axis=0) + 0.01) / (train.sum() + 0.01 * train.shape[1])
    return 0.999 * model.activations_ @ model.components_ + 0.001 * np.outer(train.sum(axis=1) + 0.5, shares)


@pytest.mark.parametrize("dispersion", DISPERSIONS)
def test_drawn_cells_have_mean_and_variance_of_the_model(dispersion: Any) -> None:
    model = NegativeBinomialNMF(2, dispersion=dispersion, random_state=0, max_iter=20, tol=0.0).fit(X)
    drawn = model.sample_cells(np.full((20_000, 12), 5.0), np.random.default_rng(0))
    sizes = np.median(model.size_) if dispersion == "sample" else model.size_
    # 20,000 draws: standard errors of about 1% and 4%
    np.testing.assert_allclose(drawn.mean(axis=0), 5.0, rtol=0.06)
    np.testing.assert_allclose(drawn.var(axis=0), np.broadcast_to(5.0 + 25.0 / sizes, 12), rtol=0.3)


def test_files_hold_sizes_and_refuse_others(tmp_path: Path) -> None:
    model = NegativeBinomialNMF(2, dispersion="feature", random_state=0, max_iter=5, tol=0.0).fit(X)
    model.save(tmp_path / "nb.partwise")
    loaded = partwise.load(tmp_path / "nb.partwise")
    np.testing.assert_array_equal(loaded.size_, model.size_)
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    model.size_ = -model.size_
    with pytest.raises(ValueError, match="negative"):
        model._check_loaded()


@pytest.mark.parametrize("dispersion", [0.0, -1.0, "row"])
def test_bad_dispersions_are_refused(dispersion: Any) -> None:
    with pytest.raises(ValueError, match="'dispersion' parameter"):
        NegativeBinomialNMF(2, dispersion=dispersion).fit(X)


def test_reals_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="NegativeBinomialNMF"):
        NegativeBinomialNMF(2).fit(X + 0.5)


@pytest.mark.parametrize("size", [0.3, 99.0, 101.0, 1e4, 1e6, 1e9, 1e13, 1e40])
def test_log_probabilities_keep_their_digits_for_any_size(size: float) -> None:
    """Beside sums of logarithms, in which nothing large is subtracted."""
    counts, rate = np.array([0.0, 1.0, 7.0, 400.0]), 3.0
    found = log_probabilities(counts, np.full(4, rate), size)
    for x, value in zip(counts, found, strict=True):
        steps = np.arange(x)
        expected = np.log((1.0 + steps / size) * rate / (1.0 + rate / size) / (1.0 + steps)).sum()
        expected -= size * np.log1p(rate / size)
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
