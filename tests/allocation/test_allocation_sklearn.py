"""scikit-learn's checks, on an estimator that rounds its input (there is no tag for counts)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils.estimator_checks import parametrize_with_checks

from partwise import AllocationNMF


def rounded(X: Any) -> Any:
    """The same object with whole numbers in it; what is not numeric is left for the estimator to refuse."""
    if sp.issparse(X) and X.dtype.kind == "f":
        coo = X.tocoo(copy=True)
        coo.data = np.round(coo.data)
        return coo.asformat(X.format)
    if (isinstance(X, np.ndarray) and X.dtype.kind == "f") or hasattr(X, "columns"):
        return X.round()
    if not isinstance(X, np.ndarray) or X.dtype.kind == "O":
        try:
            return np.round(np.asarray(X, dtype=np.float64))
        except (TypeError, ValueError):
            return X
    return X


class RoundingAllocation(AllocationNMF):
    def _data(self, X: Any, **options: Any) -> Any:
        return super()._data(rounded(X), **options)


ESTIMATORS = [
    RoundingAllocation(2, n_draws=5, burn_in=5, random_state=0),
    RoundingAllocation(2, inference="vb", max_iter=300, random_state=0),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_common_checks(estimator: Any, check: Any) -> None:
    check(estimator)
