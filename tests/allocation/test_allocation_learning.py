"""Concentrations that are learned: draws beside quadrature, maxima beside an optimiser, and what a fit recovers."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln

import partwise
from partwise import AllocationNMF
from partwise.allocation.inference import learning
from partwise.allocation.inference.learning import draw_concentrations, fixed_point, maximised
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines.local import LocalEngine

BOTH = ("dictionary_concentration", "activation_concentration")
SAMPLE_COUNTS = np.array([[5, 0], [3, 1], [0, 0], [12, 2], [1, 0]], np.int32)
FEATURE_COUNTS = np.array([[15, 0], [4, 1], [0, 2], [2, 0]], np.int32)
DATA = CountMatrix.build(np.column_stack([SAMPLE_COUNTS.sum(axis=1), np.zeros((5, 3))]))


def model(estimated: tuple[str, ...] = BOTH) -> AllocationModel:
    return AllocationModel(4, 2, 0.4, [1.0, 0.2], 1.0, 1.0, estimated)


def log_dirichlet(counts: np.ndarray, values: np.ndarray) -> float:
    """Of rows of counts that share Dirichlet(values), up to terms without values."""
    total = values.sum()
    rows = gammaln(counts + values).sum(axis=1) - gammaln(counts.sum(axis=1) + total)
    return float((rows + gammaln(total) - gammaln(values).sum()).sum())


def chain(n_draws: int, estimated: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    present, dictionary, activation = model(estimated), [], []
    for iteration in range(n_draws):
        key = Key(3).at(iteration)
        found = draw_concentrations(key, DATA, present, LocalEngine(), SAMPLE_COUNTS, FEATURE_COUNTS)
        present = present.with_concentrations(found)
        dictionary.append(found.dictionary)
        activation.append(found.activation)
    return np.array(dictionary), np.array(activation)


@pytest.mark.parametrize("group", [1, 2, 100])
def test_parts_that_are_counted_together_change_nothing(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does counting row by row, as on workers: there the counts are no array."""
    monkeypatch.setattr(learning, "_GROUP", group)
    engine, key = LocalEngine(), Key(3)
    expected = learning.exceeding(SAMPLE_COUNTS, 14)
    monkeypatch.setattr(LocalEngine, "map_rows", lambda *_, **__: (expected, []))
    here, away = (
        draw_concentrations(key, DATA, model(), engine, counts, FEATURE_COUNTS) for counts in (SAMPLE_COUNTS, None)
    )
    np.testing.assert_array_equal(here.activation, away.activation)
    monkeypatch.setattr(learning, "_GROUP", 64)
    usual = draw_concentrations(key, DATA, model(), engine, SAMPLE_COUNTS, FEATURE_COUNTS)
    np.testing.assert_array_equal(here.activation, usual.activation)


def quadrature(log_density: Any, grids: list[np.ndarray]) -> list[float]:
    """Means of the logarithms under a density of logarithms, on a grid."""
    points = np.meshgrid(*grids, indexing="ij")
    logs = np.array([log_density(np.exp(at)) + at.sum() for at in np.stack(points, axis=-1).reshape(-1, len(grids))])
    weights = np.exp(logs - logs.max())
    return [float(axis.ravel() @ weights / weights.sum()) for axis in points]


def errors(draws: np.ndarray, truth: list[float]) -> np.ndarray:
    """Deviations of the means of logarithms in standard errors, by means of 50 batches."""
    batches = np.log(draws).reshape(50, -1, draws.shape[1]).mean(axis=1)
    return np.abs(batches.mean(axis=0) - truth) / (batches.std(axis=0, ddof=1) / np.sqrt(50))


@pytest.fixture(scope="module")
def exact_means() -> tuple[list[float], list[float]]:
    grid = np.linspace(-14, 5, 300)
    activation = quadrature(lambda at: log_dirichlet(SAMPLE_COUNTS, at) - at.sum(), [grid, grid])
    dictionary = quadrature(
        lambda at: log_dirichlet(FEATURE_COUNTS.T, np.full(4, at[0])) - at[0], [np.linspace(-14, 5, 2000)]
    )
    return dictionary, activation


def test_draws_have_the_posterior_of_concentrations(exact_means: tuple[list[float], list[float]]) -> None:
    """Three means of 10,000 draws; a false alarm once in 5,000 runs of other seeds."""
    dictionary, activation = chain(10_000, BOTH)
    assert np.ptp(dictionary, axis=1).max() == 0.0
    assert errors(dictionary[:, :1], exact_means[0]).max() < 4.0
    assert errors(activation, exact_means[1]).max() < 4.0


@pytest.mark.parametrize("bug", ["tables", "waits", "rows"])
def test_planted_bugs_are_found(
    bug: str, exact_means: tuple[list[float], list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, waits, exceeding = learning.tables, learning.waits, learning.exceeding
    if bug == "tables":  # the first label of a row opens no table
        monkeypatch.setattr(learning, "tables", lambda g, above, values: tables(g, above[:, 1:], values))
    elif bug == "waits":  # rows are one label shorter
        monkeypatch.setattr(learning, "waits", lambda g, above, values: waits(g, above[:, 1:], values))
    else:  # the first row is left out
        monkeypatch.setattr(learning, "exceeding", lambda counts, *size: exceeding(counts[1:], *size))
    dictionary, activation = chain(10_000, BOTH)
    worst = max(errors(dictionary[:, :1], exact_means[0]).max(), errors(activation, exact_means[1]).max())
    assert worst > 8.0


def test_what_is_given_stays() -> None:
    dictionary, activation = chain(3, ("activation_concentration",))
    assert np.all(dictionary == 0.4)
    assert np.ptp(activation, axis=0).min() > 0.0
    dictionary, activation = chain(3, ("dictionary_concentration",))
    assert np.all(activation == [1.0, 0.2])
    assert np.ptp(dictionary[:, 0]) > 0.0


def test_maxima_are_those_of_an_optimiser() -> None:
    rng = np.random.default_rng(0)
    logs = np.log(rng.dirichlet([0.3, 2.0, 0.7], size=40) + 1e-12).sum(axis=0)
    of_features = float(np.log(rng.dirichlet(np.full(6, 0.2), size=3) + 1e-12).sum())
    found = maximised(AllocationModel(6, 3, 0.1, 0.1, estimated=BOTH), 40, logs, of_features)

    def loss(at: np.ndarray) -> float:
        values = np.exp(at)
        return -float(40 * (gammaln(values.sum()) - gammaln(values).sum()) + values @ (logs - 1.0))

    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9, "maxiter": 5000})
    np.testing.assert_allclose(found.activation, np.exp(best.x), rtol=1e-4)

    def of_dictionary(at: float) -> float:
        return -float(3 * (gammaln(6 * at) - 6 * gammaln(at)) + at * (of_features - 1.0))

    one = found.dictionary[0]
    assert of_dictionary(one) <= min(of_dictionary(one * 1.001), of_dictionary(one / 1.001))


def test_the_fixed_point_is_stationary() -> None:
    present = AllocationModel(4, 2, 0.4, [1.0, 0.2], 1.0, 1.0, BOTH)
    for _ in range(3000):
        present = present.with_concentrations(fixed_point(present, SAMPLE_COUNTS, FEATURE_COUNTS))
    at, steps = present.activation_concentration, 1e-5 * np.eye(2)

    def objective(values: np.ndarray) -> float:
        return log_dirichlet(SAMPLE_COUNTS, values) - values.sum()

    slopes = [(objective(at + step) - objective(at - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(np.array(slopes) * at, 0.0, atol=1e-3)


def test_bounds_grow_while_concentrations_are_learned() -> None:
    X = AllocationModel(12, 3, 0.3, [2.0, 0.5, 0.2], 30.0, 1.0).simulate(Key(0), 40).counts
    fitted = estimating("vb", max_iter=80, tol=0.0, n_components=3).fit(X)
    assert np.diff(fitted.trace_["objective"]).min() > -1e-8 * abs(fitted.trace_["objective"][0])
    fixed = estimating("vb", max_iter=80, tol=0.0, n_components=3)
    fixed.set_params(dictionary_concentration=0.1, activation_concentration=0.1).fit(X)
    assert fitted.objective > fixed.objective + 3.0


def estimating(inference: str, **settings: Any) -> AllocationNMF:
    learned = dict.fromkeys(BOTH, "estimate")
    return AllocationNMF(**{"random_state": 0, "inference": inference, "n_components": 3, **learned, **settings})


@pytest.fixture(scope="module")
def simulated() -> tuple[AllocationModel, Any]:
    truth = AllocationModel(40, 3, 0.2, [2.0, 0.6, 0.15], 80.0, 1.0)
    return truth, truth.simulate(Key(1), 250).counts


@pytest.mark.parametrize("inference", ["gibbs", "gibbs-partial", "gibbs-distributed", "vb", "cvb0"])
def test_what_data_were_made_with_is_recovered(simulated: tuple[AllocationModel, Any], inference: str) -> None:
    """Each within 40%: standard errors of this many data are 10%, of the smallest 15%.

    Without draws, means of expected counts stand for counts, which vary more: values are too large by up to a factor of
    4, that of the rarest part most.
    """
    truth, X = simulated
    fitted = estimating(inference, burn_in=200, n_draws=50).fit(X)
    within = np.log({"gibbs": 1.4, "gibbs-partial": 1.4, "gibbs-distributed": 1.7}.get(inference, 4.0))
    found = np.sort(fitted.activation_concentration_)[::-1]
    assert np.abs(np.log(found / truth.activation_concentration)).max() < within, found
    assert abs(np.log(fitted.dictionary_concentration_[0] / 0.2)) < within
    assert list(fitted.facts()) == ["sum of the activations' concentrations", "concentration of the dictionary"]


def test_saved_loaded_and_the_same_for_any_threads(simulated: tuple[AllocationModel, Any], tmp_path: Path) -> None:
    X = simulated[1][:40]
    one, two = (estimating("gibbs-partial", burn_in=15, n_draws=10, n_jobs=n).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(one.activation_concentration_, two.activation_concentration_)
    one.save(tmp_path / "model.partwise")
    loaded = partwise.load(tmp_path / "model.partwise")
    np.testing.assert_array_equal(loaded.activation_concentration_, one.activation_concentration_)
    np.testing.assert_array_equal(loaded.transform(X), two.transform(X))
    # New samples are seen with what was learned.
    given = replace(one._row_model(), activation_concentration=np.full(3, 0.1))
    assert not np.array_equal(given.activation_concentration, one._row_model().activation_concentration)


def test_modes_have_no_learned_concentrations() -> None:
    fitted = estimating("map", max_iter=3).fit([[1, 2], [3, 4]])
    assert np.all(fitted.activation_concentration_ == 0.1)
    assert np.all(fitted.dictionary_concentration_ == 0.1)
    assert fitted.facts() == {}
    # Before a fit, the evidence is that of the concentrations where learning starts.
    learning_both, given = estimating("gibbs"), AllocationNMF(3, **dict.fromkeys(BOTH, 0.1))
    assert learning_both.log_evidence([[1, 2], [3, 4]]) == given.log_evidence([[1, 2], [3, 4]])


def test_with_many_parts_the_dictionary_is_not_learned_unless_asked() -> None:
    """Learned, its concentration falls until tokens keep their parts; fewer parts learn it."""
    X = np.random.default_rng(0).poisson(0.5, size=(30, 40))
    settings: dict[str, Any] = {"n_chains": 1, "burn_in": 11, "n_draws": 1, "random_state": 0, "progress": False}
    found = {}
    for n_components, given in ((255, "auto"), (256, "auto"), (256, "estimate")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one draw cannot tell whether it has converged
            model = AllocationNMF(n_components, dictionary_concentration=given, **settings).fit(X)
        found[n_components, given] = float(model.dictionary_concentration_[0])
    assert found.pop((256, "auto")) == 0.01
    assert all(value not in (0.01, 0.1) for value in found.values())
