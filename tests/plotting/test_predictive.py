"""Predictive checks accept what the model makes and find what it cannot make; reconstructions are the model's."""

from __future__ import annotations

import numpy as np
import pytest

from partwise import AllocationNMF, BinaryNMF, GammaPoissonNMF, LogisticPCA, PoissonNMF
from partwise.errors import InvalidInputError
from partwise.plotting import (
    plot_predictive_check,
    plot_predictive_checks,
    plot_reconstruction,
    predictive_checks,
)

RNG = np.random.default_rng(3)
DICTIONARY = RNG.dirichlet(np.full(40, 0.5), size=3)
RATES = RNG.gamma(1.0, 40.0, size=(200, 3)) @ DICTIONARY
COUNTS = RNG.poisson(RATES)
BITS = (RNG.random((60, 30)) < np.where(np.arange(60)[:, None] % 2 == np.arange(30) % 2, 0.8, 0.2)).astype(float)


@pytest.fixture(scope="module")
def poisson() -> PoissonNMF:
    return PoissonNMF(3, random_state=0).fit(COUNTS)


def test_data_of_the_model_pass(poisson) -> None:
    # 40 features, intervals of 90 %: fewer than 30 inside has a probability below 1e-4
    checks = predictive_checks(poisson, COUNTS)
    assert checks.plug_in
    assert (checks.n_draws, checks.n_rows) == (40, 200)
    assert checks.dispersion.coverage > 0.75
    assert checks.zeros.coverage > 0.75
    assert checks.row_sums.coverage > 0.95  # activations were fitted to these sums
    assert checks.row_sums.observed.tolist() == COUNTS.sum(axis=1).tolist()
    np.testing.assert_allclose(checks.zeros.observed, (COUNTS == 0).mean(axis=0))
    np.testing.assert_allclose(checks.dispersion.observed, (COUNTS.var(axis=0) / COUNTS.mean(axis=0))[checks.features])


def test_overdispersed_data_fail() -> None:
    counts = RNG.poisson(RATES * RNG.gamma(0.5, 2.0, size=RATES.shape))
    checks = predictive_checks(PoissonNMF(3, random_state=0).fit(counts), counts)
    assert checks.dispersion.coverage < 0.3
    assert checks.dispersion.p_value == 0.0
    assert checks.zeros.p_value == 0.0


def test_same_seed_same_draws(poisson) -> None:
    first, second, other = (predictive_checks(poisson, COUNTS, n_draws=5, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.zeros.middle, second.zeros.middle)
    assert not np.array_equal(first.zeros.middle, other.zeros.middle)


def test_rows_are_evenly_spaced(poisson) -> None:
    checks = predictive_checks(poisson, COUNTS, max_rows=5, n_draws=3)
    rows = np.linspace(0, 199, 5).astype(int)
    np.testing.assert_array_equal(checks.row_sums.observed, COUNTS[rows].sum(axis=1))


def test_posterior_draws_are_used_where_there_are_some() -> None:
    model = GammaPoissonNMF(3, max_iter=20, tol=0, random_state=0).fit(COUNTS[:50])
    checks = predictive_checks(model, COUNTS[:50], n_draws=10)
    assert not checks.plug_in
    assert checks.row_sums.coverage > 0.9


def test_missing_cells_are_missing_in_the_draws() -> None:
    bits = BITS.copy()
    bits[:, 0] = np.nan
    bits[0, :] = np.nan
    bits[1, 1:] = np.nan
    bits[1:10, 0] = 1.0
    model = BinaryNMF(4, n_draws=20, burn_in=20, thin=1, random_state=0).fit(bits)
    checks = predictive_checks(model, bits, n_draws=10)
    assert checks.row_sums.high[0] == 0
    assert checks.row_sums.high[1] <= 1
    assert checks.zeros.observed[0] == 0
    assert checks.dispersion.coverage > 0.7


@pytest.mark.parametrize("model", [LogisticPCA(2, random_state=0), AllocationNMF(2, max_iter=20, random_state=0)])
def test_other_models(model) -> None:
    checks = predictive_checks(model.fit(BITS.astype(int)), BITS.astype(int), n_draws=5)
    assert checks.zeros.observed.shape == (30,)


def test_pictures_show_the_checks(poisson) -> None:
    checks = predictive_checks(poisson, COUNTS, n_draws=10)
    figure = plot_predictive_checks(checks)
    titles = [ax.get_title(loc="left").split("\n") for ax in figure.axes]
    assert [title[0] for title in titles] == ["sum of a row", "zeros of a feature", "variance / mean of a feature"]
    for ax, check in zip(figure.axes, (checks.row_sums, checks.zeros, checks.dispersion), strict=True):
        assert ax.get_xlim() == ax.get_ylim()
        dots = np.concatenate([line.get_xdata() for line in ax.lines[:2]])
        np.testing.assert_array_equal(np.sort(dots), np.sort(check.observed))
    with pytest.raises(InvalidInputError, match="statistic='sums'"):
        plot_predictive_check(checks, "sums")  # type: ignore[arg-type]


def test_checks_refuse(poisson) -> None:
    with pytest.raises(InvalidInputError, match="X is missing"):
        plot_predictive_checks(poisson)
    with pytest.raises(InvalidInputError, match="whole numbers"):
        predictive_checks(poisson, COUNTS + 0.5)
    with pytest.raises(InvalidInputError, match="n_draws"):
        predictive_checks(poisson, COUNTS, n_draws=1)


def test_reconstruction_as_heat_maps(poisson) -> None:
    figure = plot_reconstruction(poisson, COUNTS[:30])
    data, model, residual = (np.asarray(ax.images[0].get_array()) for ax in figure.axes)
    expected = poisson.inverse_transform(poisson.transform(COUNTS[:30]))
    np.testing.assert_allclose(np.sort(model, axis=None), np.sort(expected, axis=None))
    assert data.sum() == COUNTS[:30].sum()
    likely = model > 0.5
    np.testing.assert_allclose(residual[likely], (data - model)[likely] / np.sqrt(model[likely]), rtol=1e-6)
    assert figure.axes[0].images[0].get_clim() == figure.axes[1].images[0].get_clim()


def test_reconstruction_as_pictures(poisson) -> None:
    figure = plot_reconstruction(poisson, COUNTS, shape=(5, 8), samples=[7, 3])
    pictures = [np.asarray(ax.images[0].get_array()).ravel() for ax in figure.axes]
    np.testing.assert_array_equal(pictures[:2], COUNTS[[7, 3]])
    np.testing.assert_allclose(pictures[2:], poisson.inverse_transform(poisson.transform(COUNTS[[7, 3]])))
    with pytest.raises(InvalidInputError, match="9 pixels"):
        plot_reconstruction(poisson, COUNTS, shape=(3, 3))


def test_reconstruction_shows_missing_cells() -> None:
    bits = BITS.copy()
    bits[3, 4] = np.nan
    model = LogisticPCA(1, random_state=0).fit(bits)
    figure = plot_reconstruction(model, bits)
    assert np.ma.count_masked(figure.axes[0].images[0].get_array()) == 1
    assert np.ma.count_masked(figure.axes[1].images[0].get_array()) == 0
