"""Every estimator passes scikit-learn's checks, and the further ones that scikit-learn runs on itself."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import sklearn.utils.estimator_checks as checks
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from partwise import PoissonNMF

ESTIMATORS = [PoissonNMF(2, random_state=0), PoissonNMF(2, inference="multiplicative", max_iter=200, random_state=0)]

# What scikit-learn runs on its own estimators beyond `check_estimator` (sklearn/tests/test_common.py).
# Not check_dataframe_column_names_consistency: features are matched by name, and columns may be in any order.
FURTHER_CHECKS = [
    "check_get_feature_names_out_error",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_n_features_in",
    "check_param_validation",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
]


# No expected failures. EM may need more iterations than are worth waiting for: that it says so is no failure.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_common_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# These checks fit with names and pass arrays, or the other way round: the warning is scikit-learn's own.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
@pytest.mark.parametrize("name", FURTHER_CHECKS)
def test_further_common_checks(name: str) -> None:
    estimator = PoissonNMF(2, random_state=0)
    if name in {"check_set_output_transform_polars", "check_global_set_output_transform_polars"}:
        pytest.importorskip("polars")
    getattr(checks, name)("PoissonNMF", estimator)


def test_column_names_are_not_claimed_to_be_missing() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.eye(4), columns=list("abcd"))
    model = PoissonNMF(2, random_state=0).fit(frame)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        model.transform(frame)
        model.partial_fit(frame)
    assert not [w for w in record if "feature names" in str(w.message)]


def test_pipeline_from_text() -> None:
    texts = ["cats purr and cats sleep", "dogs bark", "cats and dogs", "stars shine", "bright stars and suns shine"] * 3
    pipeline = make_pipeline(CountVectorizer(), PoissonNMF(2, random_state=0))
    activations = pipeline.fit_transform(texts)
    assert activations.shape == (15, 2)
    assert pipeline.get_feature_names_out().tolist() == ["part 0", "part 1"]
    np.testing.assert_array_equal(pipeline.transform(texts[:4]), activations[:4])
    # A sum over the tokens of each text, as each component sums to 1.
    np.testing.assert_allclose(activations.sum(axis=1), [len(text.split()) for text in texts], rtol=1e-6)


def test_grid_search_by_score_finds_the_number_of_parts() -> None:
    rng = np.random.default_rng(0)
    dictionary = np.kron(np.eye(3), np.ones(8)) / 8
    X = rng.poisson(rng.dirichlet([0.3] * 3, size=90) * 200 @ dictionary)
    search = GridSearchCV(PoissonNMF(random_state=0), {"n_components": [1, 2, 3]}, cv=3).fit(X)
    assert search.best_params_ == {"n_components": 3}
    assert search.best_estimator_.components_.shape == (3, 24)


def test_clone_keeps_parameters_and_nothing_fitted(small_counts: np.ndarray) -> None:
    given = (np.ones((40, 3)), np.ones((3, 25)))
    model = PoissonNMF(3, init=given, max_iter=3, tol=0.0, random_state=7, n_jobs=2).fit(small_counts)
    twin = clone(model)
    assert not hasattr(twin, "components_")
    assert twin.get_params()["random_state"] == 7
    np.testing.assert_array_equal(twin.fit(small_counts).components_, model.components_)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_whole(copied: Any, small_counts: np.ndarray) -> None:
    model = PoissonNMF(3, random_state=0).fit(small_counts)
    twin = copied(model)
    np.testing.assert_array_equal(twin.transform(small_counts), model.transform(small_counts))
    assert twin.status_ == model.status_
    np.testing.assert_array_equal(twin.trace_["objective"], model.trace_["objective"])
    unfitted = copied(PoissonNMF(3, random_state=0))
    np.testing.assert_array_equal(unfitted.fit(small_counts).components_, model.components_)
