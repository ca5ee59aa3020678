"""Priors that are learned: what was planted is found, and every algorithm keeps its promises with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from binary_samples import cells_of, planted
from scipy import stats
from scipy.special import gammaln

import partwise
from partwise import BinaryNMF
from partwise.binary.inference.em import ExpectationMaximisation
from partwise.binary.inference.gibbs import BinaryCollapsedGibbs, log_joint_of_counts
from partwise.binary.inference.learning import LearningVariationalBayes, learn
from partwise.binary.inference.priors import draw_priors, exceeding, exceeding_rows, log_rising
from partwise.binary.model import SMALLEST, BinaryModel
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.engines import resolve_engine
from partwise.errors import InvalidInputError

ENGINE = resolve_engine()
SHORT: dict[str, Any] = {
    "n_chains": 2,
    "n_draws": 10,
    "burn_in": 20,
    "thin": 1,
    "max_iter": 20,
    "tol": 0.0,
    "random_state": 0,
}
LEARNS = [
    *((kind, "gibbs") for kind in ("beta-dir", "dir-beta", "dir-dir")),
    *((kind, inference) for kind in ("beta-dir", "dir-beta") for inference in ("gibbs-partial", "cvb0", "cvb")),
    *((kind, inference) for kind in ("beta-dir", "dir-beta", "dir-dir") for inference in ("vb", "map")),
]


def test_rows_that_exceed() -> None:
    counts = np.random.default_rng(0).integers(6, size=(50, 3))
    above = exceeding(counts)
    for i in range(above.shape[1]):
        np.testing.assert_array_equal(above[:, i], (counts > i).sum(axis=0))
    base = np.array([0.3, 1e-200, 5.0])
    truth = (gammaln(base + counts) - gammaln(base)).sum()
    assert np.isclose(log_rising(above, base), truth)
    assert exceeding(np.zeros((4, 3), np.int32)).shape == (3, 0)


def _labels_of(model: BinaryModel, n_rows: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts of labels drawn from the priors of a model: rows x components x bit, columns x components."""
    rng, priors = np.random.default_rng(1), model.priors
    weights = rng.dirichlet(priors.concentration, size=n_rows)
    columns = np.array([rng.multinomial(size, own) for own in weights])
    both = rng.multinomial(size, np.full(model.n_components, 1 / model.n_components), size=n_rows)
    ones = rng.binomial(both, rng.beta(priors.alpha, priors.beta, size=both.shape))
    return np.stack((both - ones, ones), axis=2).astype(np.int32), columns.astype(np.int32)


def test_draws_of_priors_are_where_the_truth_is() -> None:
    truth = BinaryModel("beta-dir", 3, np.array([0.2, 1.0, 3.0]), np.array([0.6, 0.1, 2.0]), np.array([0.05, 0.5, 2.0]))
    rows, columns = _labels_of(truth, 400, 40)
    model = BinaryModel("beta-dir", 3, 0.5, 0.5, 1 / 3, estimated=("beta", "concentration"))
    generator, draws = np.random.default_rng(0), []
    for _ in range(600):
        model = model.with_priors(draw_priors(model, generator, exceeding_rows(model, rows), columns))
        draws.append(np.array(model.priors)[:3])
    found = np.array(draws[100:])
    # 9 numbers within 4 posterior standard deviations: a false alarm in about 2,000 seeds
    score = np.abs(found.mean(axis=0) - np.array(truth.priors)[:3]) / found.std(axis=0)
    assert score.max() < 4.0
    assert np.all(found.std(axis=0) < 0.3 * found.mean(axis=0))


def test_draws_of_a_concentration_have_their_density() -> None:
    """One parameter of one component on a grid: the posterior of alpha given its labels, beta being known."""
    rows = np.array([[[3, 0]], [[1, 4]], [[0, 2]], [[2, 2]]], np.int32)
    columns = np.full((5, 1), 2, np.int32)
    model = BinaryModel("beta-dir", 1, 0.5, 0.5, 1.0, estimated=("beta",))
    generator, draws = np.random.default_rng(0), []
    for _ in range(12_000):
        model = model.with_priors(draw_priors(model, generator, exceeding_rows(model, rows), columns))
        draws.append(np.array(model.priors)[:2, 0])
    grid = np.geomspace(1e-3, 20, 400)
    alpha, beta = np.meshgrid(grid, grid, indexing="ij")
    logs = -alpha - beta + np.log(alpha) + np.log(beta)  # even steps of logarithms
    for zeros, ones in rows[:, 0]:
        logs += gammaln(alpha + ones) - gammaln(alpha) + gammaln(beta + zeros) - gammaln(beta)
        logs += gammaln(alpha + beta) - gammaln(alpha + beta + zeros + ones)
    shares = np.exp(logs - np.logaddexp.reduce(logs, axis=None))
    found = np.array(draws)[1000::10]
    for axis, own in enumerate(found.T):
        cumulative = shares.sum(axis=1 - axis).cumsum()
        # draws ten sweeps apart are nearly independent; a false alarm in 1,000 seeds
        assert stats.kstest(own, lambda at, c=cumulative: np.interp(at, grid, c)).pvalue > 5e-4


@pytest.mark.parametrize(("kind", "inference"), LEARNS)
def test_what_is_learned_is_stored(kind: str, inference: str, tmp_path: Any) -> None:
    fitted = BinaryNMF(4, model=kind, inference=inference, **SHORT).fit(planted(1))
    assert fitted.beta_prior_.shape == (4, 2)
    assert fitted.concentration_.shape == fitted.activation_concentration_.shape == (4,)
    assert len(np.unique(fitted.concentration_)) == 4
    if kind != "dir-dir":
        assert len(np.unique(fitted.beta_prior_)) == 8
    assert fitted.facts()["concentration"] == fitted.concentration_.sum()
    loaded = partwise.load(fitted.save(tmp_path / "m.partwise") and tmp_path / "m.partwise")
    np.testing.assert_array_equal(loaded.beta_prior_, fitted.beta_prior_)
    assert loaded.facts() == fitted.facts()
    np.testing.assert_array_equal(loaded.transform(planted(2)), fitted.transform(planted(2)))
    given = BinaryNMF(
        4,
        model=kind,
        inference=inference,
        beta_prior=(0.3, 0.2),
        concentration=2.0,
        activation_concentration=0.7,
        **SHORT,
    ).fit(planted(1))
    np.testing.assert_allclose(given.beta_prior_, np.tile([0.3, 0.2], (4, 1)))
    np.testing.assert_allclose(given.concentration_, 0.5)
    np.testing.assert_allclose(given.activation_concentration_, 0.7)
    assert not {"concentration", "α of the beta prior", "concentration of the activations"} & set(given.facts())


@pytest.mark.parametrize("kind", ["beta-dir", "dir-beta"])
@pytest.mark.parametrize("inference", ["gibbs", "gibbs-partial", "cvb0", "vb", "map"])
def test_planted_priors_are_found(kind: str, inference: str) -> None:
    # sure parts, of which a row of the Dirichlet factor has one or two; wide bounds, as parts are found only roughly
    truth = BinaryModel(kind, 4, 0.1, 0.3, np.array([0.4, 0.2, 0.1, 0.05]))  # type: ignore[arg-type]
    bits = truth.simulate(Key(4), 150, 150).bits
    fitted = BinaryNMF(4, model=kind, inference=inference, n_chains=1, burn_in=150, n_draws=50, random_state=0).fit(
        bits
    )
    held = fitted.component_cells_ / fitted.component_cells_.sum()
    alpha, beta = held @ fitted.beta_prior_
    assert 0.05 < alpha < 0.2
    assert 0.15 < beta < 0.6
    assert 0.4 < fitted.concentration_.sum() < 1.4
    order = np.argsort(held)
    assert fitted.concentration_[order[-1]] > 2.0 * fitted.concentration_[order[0]]


@pytest.mark.parametrize("kind", ["beta-dir", "dir-beta", "dir-dir"])
@pytest.mark.parametrize("make", [LearningVariationalBayes, lambda m, e: ExpectationMaximisation(m, True, e)])
def test_objectives_never_fall_with_learned_priors(kind: Any, make: Any) -> None:
    own = ("concentration", "activation_concentration") if kind == "dir-dir" else ("beta", "concentration")
    model = BinaryModel(kind, 6, 0.5, 0.5, 1 / 6, 1 / 6, estimated=own, concentration_shape=1 / 6)
    result = run(make(model, ENGINE), cells_of(planted(4, 60, 30), kind), key=Key(0), max_iter=60, progress=False)
    _, objective = result.trace.evaluated("objective")
    assert np.all(np.diff(objective) >= -1e-11 * np.abs(objective[1:]))
    assert len(np.unique(result.state.priors[2])) == 6


def test_learning_starts_from_its_own_labels() -> None:
    cells = cells_of(planted(5))
    model = BinaryModel("beta-dir", 5, 0.5, 0.5, 0.2, estimated=("beta", "concentration"), concentration_shape=0.2)
    found = learn(Key(0), cells, model)
    np.testing.assert_array_equal(found.row_counts.sum(axis=(1, 2)), cells.row_sizes)
    np.testing.assert_array_equal(found.column_counts.sum(axis=1), cells.column_sizes)
    counts = found.row_counts.astype(np.int32), found.column_counts.astype(np.int32)
    assert log_joint_of_counts(model.with_priors(found.priors), *counts) > log_joint_of_counts(model, *counts)


def test_parts_without_cells_keep_priors_finite() -> None:
    for X in (np.full((5, 4), np.nan), np.zeros((5, 4)), np.ones((5, 4))):
        for kind in ("beta-dir", "dir-beta", "dir-dir"):
            fitted = BinaryNMF(100, model=kind, **SHORT).fit(X)
            for prior in (fitted.beta_prior_, fitted.concentration_, fitted.activation_concentration_):
                assert np.all(np.isfinite(prior) & (prior >= SMALLEST))
            assert np.all(np.isfinite(fitted.predict_proba()))


def test_batches_learn_from_the_first() -> None:
    X = planted(6, 120, 20)
    for kind in ("beta-dir", "dir-beta", "dir-dir"):
        model = BinaryNMF(3, model=kind, inference="vb", random_state=0).partial_fit(X[:60])
        first = model.concentration_.copy()
        assert len(np.unique(first)) == 3
        np.testing.assert_array_equal(model.partial_fit(X[60:]).concentration_, first)
        fitted = BinaryNMF(3, model=kind, inference="vb", batch_size=40, max_iter=3, tol=0, random_state=0).fit(X)
        assert len(np.unique(fitted.concentration_)) == 3


def test_settings_of_the_paper() -> None:
    model = BinaryNMF.preset("paper", n_components=7)
    assert (model.n_components, model.model, model.beta_prior, model.concentration) == (7, "beta-dir", (1.0, 1.0), 1.0)
    assert (model.burn_in, model.n_draws, model.thin, model.n_chains) == (4000, 1000, 1, 1)
    with pytest.raises(InvalidInputError, match="BinaryNMF has no preset 'thesis': it has paper"):
        BinaryNMF.preset("thesis")


def test_learning_is_one_chain_of_200_sweeps(rng: np.random.Generator) -> None:
    """Replayed sweep by sweep: priors are means over the second half, labels and counts those of the last sweep."""
    cells = cells_of((rng.random((12, 7)) < 0.4).astype(float), "beta-dir")
    model = BinaryModel("beta-dir", 3, 0.5, 0.5, 1 / 3, estimated=("beta", "concentration"))
    lengths = {"n_draws": 1, "burn_in": 200, "thin": 1, "n_chains": 1}
    sampler = BinaryCollapsedGibbs(model, "random", **lengths, active_threshold=0.0, engine=ENGINE)
    key, draws = Key(5).for_stage("learning"), []
    state = sampler.init(key, cells)
    for sweep in range(1, 201):
        sampler.sweep_all(key.at(sweep), cells, state)
        draws.append(state.priors[0].copy())
    found = learn(Key(5), cells, model)
    np.testing.assert_allclose(found.priors, np.mean(draws[100:], axis=0), rtol=1e-12)
    np.testing.assert_array_equal(found.labels, state.labels[0])
    np.testing.assert_array_equal(found.row_counts, state.row_counts[0])
    np.testing.assert_array_equal(found.column_counts, state.column_counts[0])
