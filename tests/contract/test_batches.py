"""Batch factors against their definitions, in all models that take them, and what users do with them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import linear_sum_assignment
from scipy.stats import gamma as gamma_distribution
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import partwise
from partwise import EmpiricalBayesPoissonNMF, GammaPoissonNMF, PoissonNMF
from partwise.contract.batch_labels import parts_of_batches
from partwise.core.data import CountMatrix
from partwise.core.weights import CellWeights
from partwise.datasets import simulate_batches
from partwise.engines.blocks import Block
from partwise.engines.local import LocalEngine
from partwise.errors import BatchWarning, InvalidInputError
from partwise.io import Table
from partwise.passes.batches import BatchPosterior, expected_in_groups
from partwise.passes.side import Side, own_exposure

SETTINGS: list[tuple[type[Any], dict[str, Any]]] = [
    (PoissonNMF, {}),
    (PoissonNMF, {"inference": "multiplicative", "tol": 1e-5}),
    (EmpiricalBayesPoissonNMF, {"tol": 1e-5}),
    (EmpiricalBayesPoissonNMF, {"tol": 1e-5, "size_factors": True, "background": True, "init": "greedy"}),
    (GammaPoissonNMF, {}),
    (GammaPoissonNMF, {"inference": "online", "max_iter": 25, "batch_size": 40}),
]
IDS = ["poisson", "multiplicative", "empirical bayes", "greedy with scales", "vem", "online"]

SMALL = simulate_batches(120, 40, n_groups=3, n_shared=1, n_batches=3, mean_total=200.0, random_state=0)
BATCH = SMALL.table.metadata["batch"]


def with_holes(seed: int = 0) -> np.ndarray:
    X = SMALL.table.matrix.toarray().astype(float)
    X[np.random.default_rng(seed).random(X.shape) < 0.1] = np.nan
    return X


@pytest.fixture(scope="module")
def fitted() -> PoissonNMF:
    return PoissonNMF(4, random_state=0, tol=1e-9, max_iter=3000).fit(SMALL.table, batch="batch")


def matched(parts: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The correlation of each true part with the part that is matched to it."""
    correlations = np.corrcoef(np.vstack((truth, parts)))[: len(truth), len(truth) :]
    rows, columns = linear_sum_assignment(-correlations)
    return np.asarray(correlations[rows, columns])


# Exposures


@pytest.mark.parametrize("missing", [False, True])
def test_weighted_exposures_are_their_dense_lines(missing: bool) -> None:
    rng = np.random.default_rng(3)
    X = with_holes() if missing else SMALL.table.matrix.toarray().astype(float)
    X[5, 3:] = np.nan if missing else X[5, 3:]  # hardly anything is observed: sums instead of differences
    seen = ~np.isnan(X)
    codes, factors = np.unique(BATCH, return_inverse=True)[1].astype(np.int32), rng.gamma(2.0, size=(3, 40))
    data = CountMatrix.build(X, integers=False).weighted(CellWeights(factors, codes))
    rows, columns = rng.gamma(1.0, size=(120, 2)), rng.gamma(1.0, size=(40, 2))
    dense = seen * factors[codes]
    samples, features = Side(data, LocalEngine(2)), Side(data.transposed, LocalEngine(2))
    np.testing.assert_allclose(samples.exposure(columns), dense @ columns, rtol=1e-9)
    for totals in (None, samples.totals(rows)):
        np.testing.assert_allclose(features.exposure(rows, totals=totals), dense.T @ rows, rtol=1e-9)
    block = Block(data.unweighted.rows(30, 80), 10, 30, 30)
    np.testing.assert_allclose(own_exposure(block, columns, samples.column_totals(columns)), dense[40:60] @ columns)
    expected = np.array([(seen * (rows @ columns.T))[codes == b].sum(axis=0) for b in range(3)])
    np.testing.assert_allclose(expected_in_groups(samples, rows, columns), expected, rtol=1e-9)


def test_data_keep_what_was_computed() -> None:
    data = CountMatrix.build(SMALL.table)
    codes = np.unique(BATCH, return_inverse=True)[1].astype(np.int32)
    once = data.weighted(CellWeights(np.ones((3, 40)), codes))
    twice = once.weighted(CellWeights(np.full((3, 40), 2.0), codes))
    assert twice.unweighted is data
    assert twice.transposed.indices is data.transposed.indices
    rows = np.array([7, 3, 3])
    np.testing.assert_array_equal(twice.take(rows).weights.row_groups, codes[rows])
    np.testing.assert_array_equal(twice.rows(5, 9).weights.row_groups, codes[5:9])


# The posterior of the factors


def test_evidence_of_factors_is_an_integral() -> None:
    observed, expected = np.array([[3.0, 0.0], [7.0, 1.0]]), np.array([[2.0, 0.5], [9.0, 1.0]])
    posterior = BatchPosterior(observed, expected, 2.5)
    total, means = 0.0, []
    for x, m in zip(observed.ravel(), expected.ravel(), strict=True):

        def density(s: float, x: float = x, m: float = m, power: int = 0) -> float:
            return s ** (x + power) * np.exp(-s * m) * gamma_distribution.pdf(s, 2.5, scale=1 / 2.5)

        evidence = quad(density, 0, 60)[0]
        total += np.log(evidence)
        means.append(quad(lambda s, f=density: f(s, power=1), 0, 60)[0] / evidence)
    assert posterior.log_evidence(2.5) == pytest.approx(total, rel=1e-8)
    np.testing.assert_allclose(posterior.factors.ravel(), means, rtol=1e-7)


def test_strength_is_found() -> None:
    rng = np.random.default_rng(1)
    expected = rng.gamma(1.0, 60.0, size=(4, 3000))
    for strength in (3.0, 40.0):
        observed = rng.poisson(expected * rng.gamma(strength, 1 / strength, size=expected.shape))
        found = BatchPosterior(observed.astype(float), expected, 1.0).with_best_strength().strength
        assert found == pytest.approx(strength, rel=0.12)  # 4 standard errors at 40
    same = BatchPosterior(rng.poisson(expected).astype(float), expected, 1.0).with_best_strength()
    assert same.strength > 1000.0
    np.testing.assert_allclose(same.factors, 1.0, atol=0.15)


# Fits


@pytest.mark.parametrize(("cls", "settings"), SETTINGS, ids=IDS)
@pytest.mark.parametrize("missing", [False, True])
def test_the_bound_never_falls(cls: type[Any], settings: dict[str, Any], missing: bool) -> None:
    if cls is GammaPoissonNMF and settings and missing:
        settings = {**settings, "max_iter": 5}
    model = cls(4, random_state=0, **settings).fit(with_holes() if missing else SMALL.table.matrix, batch=BATCH)
    assert model.batch_factors_.shape == (3, 40)
    assert np.all(model.batch_factors_ > 0)
    assert list(model.batch_names_) == ["batch0", "batch1", "batch2"]
    values = np.array(model.trace_.columns["objective"], dtype=float)
    values = values[~np.isnan(values)]
    if settings.get("inference") != "online":
        assert np.all(np.diff(values) >= -1e-9 * abs(values[-1]))
    if cls is EmpiricalBayesPoissonNMF:
        assert model.elbo_ == pytest.approx(values[-1], rel=1e-4)
        assert model.elbo_ >= values[-1] - 1e-6 * abs(values[-1])


def test_objective_is_the_likelihood_without_the_factors(fitted: PoissonNMF) -> None:
    """The bound is tight at the end: Σ x log m and the gamma-Poisson evidence of each batch and feature."""
    X = SMALL.table.matrix.toarray()
    h = fitted.transform(SMALL.table, batch="batch")
    m = h @ fitted.components_
    codes = np.unique(BATCH, return_inverse=True)[1]
    observed, expected = (np.array([A[codes == b].sum(axis=0) for b in range(3)]) for A in (X, m))
    c = fitted.batch_strength_
    value = np.sum(X * np.log(np.where(X > 0, m, 1.0))) + BatchPosterior(observed, expected, c).log_evidence(c)
    assert fitted.objective == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose((c + observed) / (c + expected), fitted.batch_factors_, rtol=1e-3)


def test_factors_have_mean_one_at_the_optimum(fitted: PoissonNMF) -> None:
    held = SMALL.table.matrix.sum(axis=0) > 0
    np.testing.assert_allclose(fitted.batch_factors_.mean(axis=0)[held], 1.0, atol=0.01)
    assert fitted.kkt_residual_ < 0.02


@pytest.mark.parametrize(("cls", "settings"), SETTINGS, ids=IDS)
def test_threads_do_not_matter(cls: type[Any], settings: dict[str, Any]) -> None:
    models = [
        cls(3, random_state=1, n_jobs=n, **{**settings, "max_iter": 6, "tol": 0}).fit(with_holes(), batch=BATCH)
        for n in (1, 3)
    ]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    np.testing.assert_array_equal(models[0].batch_factors_, models[1].batch_factors_)


def test_rows_on_disk(tmp_path: Path) -> None:
    mapped = partwise.on_disk([SMALL.table.matrix[:70], SMALL.table.matrix[70:]], tmp_path / "rows")
    on_disk = PoissonNMF(3, random_state=0, max_iter=40, tol=0).fit(mapped, batch=BATCH)
    values = np.array(on_disk.trace_.columns["objective"], dtype=float)
    assert np.all(np.diff(values[~np.isnan(values)]) >= -1e-6)
    by_em, in_memory = (
        PoissonNMF(3, inference="multiplicative", max_iter=5, tol=0, random_state=0).fit(X, batch=BATCH)
        for X in (mapped, SMALL.table.matrix)
    )
    np.testing.assert_allclose(by_em.components_, in_memory.components_, rtol=1e-9)
    np.testing.assert_allclose(by_em.batch_factors_, in_memory.batch_factors_, rtol=1e-9)


def test_resume_gives_the_same_bits(tmp_path: Path) -> None:
    def make(max_iter: int, **more: Any) -> PoissonNMF:
        return PoissonNMF(3, random_state=0, tol=0, max_iter=max_iter, **more)

    whole = make(20).fit(SMALL.table, batch=BATCH)
    make(12, checkpoint=tmp_path / "c").fit(SMALL.table, batch=BATCH)
    resumed = make(20, checkpoint=tmp_path / "c", resume=True).fit(SMALL.table, batch=BATCH)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    with pytest.raises(InvalidInputError):
        make(20, checkpoint=tmp_path / "c", resume=True).fit(SMALL.table, batch=BATCH[::-1])


# New samples


def test_save_and_load(fitted: PoissonNMF, tmp_path: Path) -> None:
    loaded = partwise.load(fitted.save(tmp_path / "m.partwise") and tmp_path / "m.partwise")
    assert isinstance(loaded, PoissonNMF)
    np.testing.assert_array_equal(loaded.batch_factors_, fitted.batch_factors_)
    found = loaded.transform(SMALL.table, batch="batch")
    np.testing.assert_array_equal(found, fitted.transform(SMALL.table, batch="batch"))


@pytest.mark.parametrize("cls", [PoissonNMF, EmpiricalBayesPoissonNMF, GammaPoissonNMF])
def test_transform_by_batch_is_a_model_of_its_own(cls: type[Any]) -> None:
    model = cls(3, random_state=0, max_iter=30, tol=0).fit(SMALL.table.matrix, batch=BATCH)
    X = SMALL.table.matrix[:30]
    found = model.transform(X, batch=BATCH[:30])
    own = BATCH[:30] == "batch1"
    alone = model.for_batch("batch1")
    np.testing.assert_array_equal(found[own], alone.transform(X[own]))
    assert alone.activation_errors(X[own]).shape == found[own].shape
    with pytest.warns(BatchWarning, match="pass batch="):
        model.transform(X)


def test_new_batches_get_factors_of_their_own() -> None:
    data = simulate_batches(600, 60, n_groups=3, n_shared=1, n_batches=3, effect=0.8, random_state=2)
    batch, truth = data.table.metadata["batch"], data.activations
    old = batch != "batch2"
    model = PoissonNMF(4, random_state=0).fit(data.table.matrix[old], batch=batch[old])
    new = data.table.matrix[~old]

    def agreement(activations: np.ndarray) -> float:
        return float(matched(activations.T, truth[~old].T).min())

    with_factors = agreement(model.transform(new, batch=batch[~old]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BatchWarning)
        without = agreement(model.transform(new))
    assert with_factors > without
    assert model.score(new, batch=batch[~old]) > model.for_batch("batch0").score(new)


def test_the_split_of_a_score_does_not_depend_on_batches(fitted: PoissonNMF) -> None:
    X = Table(SMALL.table.matrix[::3], column_labels=SMALL.table.column_labels)
    by_batch, plain = fitted.completion(X, batch=BATCH[::3]), fitted.for_batch("batch0").completion(X)
    np.testing.assert_array_equal(by_batch.tokens, plain.tokens)
    own = BATCH[::3] == "batch0"
    np.testing.assert_array_equal(by_batch.means[own], plain.means[own])
    assert fitted.perplexity(X, batch=BATCH[::3]) == pytest.approx(np.exp(-by_batch.per_token))


def test_metadata_routing() -> None:
    with config_context(enable_metadata_routing=True):
        model = PoissonNMF(3, random_state=0, max_iter=20, tol=0)
        model.set_fit_request(batch=True).set_transform_request(batch=True)
        pipe = make_pipeline(FunctionTransformer(), model)
        found = pipe.fit(SMALL.table.matrix, batch=BATCH).transform(SMALL.table.matrix, batch=BATCH)
    alone = PoissonNMF(3, random_state=0, max_iter=20, tol=0)
    np.testing.assert_array_equal(found, alone.fit_transform(SMALL.table.matrix, batch=BATCH))


# Sentences


@pytest.mark.parametrize(
    ("X", "batch", "sentence"),
    [
        (SMALL.table, "donor", "batch='donor' is not an obs column of X; its columns are: batch, group"),
        (SMALL.table.matrix, "batch", "names an obs column, but X is a csr_array"),
        (SMALL.table, BATCH[:5], r"batch has shape \(5,\): pass one label for each of the 120 samples"),
        (SMALL.table, ["a"] * 120, "same label, 'a', for all samples"),
        (SMALL.table, [*["a", "b"] * 59, "a", None], r"batch\[119\] is missing"),
    ],
)
def test_bad_batches_get_a_sentence(X: Any, batch: Any, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        PoissonNMF(2).fit(X, batch=batch)


def test_other_mistakes(fitted: PoissonNMF) -> None:
    with pytest.raises(InvalidInputError, match="is not a batch of the fit; these are: batch0"):
        fitted.for_batch("zzz")
    with pytest.raises(InvalidInputError, match="was fitted without"):
        PoissonNMF(2, random_state=0).fit(SMALL.table.matrix).transform(SMALL.table.matrix, batch=BATCH)
    with pytest.raises(InvalidInputError, match="inference='thorough' does not take batch: use inference='vem'"):
        GammaPoissonNMF(2, inference="thorough").fit(SMALL.table, batch="batch")


# Parts that follow batches


def test_parts_that_follow_a_batch_are_named() -> None:
    rng = np.random.default_rng(0)
    batch = np.repeat(["1", "2", "3"], 100)
    shares = rng.dirichlet(np.ones(3), size=300)
    shares[:, 1] = 0.05 + 0.8 * (batch == "2") + 0.05 * rng.random(300)
    found = parts_of_batches(shares, ["part 0", "part 1", "part 2"], batch)
    assert [(one.part, one.batch) for one in found] == [("part 1", "2")]
    assert str(found[0]) == f"part 1 is mostly batch 2 (R2 {found[0].r2:.2g})"
    assert parts_of_batches(rng.random((300, 3)), ["a", "b", "c"], batch) == []


def test_recovery_of_groups_and_shared_parts() -> None:
    """A small version of the slow test below."""
    data = simulate_batches(500, 150, n_groups=4, n_shared=2, n_batches=4, effect=0.8, random_state=0)
    train = np.arange(500) % 5 > 0
    rows = data.table[train]
    test, batch = data.table[~train], data.table.metadata["batch"][~train]
    without = PoissonNMF(6, random_state=0).fit(rows)
    assert "is mostly batch" in without.status_.message
    assert without.parts_of_batches(rows, "batch")
    model = PoissonNMF(6, random_state=0).fit(rows, batch="batch")
    assert "mostly" not in model.status_.message
    assert matched(model.components_, data.dictionary.T).min() >= 0.9
    assert matched(without.components_, data.dictionary.T).min() < 0.9
    assert model.score(test, batch=batch) > without.score(test) + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("cls", [PoissonNMF, EmpiricalBayesPoissonNMF, GammaPoissonNMF])
def test_recovery_at_size(cls: type[Any]) -> None:
    data = simulate_batches(4000, 1500, mean_total=3000.0, random_state=1)
    train = np.arange(4000) % 5 > 0
    batch = data.table.metadata["batch"]
    found = {}
    for use in (False, True):
        model = cls(12, random_state=0, n_jobs=2).fit(data.table.matrix[train], batch=batch[train] if use else None)
        score = model.score(data.table.matrix[~train], batch=batch[~train] if use else None)
        found[use] = matched(model.components_, data.dictionary.T), score
    assert found[True][0].min() >= 0.9
    assert found[True][1] > found[False][1]
    assert found[False][0].min() < 0.9
