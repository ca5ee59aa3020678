"""scikit-learn's checks, on an estimator that rounds its input (there is no tag for counts)."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from rounding import RoundingAllocation

ESTIMATORS = [
    RoundingAllocation(2, n_draws=5, burn_in=5, random_state=0),
    RoundingAllocation(2, inference="vb", max_iter=300, random_state=0),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_common_checks(estimator: Any, check: Any) -> None:
    check(estimator)
