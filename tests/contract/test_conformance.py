"""One test for all estimators, ours and that of another distribution: what the contract says holds."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import partwise
from partwise._registry import BUILT_IN, compared_names, find_estimator, registered_models
from partwise.contract import BitModel, Candidate, CountModel, Declaration, FactorizationEstimator
from partwise.contract.heldout import HiddenCells, ThinnedCounts, poisson_rows
from partwise.contract.model_file import NOT_STORED, fitted_attributes
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.errors import InaccurateWarning, InvalidInputError, PartwiseError, TrainingDataWarning
from partwise.selection import candidates_of
from partwise.selection.fitting import cell_fold, count_fold

NAMES = [*(model.class_name for model in BUILT_IN), "PoissonMixture"]
N_ROWS, N_FEATURES = 24, 9
BRIEF = {"burn_in": 10, "n_draws": 10, "max_iter": 20}

pytestmark = pytest.mark.usefixtures("toy_installed")


def brief(cls: Any, **parameters: Any) -> Any:
    """An estimator that is fitted quickly."""
    known = {field.name for field in dataclasses.fields(cls)}
    effort = {name: value for name, value in BRIEF.items() if name in known}
    return cls(**{"n_components": 3, "random_state": 0, "progress": False, **effort, **parameters})


def data_for(cls: Any) -> np.ndarray:
    rng = np.random.default_rng(1)
    rates = rng.gamma(0.5, 8.0, size=(N_ROWS, 3)) @ rng.dirichlet(np.full(N_FEATURES, 0.4), size=3)
    counts = rng.poisson(rates)
    return (counts > 0).astype(np.int64) if cls.declares.data == "bits" else counts


def fitted(cls: Any, X: Any = None, **parameters: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return brief(cls, **parameters).fit(data_for(cls) if X is None else X)


@pytest.fixture(params=NAMES)
def cls(request: pytest.FixtureRequest, toy_installed: None) -> Any:
    return find_estimator(request.param)


def test_every_registered_class_is_tested() -> None:
    assert sorted(model.class_name for model in registered_models()) == sorted(NAMES)


def test_the_class_declares_itself(cls: Any) -> None:
    assert issubclass(cls, FactorizationEstimator)
    assert issubclass(cls, CountModel | BitModel)
    declared = cls.declares
    assert isinstance(declared, Declaration)
    assert declared.papers
    assert all(isinstance(candidate, Candidate) for candidate in declared.candidates)
    assert (declared.missing == "fit") == bool(declared.missing_settings)


def test_parameters_are_keyword_only_fields(cls: Any) -> None:
    parameters = list(inspect.signature(cls).parameters.values())
    assert parameters[0].name == "n_components"
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in parameters[1:])
    assert {one.name for one in parameters} == set(cls().get_params(deep=False))
    assert set(cls._parameter_constraints) - {"max_iter", "tol"} <= {one.name for one in parameters}
    attributes = fitted_attributes(cls)
    assert all(name.endswith("_") for name in attributes)
    # scikit-learn must find all that a fit leaves, and nothing before it
    assert not [name for name in vars(cls()) if name in attributes]
    assert clone(cls(5)).n_components == 5


def test_names_in_comparisons_are_those_that_classes_declare() -> None:
    declared = {candidate.name for kind in ("counts", "bits") for candidate in candidates_of(kind)}
    assert sorted(set(compared_names())) == sorted(declared)


def test_candidates_can_be_built_and_fitted(cls: Any) -> None:
    for kind in ("counts", "bits"):
        for candidate in cls.candidates(kind):
            assert candidate.smallest >= 1
            assert candidate.estimator is cls
            model = candidate.build(3, 0)
            model._validate_params()
            assert model.n_components == 3


def test_expected_values_agree_with_each_other(cls: Any) -> None:
    model, X = fitted(cls), data_for(cls)
    activations = model.transform(X)
    assert activations.shape == (N_ROWS, 3)
    whole = model.expected(activations)
    np.testing.assert_allclose(model.inverse_transform(activations), whole)
    rows, columns = np.divmod(np.arange(N_ROWS * N_FEATURES), N_FEATURES)
    if not cls.declares.signed:
        np.testing.assert_allclose(model.expected_cells(activations, rows, columns), whole.ravel())
        np.testing.assert_allclose(model.expected_totals(activations), whole.sum(axis=1))
        assert np.all(whole >= 0)
    np.testing.assert_allclose(model.expected(activations, [2, 5]), whole[:, [2, 5]])
    kept = model.kept_activations
    expected = model.transform(X) if kept is None else kept
    np.testing.assert_array_equal(model.training_activations(X), expected)
    drawn = model.sample_cells(whole, np.random.default_rng(0))
    assert drawn.shape == whole.shape
    assert np.all(drawn == np.floor(drawn))
    if cls.declares.data == "bits":
        assert set(np.unique(drawn)) <= {0.0, 1.0}


def test_parts_and_features_have_names_weights_and_importance(cls: Any) -> None:
    model = fitted(cls)
    for weights in (model.part_weights(), model.part_weights(model.transform(data_for(cls)))):
        assert weights.shape == (3,)
        assert np.all(weights >= 0)
        assert weights.sum() == pytest.approx(1.0)
    importance = model.feature_importance()
    assert importance.shape == (3, N_FEATURES)
    frequencies = model.feature_frequencies()
    assert frequencies.shape == (N_FEATURES,)
    assert np.all(frequencies >= 0)
    assert all(isinstance(word, str) and word for word in model.importance_words)
    assert model.part_labels() == ["part 0", "part 1", "part 2"]
    assert model.feature_labels()[4] == "feature 4"
    assert model.known_features is None
    assert model.smallest_rank >= 1
    assert isinstance(model.objective, float)
    assert all(isinstance(value, float) for value in model.facts().values())


def test_diagnostics_are_those_of_the_chains(cls: Any) -> None:
    model = fitted(cls)
    chains = model.chains()
    if chains:
        assert model.diagnostics().keys() == chains.keys()
        assert all(values.ndim == 2 for values in chains.values())
    else:
        with pytest.raises(InvalidInputError, match="was not fitted by sampling"):
            model.diagnostics()


def test_score_is_that_of_new_samples(cls: Any) -> None:
    model, X = fitted(cls), data_for(cls)
    score = model.score(X)
    assert -20 < score < 0
    if issubclass(cls, CountModel):
        assert model.perplexity(X) == pytest.approx(np.exp(-score))
        assert model.completion(X).per_token == score
        assert model.completion(X, random_state=1).per_token != score
        with pytest.raises(InvalidInputError, match="share must be between 0 and 1"):
            model.completion(X, share=1.0)
        # threads, and the way in which rows are cut into blocks, change nothing
        many = np.tile(X, (3, 1))
        assert clone(model).set_params(n_jobs=2).n_jobs == 2
        alone = model.completion(many).means
        model.n_jobs = 2
        np.testing.assert_array_equal(model.completion(many).means, alone)


def test_held_out_likelihood_has_one_number_per_row(cls: Any) -> None:
    X = data_for(cls)
    fold: ThinnedCounts | HiddenCells
    if cls.declares.data == "bits":
        fold = cell_fold(partwise.BinaryMatrix.build(X), Key(0), 0)
    else:
        fold = count_fold(CountMatrix.build(X), Key(0), 0)
    model = fitted(cls, fold.train)
    rows = model.held_out_log_likelihood(fold)
    assert rows.shape == (N_ROWS,)
    assert np.all(np.isfinite(rows))
    assert np.all(rows <= 0)
    if isinstance(fold, ThinnedCounts) and cls.held_out_log_likelihood is CountModel.held_out_log_likelihood:
        np.testing.assert_array_equal(rows, poisson_rows(model, fold))


def test_poisson_rows_are_those_of_a_plain_sum() -> None:
    from scipy.stats import poisson

    fold = count_fold(CountMatrix.build(data_for(partwise.PoissonNMF)), Key(0), 0)
    model = fitted(partwise.PoissonNMF, fold.train)
    train = fold.train.to_scipy().toarray()
    shares = (train.sum(axis=0) + 0.01) / (train.sum(axis=0) + 0.01).sum()
    rates = 0.999 * model.expected(model.transform(train)) + 0.001 * np.outer(train.sum(axis=1) + 0.5, shares)
    by_hand = poisson.logpmf(fold.held_out.toarray(), 0.25 * rates).sum(axis=1)
    np.testing.assert_allclose(model.held_out_log_likelihood(fold), by_hand, rtol=1e-10)


def test_activations_come_with_uncertainty_or_a_sentence(cls: Any) -> None:
    model, X = fitted(cls), data_for(cls)
    if cls.activation_errors is FactorizationEstimator.activation_errors:
        with pytest.raises(InvalidInputError, match="has no standard errors of activations"):
            model.activation_errors(X)
    else:
        errors = model.activation_errors(X)
        assert errors.shape == (N_ROWS, 3)
        assert np.all(errors >= 0)
    drawn = model.activation_draws(X, 4, 0)
    assert drawn is None or drawn.shape == (4, N_ROWS, 3)


def test_likelihoods_are_offered_where_they_are_declared(cls: Any) -> None:
    model, X = fitted(cls), data_for(cls)
    if cls.declares.marginal:
        found = model.log_likelihood(X)
        assert found.values.shape == (N_ROWS,)
        background = np.full(N_FEATURES, 1 / N_FEATURES)
        assert np.all(np.isfinite(model.log_likelihood(X, background=background).values))
    else:
        with pytest.raises(InvalidInputError, match="no prior of activations"):
            model.log_likelihood(X)
    if cls.declares.evidence is None:
        with pytest.raises(InvalidInputError, match="has no evidence"):
            model.log_evidence(X)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InaccurateWarning)
            value, error = model.log_evidence(X, random_state=0, **cls.declares.evidence)
        assert value < 0 < error


def test_missing_cells_are_taken_as_declared(cls: Any) -> None:
    X = data_for(cls).astype(float)
    X[2, 3] = X[5, 1] = np.nan
    declared = cls.declares.missing
    if declared == "no":
        with pytest.raises(PartwiseError, match="missing"):
            fitted(cls, X)
        return
    model = fitted(cls, X, **cls.declares.missing_settings)
    if declared == "yes":
        assert np.all(np.isfinite(model.transform(X)))
    else:
        assert np.all(np.isfinite(model.kept_activations))
        with pytest.raises(PartwiseError, match="missing"):
            model.transform(X)


def test_given_parts_are_taken_as_declared(cls: Any) -> None:
    parts = np.random.default_rng(0).dirichlet(np.ones(N_FEATURES), size=2)
    if not cls.declares.given_parts:
        with pytest.raises(InvalidInputError, match="cannot take given parts"):
            cls.from_components(parts)
        return
    model = cls.from_components(parts, component_names=["a", "b"], feature_names=[f"f{n}" for n in range(N_FEATURES)])
    assert model.part_labels() == ["a", "b"]
    assert model.feature_labels()[0] == "f0"
    np.testing.assert_array_equal(model.components_, parts)


def test_batches_are_taken_or_not_offered(cls: Any) -> None:
    X = data_for(cls)
    variants = {"PoissonNMF": [{}], "GammaPoissonNMF": [{}], "AllocationNMF": [{"inference": "vb"}]}
    variants["BinaryNMF"] = variants["AllocationNMF"]
    assert hasattr(brief(cls), "partial_fit") == (variants.get(cls.__name__) == [{}])
    for parameters in variants.get(cls.__name__, []):
        model = brief(cls, **parameters)
        for number, batch in enumerate((X[:10], X[10:]), start=1):
            model.partial_fit(batch)
            assert (model.n_batches_, model.n_iter_) == (number, number)
        assert model.n_samples_seen_ == N_ROWS
        with pytest.raises(InvalidInputError, match="start with a new estimator"):
            model.set_params(n_components=4).partial_fit(X)


def test_files_hold_the_whole_model(cls: Any, tmp_path: Path) -> None:
    model, X = fitted(cls), data_for(cls)
    loaded = partwise.load(model.save(tmp_path / "model.partwise") and tmp_path / "model.partwise")
    assert type(loaded) is cls
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert loaded.score(X) == model.score(X)
    stored = {name for name in vars(model) if name.endswith("_")}
    assert {name for name in vars(loaded) if name.endswith("_")} == stored
    assert stored <= fitted_attributes(cls)
    for name, value in model.get_params(deep=False).items():
        if name not in NOT_STORED:
            assert np.array_equal(getattr(loaded, name), value)


def test_pictures_and_reports_are_drawn(cls: Any) -> None:
    model, X = fitted(cls), data_for(cls)
    page = partwise.report(model, X)
    assert cls.declares.papers[0][:20] in page.replace("&amp;", "&")
    assert partwise.report(model)
    partwise.plotting.plot_top_features(model)
    partwise.plotting.plot_dictionary(model)
    partwise.plotting.plot_reconstruction(model, X)
    partwise.plotting.plot_predictive_checks(model, X, n_draws=4)
    if cls.declares.signed:
        with pytest.raises(InvalidInputError, match="shares need numbers from 0"):
            partwise.plotting.plot_structure(model.transform(X), model=model)
    else:
        partwise.plotting.plot_structure(model.transform(X), model=model)


def test_a_new_fit_leaves_nothing_of_the_last(cls: Any) -> None:
    model = fitted(cls)
    before = set(vars(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data_for(cls)[:, :5])
    assert set(vars(model)) == before
    assert model.components_.shape == (3, 5)


def test_sparse_and_dense_give_the_same(cls: Any) -> None:
    X = data_for(cls)
    np.testing.assert_array_equal(fitted(cls, sp.csr_array(X)).components_, fitted(cls, X).components_)


@pytest.mark.filterwarnings("error")
def test_scoring_the_training_data_says_so(cls: Any, tmp_path: Path) -> None:
    X = data_for(cls)
    fitted(cls, X).save(tmp_path / "model.partwise")
    model = partwise.load(tmp_path / "model.partwise")
    with pytest.warns(TrainingDataWarning, match="X is what this model was fitted to, so the score flatters it"):
        model.score(X)
    model.score(X[::-1])
