"""scikit-learn's checks, on estimators that round their input (there is no tag for counts)."""

from __future__ import annotations

from typing import Any

import pytest
import sklearn.utils.estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from rounding import RoundingNegativeBinomial

ESTIMATORS = [
    RoundingNegativeBinomial(2, max_iter=10, tol=0.0, random_state=0),
    RoundingNegativeBinomial(2, dispersion="sample", max_iter=5, tol=0.0, random_state=0),
]

# What scikit-learn runs on its own estimators beyond `check_estimator` (sklearn/tests/test_common.py).
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


@parametrize_with_checks(ESTIMATORS)
def test_common_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# These checks fit with names and pass arrays, or the other way round: the warning is scikit-learn's own.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.parametrize("name", FURTHER_CHECKS)
def test_further_common_checks(estimator: Any, name: str) -> None:
    getattr(checks, name)(type(estimator).__name__, estimator)
