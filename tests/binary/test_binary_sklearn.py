"""scikit-learn's checks, on estimators that threshold their input (there is no tag for bits)."""

from __future__ import annotations

from typing import Any

import pytest
import sklearn.utils.estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from thresholding import ThresholdingBinaryNMF, ThresholdingLogisticPCA

SHORT = {"n_draws": 3, "burn_in": 2, "thin": 1, "n_chains": 1, "random_state": 0}
ESTIMATORS = [
    ThresholdingBinaryNMF(3, **SHORT),
    ThresholdingBinaryNMF(2, model="dir-beta", inference="cvb0", max_iter=5, tol=0, random_state=0),
    ThresholdingBinaryNMF(2, inference="em", max_iter=5, tol=0, random_state=0),
    ThresholdingBinaryNMF(2, inference="vb", max_iter=5, tol=0, random_state=0),
    ThresholdingLogisticPCA(1, penalty=1.0, max_iter=20, tol=0, random_state=0),
]

# What scikit-learn runs on its own estimators beyond `check_estimator` (sklearn/tests/test_common.py).
# Not check_dataframe_column_names_consistency: features are matched by name, and columns may be in any order.
FURTHER_CHECKS = [
    "check_get_feature_names_out_error",
    "check_global_output_transform_pandas",
    "check_n_features_in",
    "check_param_validation",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
]


# These two take anything with predict_proba for a classifier with a column a class; ours has a column a feature. That
# sparse bits are as good as dense ones is tested in test_binary_estimator.py.
NOT_A_CLASSIFIER = dict.fromkeys(
    ("check_estimator_sparse_array", "check_estimator_sparse_matrix"),
    "predict_proba gives the probability of each feature, not of each class",
)


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: NOT_A_CLASSIFIER)
def test_common_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# These checks fit with names and pass arrays, or the other way round: the warning is scikit-learn's own.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
@pytest.mark.parametrize("estimator", [ESTIMATORS[0], ESTIMATORS[4]], ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("name", FURTHER_CHECKS)
def test_further_common_checks(estimator: Any, name: str) -> None:
    getattr(checks, name)(type(estimator).__name__, estimator)
