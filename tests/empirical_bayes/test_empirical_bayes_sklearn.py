"""scikit-learn's checks, and the further ones that scikit-learn runs on itself."""

from __future__ import annotations

from typing import Any

import pytest
import sklearn.utils.estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from partwise import EmpiricalBayesPoissonNMF

ESTIMATORS = [
    EmpiricalBayesPoissonNMF(2, random_state=0),
    EmpiricalBayesPoissonNMF(2, activation_prior="gamma", dictionary_prior="gamma", init="greedy", random_state=0),
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


@parametrize_with_checks(ESTIMATORS)
def test_common_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# These checks fit with names and pass arrays, or the other way round: the warning is scikit-learn's own.
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
@pytest.mark.parametrize("name", FURTHER_CHECKS)
def test_further_common_checks(name: str) -> None:
    getattr(checks, name)("EmpiricalBayesPoissonNMF", EmpiricalBayesPoissonNMF(2, random_state=0))
